"""Replay: does a recorded request still get the history that was sent, and if not, why (DESIGN section 7)."""

from __future__ import annotations

from typing import Literal

import msgspec

from turnlog.store import Event, Store
from turnlog.store.events import RequestFrame

from .problems import redacted_sources
from .reading import Reading
from .timelines.catch_up import RULES
from .timelines.timeline import Timeline, timeline_of

Outcome = Literal["same", "redaction", "rules", "unexplained", "not-recorded"]


class Cause(msgspec.Struct, frozen=True):
    """An event that explains a difference, as the version that it has in a conversation."""

    conversation: str
    version: int


class Replayed(msgspec.Struct, frozen=True):
    """A `request` projected again. `by` are the redactions that explain a difference.

    In a fork they may be later events of its parent, which it does not show: `by` says whose each is.

    `rules`: another revision of the rules projected it. `unexplained`: nothing in the log explains the difference.
    `not-recorded`: the request has no digest to compare with.
    """

    conversation: str
    version: int
    scope: str
    at: int
    outcome: Outcome
    by: list[Cause]


def replay(store: Store, conversation: str) -> list[Replayed]:
    """Project every recorded request of a conversation again, in order.

    The timelines that this needs are built in memory from the log: an audit does not trust those that are stored.

    :raises NotFound: there is no such conversation.
    """
    with store.db.snapshot():
        reading = Reading(store, conversation)
        lines: dict[str, Timeline] = {}
        found = []
        for event in store.events(reading.stream, types=("request",)):
            if isinstance(event.frame, RequestFrame):
                scope = event.scope or "chat"
                if scope not in lines:
                    lines[scope] = timeline_of(store, reading.stream, scope, audit=True)
                found.append(_replayed(lines[scope], reading, event, event.frame))
        return found


def _replayed(timeline: Timeline, reading: Reading, event: Event, frame: RequestFrame) -> Replayed:
    outcome: Outcome = "unexplained"
    by: list[Cause] = []
    then = reading.at(frame.at)
    if frame.history is None:
        outcome = "not-recorded"
    elif timeline.view(then).digest == frame.history:
        outcome = "same"
    elif timeline.view(reading.at(frame.at, reading.redactions.before(event))).digest == frame.history:
        outcome = "redaction"
        by = [_cause(reading, each) for each in redacted_sources(timeline, frame.at, reading, event)]
    elif frame.rules is not None and frame.rules != RULES:
        outcome = "rules"
    return Replayed(reading.conversation, event.version, timeline.scope, frame.at, outcome, by)


def _cause(reading: Reading, event: Event) -> Cause:
    if reading.stream.owner(event.version).uuid == event.conversation:
        return Cause(reading.conversation, event.version)
    return Cause(reading.store.stream(event.conversation).label, event.version)
