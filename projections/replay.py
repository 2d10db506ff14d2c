"""Replay: does a recorded request still get the history that was sent, and if not, why (DESIGN section 7)."""

from __future__ import annotations

from typing import Literal

import msgspec

from turnlog.store import Event, Store
from turnlog.store.events import RequestFrame

from .fold import RULES
from .history import view_of
from .reading import Reading

Outcome = Literal["same", "redaction", "rules", "unexplained", "not-recorded"]


class Replayed(msgspec.Struct, frozen=True):
    """A `request` projected again. `by` are the versions of the redactions that explain a difference.

    `rules`: another revision of the rules projected it. `unexplained`: nothing in the log explains the difference.
    `not-recorded`: the request has no digest to compare with.
    """

    conversation: str
    version: int
    scope: str
    at: int
    outcome: Outcome
    by: list[int]


def replay(store: Store, conversation: str) -> list[Replayed]:
    """Project every recorded request of a conversation again, in order.

    :raises NotFound: there is no such conversation.
    """
    reading = Reading(store, conversation)
    return [
        _replayed(reading, event, event.frame)
        for event in store.events(conversation, types=("request",))
        if isinstance(event.frame, RequestFrame)
    ]


def _replayed(reading: Reading, event: Event, frame: RequestFrame) -> Replayed:
    scope = event.scope or "chat"
    view = view_of(reading.at(frame.at), scope)
    outcome: Outcome = "unexplained"
    by: list[int] = []
    if frame.history is None:
        outcome = "not-recorded"
    elif view.digest == frame.history:
        outcome = "same"
    elif view_of(reading.at(frame.at, reading.redactions.before(event)), scope).digest == frame.history:
        outcome = "redaction"
        by = sorted({found.version for source in view.sources for found in reading.redactions.since(event, source)})
    elif frame.rules is not None and frame.rules != RULES:
        outcome = "rules"
    return Replayed(reading.conversation, event.version, scope, frame.at, outcome, by)
