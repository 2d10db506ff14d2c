"""The search index as rows of the store's file: how far it has come, taking events in, and dropping it.

The index holds words and positions, no texts. FTS5 can take a row's words out of it only by merging the whole index
(before SQLite 3.42) or by a format that older builds cannot read (since then), so an erasure drops it, within its own
transaction, and the next search makes it again. The file is written anew for an erasure anyway, which costs as much.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterable, Sequence
from hashlib import sha256
from typing import Any, Protocol

from .database import Database
from .derived_tables import SEARCH_TABLES, forget_damaged, is_sound, is_unwritable
from .excerpts import TOKENIZE
from .words import spaced, words_of

# Which words an event has: raised when a change of `words` finds others, so that an older index is made again.
RULES = 1
_STEP = 0.006  # Seconds of a step's own work; what FTS5 does when it commits comes on top.
ROWS = 64

SEARCH = f"CREATE VIRTUAL TABLE search USING fts5 (text, content = '', {TOKENIZE})"
_CHECKPOINT = (
    "CREATE TABLE search_checkpoint (only INTEGER PRIMARY KEY CHECK (only = 1), position INTEGER NOT NULL,"
    " rules INTEGER NOT NULL, seal BLOB) STRICT"
)
# Two small rows of FTS5's own, its totals and its segments, which change with everything that is written to it.
_SEALED = "SELECT coalesce(CAST(block AS BLOB), x'') FROM search_data WHERE id IN (1, 10) ORDER BY id"
SHADOWS = {"search_data": 2, "search_idx": 3, "search_docsize": 2}  # How many columns each has.
_OURS = f"({', '.join(repr(name) for name in SEARCH_TABLES)})"
INSERT = "INSERT INTO search (rowid, text) VALUES (?, ?)"
MATCH = "SELECT rowid FROM search WHERE search MATCH ? ORDER BY rank, rowid"


class Readable(Protocol):
    """What a state of the store can be read through: the store's own connection, or another."""

    def rows(self, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Return all rows of a query."""
        ...


def position_of(db: Readable) -> int | None:
    """Return the position up to which the file's index has come: 0 if there is none, None if it cannot be trusted."""
    tables = dict(db.rows(f"SELECT name, sql FROM sqlite_schema WHERE name IN {_OURS}"))
    if not tables:
        return 0
    if tables.get("search") != SEARCH or tables.get("search_checkpoint") != _CHECKPOINT:
        return None
    try:
        rows = db.rows(
            "SELECT position, rules, (SELECT max(id) FROM search_docsize), (SELECT max(position) FROM events), seal"
            " FROM search_checkpoint"
        )
        if len(rows) != 1:
            return None
        position, rules, last, top, seal = rows[0]
        if seal is not None and seal != _seal(db):
            return None
    except sqlite3.DatabaseError as error:
        if is_unwritable(error):
            raise
        return None
    if rules != RULES or not isinstance(position, int) or not isinstance(top, int):
        return None
    return position if 0 < position <= top and (last or 0) <= position else None


def is_sealed(db: Readable) -> bool:
    """Return whether it would be noticed if somebody else wrote to the file's index."""
    return db.rows("SELECT 1 FROM search_checkpoint WHERE seal IS NOT NULL") != []


def seal(db: Database) -> None:
    """Write down how the index is now, inside a transaction that has not written to it.

    FTS5 writes when a transaction ends, so that the one that took events in cannot do it.
    """
    if position_of(db) and not is_sealed(db):
        db.insert("UPDATE search_checkpoint SET seal = ?", [(_seal(db),)])


def _seal(db: Readable) -> bytes:
    return sha256(b"".join(block for (block,) in db.rows(_SEALED))).digest()


def top_of(db: Readable) -> int:
    """Return the position of the log's last event; 0 if there is none."""
    return int(db.rows("SELECT max(position) FROM events")[0][0] or 0)


def copy_shadows(
    connection: sqlite3.Connection, read: Callable[[str], Iterable[tuple[Any, ...]]], position: int
) -> None:
    """Fill an empty index of a connection with what another holds, which comes to `position`."""
    connection.execute("BEGIN")
    for name, width in SHADOWS.items():
        connection.execute(f"DELETE FROM {name}")
        values = ", ".join("?" * width)
        connection.executemany(f"INSERT INTO {name} VALUES ({values})", read(f"SELECT * FROM {name}"))
    connection.execute("COMMIT")
    # FTS5 forgets what it knew of its tables when a write is rolled back.
    connection.execute("BEGIN")
    connection.execute(INSERT, (position + 1, ""))
    connection.execute("ROLLBACK")


def rows_after(db: Readable, position: int, count: int) -> list[tuple[int, str | None]]:
    """Return position and body of the next events of the log."""
    return db.rows("SELECT position, body FROM events WHERE position > ? ORDER BY position LIMIT ?", (position, count))


def entry_of(row: tuple[int, str | None]) -> tuple[int, str] | None:
    """Return the index's row for an event; None if it says nothing or was erased."""
    text = words_of(row[1]) if isinstance(row[1], str) else ""
    return (row[0], spaced(text)) if text else None


def purge(db: Database, positions: Sequence[int]) -> None:
    """Drop the index if it may hold a word of these events, inside the transaction that erases them."""
    if not db.rows(f"SELECT 1 FROM sqlite_schema WHERE name IN {_OURS}"):
        return
    if not is_sound(db, SEARCH_TABLES):
        forget_damaged(db, SEARCH_TABLES)
        return
    held = position_of(db)
    if held is None or any(position <= held for position in positions):
        _drop(db)


def drop(db: Database) -> None:
    """Drop the index, whatever state it is in, inside the caller's transaction."""
    if is_sound(db, SEARCH_TABLES):
        _drop(db)
    else:
        forget_damaged(db, SEARCH_TABLES)


def _drop(db: Database) -> None:
    for name in SEARCH_TABLES:
        row = db.row("SELECT type FROM sqlite_schema WHERE name = ?", (name,))
        if row is None:
            continue
        try:
            db.rows(f"DROP {row[0]} {name}")
        except sqlite3.DatabaseError as error:
            if is_unwritable(error):
                raise
            forget_damaged(db, [name])


def step(db: Database) -> tuple[int, int]:
    """Take events in for a few milliseconds, inside a transaction; return how many, and up to which position.

    It is one event at least, however slow the machine: a step that gets nowhere would be taken for ever.
    """
    began = time.perf_counter()
    position = position_of(db)
    if position is None:
        drop(db)
        position = 0
    if not position and not db.rows("SELECT 1 FROM sqlite_schema WHERE name = 'search'"):
        db.rows(SEARCH)
        db.rows(_CHECKPOINT)
    count = 0
    late = False
    while not late and (rows := rows_after(db, position, ROWS)):
        for row in rows:
            entry = entry_of(row)
            if entry is not None:
                db.insert(INSERT, [entry])
            position = max(position + 1, row[0])  # Rows that are damaged may be in another order.
            count += 1
            late = time.perf_counter() - began >= _STEP
            if late:
                break
    db.insert("INSERT OR REPLACE INTO search_checkpoint VALUES (1, ?, ?, NULL)", [(position, RULES)])
    return count, position
