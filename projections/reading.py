"""A conversation read up to a point: the events that its views are made of."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import get_args

from turnlog.store import SCOPES, Event, InvalidEvent, NotFound, Row, Store
from turnlog.store.events import Mode
from turnlog.store.streams import Stream
from turnlog.store.times import Clock

from .fold import Modes
from .ranges import Shaping
from .redactions import Redactions
from .state import SHARED

MODES: tuple[Mode, ...] = get_args(Mode)


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
        self.redactions = redactions or Redactions(store.redactions(self.stream))

    def at(self, version: int, redactions: Redactions | None = None) -> Reading:
        """The same conversation up to another version, with other redactions if they are given."""
        return Reading(self.store, self.stream, version, redactions or self.redactions)

    def shapes(self, scope: str) -> Iterator[Row]:
        """The events that a view of `scope` folds, without what they say."""
        return self.store.shapes(self.stream, self.version, {scope, SHARED, None})

    def shaping(self, scope: str) -> list[Shaping]:
        """Those of them that change the shape of the view."""
        return self.store.shaping(self.stream, self.version, {scope, SHARED, None})

    def requests(self, scope: str) -> Iterator[Event]:
        """The requests of a scope."""
        return self.store.events(self.stream, 1, self.version, types=("request",), scopes={scope})

    def modes(self, scope: str, mode: Mode | None, modes: Mapping[int, Mode] | None) -> Modes:
        """The what-if of rule 9 for a view of `scope`; takes what `history` takes.

        :raises NotFound: there is no such scope.
        :raises InvalidEvent: a mode is unknown, or a key is no version.
        """
        self._check_scope(scope)
        given = modes or {}
        for version in given:
            if not isinstance(version, int) or isinstance(version, bool):
                raise InvalidEvent("modes", version, "is not a version")
        for field, value in (("mode", mode), *((f"modes.{version}", each) for version, each in given.items())):
            if value is not None and value not in MODES:
                raise InvalidEvent(field, value, f"is not one of {', '.join(MODES)}")
        return Modes(mode, given)

    def _check_scope(self, scope: str) -> None:
        if scope in SCOPES or scope in self.store.described_scopes(self.stream):
            return
        scopes = self.store.scopes(self.stream)
        if scope not in scopes:
            raise NotFound("scope", scope, f"is not one of {', '.join(scopes)}")


def resolve(store: Store, conversation: Stream, at: int | datetime | None, clock: Clock = "event") -> int:
    """Return the version that a point means: a version, an aware time by a clock (`Store.version_at`), or None for the
    latest.

    :raises NotFound: there is no such conversation or version.
    :raises InvalidEvent: the point is neither a version nor an aware time, or the clock is unknown.
    """
    latest = store.version(conversation)
    if at is None:
        return latest
    if isinstance(at, datetime):
        if at.tzinfo is None:
            raise InvalidEvent("at", at.isoformat(), "has no time zone")
        return store.version_at(conversation, at, clock=clock)
    if isinstance(at, bool) or not isinstance(at, int):
        raise InvalidEvent("at", at, "is neither a version nor a time")
    if not 0 <= at <= latest:
        raise NotFound("version", at, f"is not between 0 and {latest}, the last of {conversation.label}")
    return at
