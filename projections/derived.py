"""Make again what is derived from the log and stored beside it, and compare it with the log."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from turnlog.store import Store
from turnlog.store.spans import NEVER, LineRow, Spans, TimelineKey
from turnlog.store.streams import Stream

from .timelines.catch_up import RULES, Lines
from .timelines.modes import WhatIf
from .timelines.timeline import Timeline

Progress = Callable[[int, int], None]


def rebuild(store: Store, progress: Progress = lambda done, total: None) -> int:
    """Drop the search index and every timeline, and make those of every scope that is used again; return how many.

    :raises StoreReadOnly: the store was opened read-only.
    :raises StoreBusy: the lock was not had in time.
    """
    with store.db.transaction():
        Spans(store.db, "main").create()
        store.db.derived.clear()
    store.index.rebuild()
    return catch_up(store, None, progress)[0]


def catch_up(store: Store, conversation: str | None, progress: Progress) -> tuple[int, int]:
    """Catch up the timelines of a conversation, or of all, in every scope that is used.

    Return how many are stored in the file now, and how many there are.

    `progress` hears how many are done and how many there are.

    :raises NotFound: there is no such conversation.
    """
    names = [each.uuid for each in store.conversations()] if conversation is None else [conversation]
    lines = [(stream, scope) for stream in map(store.stream, names) for scope in store.scopes_in_use(stream)]
    stored = 0
    for done, (stream, scope) in enumerate(lines, start=1):
        stored += Timeline(store, stream, scope, WhatIf()).line(store.version(stream)).is_stored
        progress(done, len(lines))
    return stored, len(lines)


def differences(store: Store) -> Iterator[str]:
    """Build every stored timeline again in memory from the log, and name those that differ, one a line."""
    rows = Spans(store.db, "main")
    if not rows.exists():
        return
    streams = {stream.key: stream for stream in (store.stream(each.uuid) for each in store.conversations())}
    for key, line in rows.lines():
        if key.rules != RULES or key.what_if:
            continue
        stream = streams.get(key.conversation)
        if stream is None or line.version > store.version(stream):
            yield f"timeline {line.line}: no conversation has its events"
        elif table := _first_difference(store, rows, stream, key, line):
            yield f"timeline of {stream.label}, {key.scope}: its {table} are not what the log gives"


def _first_difference(store: Store, rows: Spans, stream: Stream, key: TimelineKey, line: LineRow) -> str | None:
    """Return the name of the first table in which a stored timeline differs from one that is built from the log."""
    with store.db.snapshot():
        built = Lines.of(store).audited(stream, key.scope, WhatIf(), line.version, line.secret)
        for table in ("spans", "hidings", "uses", "meanings", "facts", "blocks", "notes", "names", "segments"):
            if rows.content(table, line.line) != built.rows.content(table, built.line):
                return table
        for version, visible, hidden in rows.counts(line.line, NEVER):
            if (visible, hidden) != built.rows.totals(built.line, version):
                return "counts"
    return None
