"""Search: full text over everything said, hidden messages included and marked."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from datetime import datetime
from typing import Any, NamedTuple

import msgspec

from turnlog.store import Event, Store
from turnlog.store.arguments import instance_of, microseconds, text, whole_number
from turnlog.store.spans import ROLES, RULES_THAT_HIDE, version_of
from turnlog.store.streams import Stream
from turnlog.store.terms import Terms
from turnlog.store.words import phrases_of, texts_in

from .render import FIELDS
from .timelines.catch_up import Line
from .timelines.item import Item
from .timelines.modes import WhatIf
from .timelines.timeline import Timeline


class Found(msgspec.Struct, frozen=True):
    """An event that says what was searched for. `hidden_by` is the rule and event if it is not visible now."""

    conversation: str
    version: int
    scope: str | None
    type: str
    role: str | None
    assistant: str | None
    recorded_at: datetime
    visible: bool
    hidden_by: tuple[str, int] | None
    snippet: str


def search(
    store: Store,
    query: str,
    *,
    conversation: str | None = None,
    scope: str | None = None,
    role: str | None = None,
    assistant: str | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
    limit: int = 20,
) -> list[Found]:
    """Return the events in which all words of `query` occur, best first; hidden ones are marked.

    The words are searched as typed: no character of them is an operator. The index is caught up first, in memory where
    the file cannot be written. The time of an event is when it occurred or, if nobody said so, when it was recorded.

    :raises NotFound: there is no such conversation.
    :raises InvalidArgument: a time has no time zone, or another argument is not what it has to be.
    :raises StoreUnusable: the store cannot be read.
    """
    whole_number("limit", limit, 1, "a number of events")
    phrases = phrases_of(instance_of("query", query, str, "text"))
    first, end = (
        None if time is None else microseconds(field, time) for field, time in (("since", since), ("until", until))
    )
    for field, value in (("scope", scope), ("role", role), ("assistant", assistant)):
        if value is not None:
            text(field, value)
    asked = None if conversation is None else store.stream(conversation)
    if not phrases:
        return []
    found: list[Found] = []
    with closing(Terms([query])) as terms:
        marks = _Marks(store, asked, terms)
        for identity, version in store.index.find(phrases, asked, scope, first, end):
            event = store.event(identity, version)
            each = marks.found(event, "")
            if event.body_text is None or role not in (None, each.role) or assistant not in (None, each.assistant):
                continue
            found.append(msgspec.structs.replace(each, snippet=store.index.excerpt(event.body_text, phrases)))
            if len(found) == limit:
                break
    return found


def texts_by_origin(body: Mapping[str, Any]) -> dict[int, str]:
    """Return what an event says in each of the fields that a message can show, by the message's origin."""
    texts = {origin: " ".join(texts_in(body.get(field))) for origin, field in enumerate(FIELDS)}
    return {origin: text for origin, text in texts.items() if text}


def origins_with(terms: Terms, body: Mapping[str, Any]) -> set[int]:
    """Return the origins of the messages that show, of an event, a field with any of the words of a term."""
    texts = texts_by_origin(body)
    return {list(texts)[number] for number in terms.partly_in(list(texts.values()))}


class _Mark(NamedTuple):
    """Who said what was found, and whether it is visible now."""

    role: str | None
    assistant: str | None
    visible: bool
    hidden_by: tuple[str, int] | None


class _Marks:
    """Says who said what was found, and whether it is visible now.

    That is said of the conversation that was asked for or, if none was, of that which an event was appended to.
    """

    def __init__(self, store: Store, asked: Stream | None, terms: Terms) -> None:
        self._store = store
        self._terms = terms
        self._asked = asked
        self._timelines: dict[tuple[str, str], tuple[Timeline, int]] = {}

    def found(self, event: Event, snippet: str) -> Found:
        """Return an event as it was found."""
        stream = self._asked or self._store.stream(event.conversation)
        mark = _Mark(None, None, False, None)
        if event.scope is not None:
            timeline, latest = self._timeline(stream, event.scope)
            mark = timeline.ask(latest, lambda line, at: _mark(timeline, line, at, event, self._terms))
        return Found(
            conversation=stream.label,
            version=event.version,
            scope=event.scope,
            type=event.type,
            role=mark.role,
            assistant=mark.assistant,
            recorded_at=event.recorded_at,
            visible=mark.visible,
            hidden_by=mark.hidden_by,
            snippet=snippet,
        )

    def _timeline(self, stream: Stream, scope: str) -> tuple[Timeline, int]:
        key = (stream.uuid, scope)
        if key not in self._timelines:
            timeline = Timeline(self._store, stream, scope, WhatIf())
            self._timelines[key] = timeline, self._store.version(stream)
        return self._timelines[key]


def _mark(timeline: Timeline, line: Line, at: int, event: Event, terms: Terms) -> _Mark:
    """Return who said what an event says, of all that shows the words what is visible first."""
    items = _shown_by(timeline, line, event.version, at)
    origins = origins_with(terms, event.body) if len(items) > 1 else ()
    items = [each for each in items if each.origin in origins] or items
    item = next((each for each in items if each.why is None), next(iter(items), None))
    if item is None:
        return _Mark(None, None, False, None)
    assistant = None if item.assistant is None else line.rows.names(line.line)[item.assistant]
    hidden_by = None if item.why is None else (RULES_THAT_HIDE[item.why.rule], item.why.by)
    return _Mark(ROLES[item.role], assistant, item.why is None, hidden_by)


def _shown_by(timeline: Timeline, line: Line, version: int, at: int) -> list[Item]:
    """Return the messages that show the text of an event, what it placed itself first."""
    items = [item for item in timeline.items(line, version, version, at) if item.source == version]
    for placed in sorted({version_of(row) for row in line.rows.showing_source(line.line, version)}):
        items += [item for item in timeline.items(line, placed, placed, at) if item.source == version]
    return sorted(items, key=lambda item: (item.version, item.origin))
