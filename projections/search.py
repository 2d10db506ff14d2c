"""Search: full text over everything said, in an index that is one more projection with its own checkpoint."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any

import msgspec

from turnlog.store import Event, InvalidEvent, Store
from turnlog.store.chain import microseconds_of
from turnlog.store.events import texts_of
from turnlog.store.streams import Stream

from .history import History, view_of
from .reading import Reading
from .view import Item

_PAGE = 1000
# Scripts written without spaces (or, Hangul, with particles attached): each character is a word of its own, and a
# word that is searched for is a phrase of them.
_UNSPACED = re.compile(
    "([\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff"
    "\uff66-\uff9f\U00020000-\U0003ffff])"
)
_SEPARATOR = "\u200b"


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
    """The events in which all words of `query` occur, best first; hidden ones are marked.

    The words are searched as typed: no character of them is an operator. The index is caught up first, unless the
    store was opened read-only.

    :raises NotFound: there is no such conversation.
    """
    if limit < 1:
        raise InvalidEvent("limit", limit, "is not a number of events")
    words = _words(query)
    if not words:
        return []
    if not store.db.read_only:
        catch_up(store)
    asked = None if conversation is None else store.stream(conversation)
    conditions = ""
    parameters: list[Any] = []
    if asked is not None:
        # Of a fork, what it shares with its parents too.
        owned = "events.conversation = ? AND events.version BETWEEN ? AND ?"
        conditions = f" AND ({' OR '.join([owned] * len(asked.lineage))})"
        parameters = [bound for segment in asked.lineage for bound in (segment.key, segment.first, segment.last)]
    for condition, value in (
        ("events.scope = ?", scope),
        ("events.recorded_at >= ?", None if since is None else microseconds_of(since)),
        ("events.recorded_at < ?", None if until is None else microseconds_of(until)),
    ):
        if value is not None:
            conditions += f" AND {condition}"
            parameters.append(value)
    rows = store.db.rows(
        "SELECT conversations.uuid, events.version, snippet(search, 0, '«', '»', '…', 16) FROM search"
        " JOIN events ON events.position = search.rowid JOIN conversations ON conversations.key = events.conversation"
        f" WHERE search MATCH ?{conditions} ORDER BY rank, events.position",
        (words, *parameters),
    )
    views = _Views(store, asked)
    found = []
    for identity, version, snippet in rows:
        each = views.found(store.event(identity, version), snippet, query)
        if (role is None or each.role == role) and (assistant is None or each.assistant == assistant):
            found.append(each)
            if len(found) == limit:
                break
    return found


def catch_up(store: Store, progress: Callable[[int, int], None] = lambda done, total: None) -> int:
    """Take into the index what was appended since; how many events that were.

    Each page is one transaction with the index's checkpoint, so that a kill loses nothing, and reads the events inside
    it, so that nothing redacted meanwhile gets in.
    """
    count = 0
    while True:
        with store.db.transaction():
            row = store.db.row("SELECT position FROM search_checkpoint")
            position = 0 if row is None else int(row[0])
            page = _page(store, position)
            if not page:
                return count
            entries = [(event.position, _spaced(said)) for event in page if (said := said_by(event))]
            if entries:
                store.db.insert("INSERT INTO search (rowid, said) VALUES (?, ?)", entries)
            store.db.insert(
                "INSERT INTO search_checkpoint (only, position) VALUES (1, ?)"
                " ON CONFLICT (only) DO UPDATE SET position = excluded.position",
                [(page[-1].position,)],
            )
        count += len(page)
        progress(page[-1].position, int((store.db.row("SELECT max(position) FROM events") or (0,))[0]))


def rebuild(store: Store, progress: Callable[[int, int], None] = lambda done, total: None) -> int:
    """Make the index anew; how many events it was made of."""
    with store.db.transaction():
        store.db.rows("DELETE FROM search")
        store.db.rows("DELETE FROM search_checkpoint")
    return catch_up(store, progress)


def said_by(event: Event) -> str:
    """All that an event says, as text."""
    body = event.body
    texts = [text for field in texts_of(event.type) for text in _texts(body.get(field))]
    calls = body.get("tool_calls")
    for call in calls if isinstance(calls, list) else ():
        if isinstance(call, dict):
            texts += [*_texts(call.get("name")), *_texts(call.get("arguments"))]
    return "\n".join(texts)


def _texts(content: Any) -> Iterator[str]:
    if isinstance(content, str) and content:
        yield content
    elif isinstance(content, list):
        for part in content:
            if isinstance(part, dict):
                yield from _texts(part.get("text"))


def _page(store: Store, position: int) -> list[Event]:
    page = []
    for event in store.follow(position):
        page.append(event)
        if len(page) == _PAGE:
            break
    return page


def _words(query: str) -> str:
    """The query as FTS5 takes it: every word a quoted phrase, so that nothing in it is an operator."""
    words = [word for word in query.split() if any(character.isalnum() for character in word)]
    return " ".join('"' + _spaced(word).replace('"', '""') + '"' for word in words)


def _spaced(text: str) -> str:
    # A NUL would end the text for the tokenizer.
    return _UNSPACED.sub(rf"{_SEPARATOR}\1{_SEPARATOR}", text.replace("\0", " "))


def _mentions(content: Any, query: str) -> bool:
    """Whether a field, of several that an event has, is one that the words were found in."""
    said = " ".join(_texts(content)).casefold()
    return any(word.casefold() in said for word in query.split())


class _Views:
    """The views that say who said what was found and whether it is visible now, each folded once.

    They are views of the conversation that was asked for or, if none was, of that which an event was appended to.
    """

    def __init__(self, store: Store, asked: Stream | None) -> None:
        self._store = store
        self._asked = asked
        self._views: dict[tuple[str, str], tuple[History, dict[int, list[Item]]]] = {}

    def found(self, event: Event, snippet: str, query: str) -> Found:
        """An event as it was found."""
        item, hiding = None, None
        stream = self._asked or self._store.stream(event.conversation)
        if event.scope is not None:
            view, by_source = self._view(stream, event.scope)
            items = by_source.get(event.version, [])
            body = event.body
            items = [each for each in items if _mentions(body.get(each.body_field), query)] or items
            shown = [each for each in items if view.hiding(each) is None]
            item = next(iter([*shown, *items]), None)
            hiding = None if item is None else view.hiding(item)
        return Found(
            conversation=stream.label,
            version=event.version,
            scope=event.scope,
            type=event.type,
            role=None if item is None else item.role,
            assistant=None if item is None else item.assistant,
            recorded_at=event.recorded_at,
            visible=item is not None and hiding is None,
            hidden_by=None if hiding is None else (hiding.rule, hiding.by),
            snippet=snippet.replace(_SEPARATOR, ""),
        )

    def _view(self, stream: Stream, scope: str) -> tuple[History, dict[int, list[Item]]]:
        key = (stream.uuid, scope)
        if key not in self._views:
            view = view_of(Reading(self._store, stream), scope)
            by_source: dict[int, list[Item]] = {}
            for item in view.everything:
                by_source.setdefault(item.source, []).append(item)
            self._views[key] = view, by_source
        return self._views[key]
