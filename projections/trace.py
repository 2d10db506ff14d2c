"""Trace: when the messages with some words were visible, and which transfer mode would have kept them."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from functools import partial
from typing import Any

import msgspec

from turnlog.store import Store
from turnlog.store.arguments import instance_of
from turnlog.store.events import Mode
from turnlog.store.spans import ORIGINS, version_of
from turnlog.store.streams import Stream
from turnlog.store.terms import Terms
from turnlog.store.words import phrases_of

from .search import origins_with, texts_by_origin
from .timelines.catch_up import Line
from .timelines.frames import SHARED
from .timelines.modes import MODES, WhatIf
from .timelines.spans import Span
from .timelines.timeline import Timeline, timeline_of


class Traced(msgspec.Struct, frozen=True, omit_defaults=True):
    """A message with the words, in one scope: its lifeline, and which handoff took it from the view.

    `ended_by` is the transfer that ended its last span, if one did, and `kept_by` the modes under which the message
    would have stayed visible after that transfer.
    """

    conversation: str
    scope: str
    version: int
    origin: str
    role: str
    excerpt: str
    spans: list[Span]
    ended_by: int | None = None
    kept_by: list[Mode] = []


def trace(store: Store, conversation: str, words: str, scope: str | None = None) -> list[Traced]:
    """Return what became of every message that has all of these words, in the order of the log.

    :raises NotFound: there is no such conversation or scope.
    """
    instance_of("words", words, str, "text")
    stream = store.stream(conversation)
    if scope is not None:
        timeline_of(store, stream, scope)
    phrases = phrases_of(words)
    versions = sorted(version for _, version in store.index.find(phrases, stream, None, None, None)) if phrases else []
    found: list[Traced] = []
    for version in versions:
        event = store.event(stream, version)
        if event.scope is None or event.body_text is None:
            continue
        scopes = [event.scope] if event.scope != SHARED else store.scopes_in_use(stream) if scope is None else [scope]
        excerpts = _excerpts(event.body, words)
        whole = store.index.excerpt(event.body_text, phrases)
        for name in scopes if scope is None else set(scopes) & {scope}:
            traced = _in_scope(Timeline(store, stream, name, WhatIf()), version, whole)
            found += [
                msgspec.structs.replace(each, excerpt=excerpts[each.origin])
                for each in traced
                if each.origin in excerpts
            ] or traced
    return found


def _excerpts(body: Mapping[str, Any], words: str) -> dict[str, str]:
    """Return a line of each field of an event that has some of the words, by the origin of its message."""
    with closing(Terms([words])) as terms:
        texts = {origin: text for origin, text in texts_by_origin(body).items() if origin in origins_with(terms, body)}
        return dict(zip((ORIGINS[origin] for origin in texts), terms.excerpts(list(texts.values())), strict=True))


def _in_scope(timeline: Timeline, version: int, excerpt: str) -> list[Traced]:
    store, stream = timeline.store, timeline.stream
    placed = timeline.ask(
        store.version(stream),
        lambda line, _: {version, *map(version_of, line.rows.showing_source(line.line, version))},
    )
    lifelines: dict[tuple[int, str], list[Span]] = {}
    for number in sorted(placed):
        for span in timeline.spans(number):
            if span.source == version:
                lifelines.setdefault((number, span.origin), []).append(span)
    transfers = {number for number, _ in store.structural(stream, ("transfer",), {timeline.scope})}
    found = []
    for (number, origin), spans in lifelines.items():
        last = spans[-1]
        cause = last.until if last.until in transfers else None
        found.append(
            Traced(
                conversation=stream.label,
                scope=timeline.scope,
                version=number,
                origin=origin,
                role=last.role,
                excerpt=excerpt,
                spans=spans,
                ended_by=cause,
                kept_by=[] if cause is None else _kept_by(store, stream, timeline.scope, number, origin, cause),
            )
        )
    return found


def _kept_by(store: Store, stream: Stream, scope: str, version: int, origin: str, transfer: int) -> list[Mode]:
    """Return the modes under which a message would be visible after a transfer."""
    found: list[Mode] = []
    for mode in MODES:
        timeline = Timeline(store, stream, scope, WhatIf(None, {transfer: mode}))
        if timeline.ask(transfer, partial(_is_visible, timeline, version, origin)):
            found.append(mode)
    return found


def _is_visible(timeline: Timeline, version: int, origin: str, line: Line, at: int) -> bool:
    items = timeline.items(line, version, version, at)
    return any(item.why is None and ORIGINS[item.origin] == origin for item in items)
