"""A conversation read up to a point: the events that its views are made of."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from turnlog.store import SCOPES, InvalidArgument, NotFound, Store
from turnlog.store.arguments import instance_of, microseconds, one_of, text, whole_number
from turnlog.store.events import Mode
from turnlog.store.streams import Stream
from turnlog.store.times import CLOCKS, Clock

from .redactions import Redactions
from .timelines.modes import MODES, WhatIf


class Reading:
    """A conversation read up to a point, for several views of it."""

    def __init__(
        self,
        store: Store,
        conversation: str | Stream,
        at: int | datetime | None = None,
        redactions: Redactions | None = None,
        clock: Clock = "event",
    ) -> None:
        self.store = store
        self.stream = store.stream(conversation)
        self.conversation = self.stream.label
        self.version = resolve(store, self.stream, at, clock)
        self.redactions = redactions_of(store, self.stream) if redactions is None else redactions

    @classmethod
    def of(cls, store: Store, stream: Stream, version: int) -> Reading:
        """Return a conversation read up to a version that is known to be there."""
        reading = cls.__new__(cls)
        reading.store, reading.stream, reading.conversation, reading.version = store, stream, stream.label, version
        reading.redactions = redactions_of(store, stream)
        return reading

    def at(self, version: int, redactions: Redactions | None = None) -> Reading:
        """Return the same conversation up to another version, with other redactions if they are given."""
        return Reading(self.store, self.stream, version, self.redactions if redactions is None else redactions)


def redactions_of(store: Store, stream: Stream) -> Redactions:
    """Return the redactions of the events that a conversation shows."""
    return store.db.recall(("redactions", stream.key), lambda: Redactions(store.redactions(stream)))


def checked_what_if(
    store: Store, stream: Stream, scope: str, mode: Mode | None, modes: Mapping[int, Mode] | None
) -> WhatIf:
    """Return the what-if of rule 9 for a scope: a mode for every transfer, and modes for single ones, by version.

    :raises NotFound: there is no such scope.
    :raises InvalidArgument: a mode is unknown, or a key is no version.
    """
    if text("scope", scope) not in SCOPES and scope not in store.described_scopes(stream):
        scopes = store.scopes(stream)
        if scope not in scopes:
            raise NotFound("scope", scope, f"is not one of {', '.join(scopes)}")
    if mode is not None:
        one_of("mode", mode, MODES)
    given = dict(instance_of("modes", {} if modes is None else modes, Mapping, "an object of modes by version"))
    for version, each in given.items():
        one_of(f"modes.{whole_number('modes', version, what='a version')}", each, MODES)
    return WhatIf(mode, given)


def resolve(store: Store, conversation: Stream, at: int | datetime | None, clock: Clock = "event") -> int:
    """Return the version that a point means: a version, an aware time by a clock (`Store.version_at`), or None for the
    latest.

    :raises NotFound: there is no such conversation or version.
    :raises InvalidArgument: the point is neither a version nor an aware time, or the clock is unknown.
    """
    one_of("clock", clock, CLOCKS)
    latest = store.version(conversation)
    if at is None:
        return latest
    if isinstance(at, datetime):
        microseconds("at", at)
        return store.version_at(conversation, at, clock=clock)
    if isinstance(at, bool) or not isinstance(at, int):
        raise InvalidArgument("at", at, "is neither a version nor a time")
    if not 0 <= at <= latest:
        raise NotFound("version", at, f"is not between 0 and {latest}, the last of {conversation.label}")
    return at
