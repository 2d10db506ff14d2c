"""Make again what is derived from the log and stored beside it, and compare it with the log."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from turnlog.store import Damaged, Store
from turnlog.store.spans import NEVER, Spans, TimelineKey
from turnlog.store.streams import find_key

from .timelines.catch_up import RULES, Lines
from .timelines.modes import WhatIf
from .timelines.timeline import Timeline

Progress = Callable[[int, int], None]

_PAGE = 1000
# What a row of a timeline may hold: number, conversation, scope, what-if, rules, version and secret.
_TYPES = (int, int, str, str, int, int, bytes)


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
    """Build every stored timeline again in memory from the log, and name those that differ, one a line.

    A row that a newer build wrote, or nobody, is named too. One of an older build is not, since nobody reads it.
    """
    rows = Spans(store.db, "main")
    if not rows.exists():
        return
    last = -NEVER
    while page := rows.after(last, _PAGE):
        for row in page:
            why = _why_different(store, rows, *row) if tuple(map(type, row)) == _TYPES else "is damaged"
            if why is not None:
                yield f"timeline {row[0]!r}: {why}"
        last = page[-1][0]
    for table in rows.strays():
        yield f"timelines: {table} has rows that belong to none"


def _why_different(
    store: Store, rows: Spans, line: int, conversation: int, scope: str, what_if: str, rules: int, *_: object
) -> str | None:
    if rules > RULES or what_if:
        return "was not made by this build, and is not compared"
    if rules < RULES:
        return None
    with store.db.snapshot():
        found = rows.find(TimelineKey(conversation, scope, what_if, rules))
        if found is None or found.line != line:
            return None  # It was dropped meanwhile.
        try:
            stream = find_key(store.db, conversation)
            if stream is None or found.version > store.version(stream):
                return "no conversation has its events"
        except Damaged as error:
            return str(error)
        lines = Lines.of(store)
        built = lines.audited(stream, scope, WhatIf(), found.version, found.secret)
        try:
            table = rows.first_difference(line, built.rows, built.line)
        finally:
            lines.drop(built)
    return None if table is None else f"its {table} are not what the log gives ({stream.label}, {scope})"
