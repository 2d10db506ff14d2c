"""Explain: from which version until which a message was visible, in which form, and what ended that."""

from __future__ import annotations

from datetime import datetime

import msgspec

from turnlog.store import Store

from .reading import Reading
from .redactions import Redactions
from .timelines.catch_up import Line
from .timelines.frames import SHARED
from .timelines.spans import Hidden, Span, hidden_of
from .timelines.timeline import Timeline, timeline_of


class Explained(msgspec.Struct, frozen=True, omit_defaults=True):
    """Tell what became of one thing that an event placed, in one scope, up to a point.

    `spans` is its lifeline. `visible` says whether it is visible at that point; if not, `rule` and `by` are what hides
    it. `calls` are those of its calls that were taken, each with its rule and event.
    """

    scope: str
    origin: str
    spans: list[Span]
    visible: bool
    rule: str | None = None
    by: int | None = None
    calls: list[Hidden] = []


def explain(store: Store, conversation: str, version: int, at: int | datetime | None = None) -> list[Explained]:
    """Return what became of the event of `version`, in each scope that shows such events, up to a point.

    The list is empty for an event that adds no message, such as a `clear`.

    :raises NotFound: there is no such conversation or version.
    """
    event = store.event(conversation, version)
    reading = Reading(store, conversation, at, Redactions(()))
    scopes = store.scopes(reading.stream) if event.scope == SHARED else [event.scope or "chat"]
    lines = [timeline_of(store, reading.stream, scope) for scope in scopes]
    return [each for line in lines for each in _in_scope(line, version, reading.version)]


def _in_scope(timeline: Timeline, version: int, at: int) -> list[Explained]:
    return timeline.ask(max(at, version), lambda line, _: _explained(timeline, line, version, at))


def _explained(timeline: Timeline, line: Line, version: int, at: int) -> list[Explained]:
    spans = timeline.spans_on(line, version)
    found = []
    for item in timeline.items(line, version, version, at):
        now = hidden_of(version, item.origin, item.why or (0, 0), None)
        calls = [
            hidden_of(version, item.origin, reason, timeline.call_id(version, call))
            for call, reason in (sorted(item.removed.items()) if item.why is None else ())
        ]
        found.append(
            Explained(
                scope=timeline.scope,
                origin=now.origin,
                spans=_lifeline(timeline, line, [span for span in spans if span.origin == now.origin], item.origin, at),
                visible=item.why is None,
                rule=None if item.why is None else now.rule,
                by=None if item.why is None else now.by,
                calls=calls,
            )
        )
    return sorted(found, key=lambda each: each.origin)


def _lifeline(timeline: Timeline, line: Line, spans: list[Span], origin: int, at: int) -> list[Span]:
    """Return the spans of a message as they were after version `at`: an empty one, if it is visible only later."""
    found = [_until(span, at) for span in spans if span.since <= at]
    if found or not spans:
        return found
    version = spans[0].version
    reasons = [item.why for item in timeline.items(line, version, version, version) if item.origin == origin]
    then = hidden_of(version, origin, reasons[0] or (0, 0), None)
    return [msgspec.structs.replace(spans[0], since=version, until=version, rule=then.rule, by=then.by, goes_on=False)]


def _until(span: Span, at: int) -> Span:
    """Return a span as it was after version `at`."""
    if span.until is None or span.until <= at:
        return span
    return msgspec.structs.replace(span, until=None, rule=None, by=None, goes_on=False)
