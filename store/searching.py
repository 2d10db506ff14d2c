"""The search index: an FTS5 table beside the log, derived from it, caught up when it is used, dropped by an erasure.

The index holds words and positions, no texts. FTS5 can take a row's words out of it only by merging the whole index
(before SQLite 3.42) or by a format that older builds cannot read (since then), so an erasure drops it, within its own
transaction, and the next search makes it again. The file is written anew for an erasure anyway, which costs as much.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from typing import Any, TypeVar

from .database import Database
from .errors import StoreBusy, StoreReadOnly, StoreUnusable
from .excerpts import TOKENIZE, Excerpts
from .streams import Stream
from .words import spaced, words_of

T = TypeVar("T")
Progress = Callable[[int, int], None]

# Which words an event has: raised when a change of `words` finds others, so that an older index is made again.
RULES = 1
MAX_WAIT = 0.1  # Seconds; what is not had by then is answered in memory.
_STEP = 0.006  # Seconds of a step's own work; what FTS5 does when it commits comes on top.
_PAUSE = 0.001  # Seconds between two steps, in which others get the lock.
_CONTENDED = 0.004  # The same when others have written, who try again within this time.
_ROWS = 64

SEARCH = f"CREATE VIRTUAL TABLE search USING fts5 (text, content = '', {TOKENIZE})"
_CHECKPOINT = (
    "CREATE TABLE search_checkpoint (only INTEGER PRIMARY KEY CHECK (only = 1), position INTEGER NOT NULL,"
    " rules INTEGER NOT NULL) STRICT"
)
SHADOWS = ("search_data", "search_idx", "search_docsize")
_NAMES = ("search", "search_checkpoint", *SHADOWS, "search_content", "search_config")
_OURS = f"({', '.join(repr(name) for name in _NAMES)})"
INSERT = "INSERT INTO search (rowid, text) VALUES (?, ?)"
_MATCH = "SELECT rowid FROM search WHERE search MATCH ? ORDER BY rank, rowid"
# Errors that say that the file cannot be written just now, not that the index in it is damaged.
_UNWRITABLE = frozenset(
    (
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_NOMEM,
        sqlite3.SQLITE_READONLY,
        sqlite3.SQLITE_INTERRUPT,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_PERM,
        sqlite3.SQLITE_AUTH,
    )
)


def position_of(db: Database) -> int | None:
    """Return the position up to which the file's index has come: 0 if there is none, None if it cannot be trusted."""
    tables = dict(db.rows(f"SELECT name, sql FROM sqlite_schema WHERE name IN {_OURS}"))
    if not tables:
        return 0
    if tables.get("search") != SEARCH or tables.get("search_checkpoint") != _CHECKPOINT:
        return None
    try:
        rows = db.rows(
            "SELECT position, rules, (SELECT max(id) FROM search_docsize), (SELECT max(position) FROM events)"
            " FROM search_checkpoint"
        )
    except sqlite3.DatabaseError as error:
        if is_unwritable(error):
            raise
        return None
    if len(rows) != 1:
        return None
    position, rules, last, top = rows[0]
    return int(position) if rules == RULES and 0 < position <= (top or 0) and (last or 0) <= position else None


def top_of(db: Database) -> int:
    """Return the position of the log's last event; 0 if there is none."""
    return int((db.row("SELECT max(position) FROM events") or (0,))[0] or 0)


def rows_after(db: Database, position: int, count: int) -> list[tuple[int, str | None]]:
    """Return position and body of the next events of the log."""
    return db.rows("SELECT position, body FROM events WHERE position > ? ORDER BY position LIMIT ?", (position, count))


def entry_of(row: tuple[int, str | None]) -> tuple[int, str] | None:
    """Return the index's row for an event; None if it says nothing or was erased."""
    text = words_of(row[1]) if isinstance(row[1], str) else ""
    return (row[0], spaced(text)) if text else None


def is_unwritable(error: sqlite3.Error) -> bool:
    """Return whether an error says that the file cannot be written or read just now; else something is damaged."""
    return (getattr(error, "sqlite_errorcode", 0) or 0) & 0xFF in _UNWRITABLE


def purge(db: Database, positions: Sequence[int]) -> None:
    """Drop the index if it may hold a word of these events, inside the transaction that erases them."""
    held = position_of(db)
    if held is None or any(position <= held for position in positions):
        drop(db)


def drop(db: Database) -> None:
    """Drop the index, whatever state it is in, inside the caller's transaction."""
    for name in _NAMES:
        row = db.row("SELECT type FROM sqlite_schema WHERE name = ?", (name,))
        if row is None:
            continue
        try:
            db.rows(f"DROP {'VIEW' if row[0] == 'view' else 'TABLE'} {name}")
        except sqlite3.DatabaseError as error:
            if is_unwritable(error):
                raise
            _forget(db, name)


def _forget(db: Database, name: str) -> None:
    """Take a table out of the schema that is too damaged to be dropped; its pages go when the file is written anew."""
    version = int((db.row("PRAGMA schema_version") or (0,))[0])
    db.rows("PRAGMA writable_schema = ON")
    try:
        db.rows("DELETE FROM sqlite_schema WHERE tbl_name = ?", (name,))
        db.rows(f"PRAGMA schema_version = {version + 1}")
    finally:
        db.rows("PRAGMA writable_schema = RESET")


def _step(db: Database) -> tuple[int, int]:
    """Take events in for a few milliseconds, inside a transaction; return how many, and up to which position."""
    began = time.perf_counter()
    position = position_of(db)
    if position is None:
        drop(db)
        position = 0
    if not position and not db.rows("SELECT 1 FROM sqlite_schema WHERE name = 'search'"):
        db.rows(SEARCH)
        db.rows(_CHECKPOINT)
    count = 0
    while time.perf_counter() - began < _STEP and (rows := rows_after(db, position, _ROWS)):
        for row in rows:
            entry = entry_of(row)
            if entry is not None:
                db.insert(INSERT, [entry])
            position = row[0]
            count += 1
            if time.perf_counter() - began >= _STEP:
                break
    db.insert("INSERT OR REPLACE INTO search_checkpoint (only, position, rules) VALUES (1, ?, ?)", [(position, RULES)])
    return count, position


class Memory:
    """An index in memory, in a connection of its own, so that it writes to no file."""

    def __init__(self) -> None:
        self.position = 0
        self.connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        self.connection.execute(SEARCH)

    def close(self) -> None:
        """Close the connection."""
        self.connection.close()

    def copy(self, db: Database) -> None:
        """Begin with what the file's index holds, if that can be trusted."""
        with db.snapshot():
            position = position_of(db)
            if not position:
                return
            shadows = [(name, db.rows(f"SELECT * FROM {name}")) for name in SHADOWS]
        execute = self.connection.execute
        execute("BEGIN")
        for name, rows in shadows:
            execute(f"DELETE FROM {name}")
            if rows:
                self.connection.executemany(f"INSERT INTO {name} VALUES ({', '.join('?' * len(rows[0]))})", rows)
        execute("COMMIT")
        # FTS5 forgets what it knew of its tables when a write is rolled back.
        execute("BEGIN")
        execute(INSERT, (position + 1, ""))
        execute("ROLLBACK")
        self.position = position

    def take_in(self, db: Database) -> int:
        """Take in the next events of the log, at most a thousand; return how many there were."""
        rows = rows_after(db, self.position, 16 * _ROWS)
        if rows:
            self.connection.execute("BEGIN")
            self.connection.executemany(INSERT, (entry for row in rows if (entry := entry_of(row)) is not None))
            self.connection.execute("COMMIT")
            self.position = rows[-1][0]
        return len(rows)

    def matches(self, expression: str) -> list[int]:
        """Return the positions of the events that an expression of FTS5 matches, best first."""
        return [position for (position,) in self.connection.execute(_MATCH, (expression,))]


class Index:
    """The index of one open store: in its file where that can be written, else in memory."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._distrusted = False
        # Both are used under the database's lock alone.
        self._memory: Memory | None = None
        self._excerpts: Excerpts | None = None

    def close(self) -> None:
        """Close what is kept in memory."""
        with self._db.lock:
            self._forget_memory()
            if self._excerpts is not None:
                self._excerpts.close()
                self._excerpts = None

    def catch_up(self, progress: Progress) -> int:
        """Take in what was appended since; return how many events that were.

        :raises StoreUnusable: the log cannot be read.
        """
        try:
            complete, count = self._in_file(progress)
            return count if complete else count + self._in_memory(progress, lambda memory: None)[1]
        except sqlite3.Error as error:
            raise StoreUnusable(self._db.path, f"cannot be searched: {error}") from error

    def rebuild(self, progress: Progress) -> int:
        """Make the file's index again from the log; return of how many events.

        :raises StoreReadOnly: the store was opened read-only.
        :raises StoreBusy: the lock was not had in time.
        """
        with self._db.transaction():
            drop(self._db)
        return self.catch_up(progress)

    def find(
        self, phrases: Sequence[str], stream: Stream | None, scope: str | None, since: int | None, until: int | None
    ) -> Iterator[tuple[str, int]]:
        """Give uuid and version of the events in which all phrases occur, best first.

        A `stream` is searched with what it shares; `since` and `until` are microseconds, the latter excluded.

        :raises StoreUnusable: the log cannot be read.
        """
        conditions, parameters = _conditions(stream, scope, since, until)
        found = self._matches(" ".join(phrases))
        first, count = 0, 50
        while first < len(found):
            page = found[first : first + count]
            first, count = first + count, 1000
            # What was erased meanwhile is found no more, even by an index in memory that has its words.
            rows = self._db.rows(
                "SELECT events.position, conversations.uuid, events.version FROM events"
                " JOIN conversations ON conversations.key = events.conversation"
                f" WHERE events.position IN (SELECT value FROM json_each(?)) AND events.body IS NOT NULL{conditions}",
                (str(page), *parameters),
            )
            places = {position: (uuid, version) for position, uuid, version in rows}
            yield from (places[position] for position in page if position in places)

    def excerpt(self, body_text: str, phrases: Sequence[str]) -> str:
        """Return a line of what an event says, around the first of the phrases, which are marked «so»."""
        with self._db.lock:
            self._excerpts = self._excerpts or Excerpts()
            return self._excerpts.excerpt(spaced(words_of(body_text)), phrases)

    def _matches(self, expression: str) -> list[int]:
        attempts = 3  # The index may be damaged, and be dropped by another's erasure when it was made again.
        while True:
            attempts -= 1
            try:
                if self._in_file(_quietly)[0]:
                    return [position for (position,) in self._db.rows(_MATCH, (expression,))]
                return self._in_memory(_quietly, lambda memory: memory.matches(expression))[0]
            except sqlite3.Error as error:
                if not attempts:
                    raise StoreUnusable(self._db.path, f"cannot be searched: {error}") from error
                self._discard()

    def _in_file(self, progress: Progress) -> tuple[bool, int]:
        """Catch the file's index up; return whether it is complete then, and how many events it took in."""
        db, count, damaged = self._db, 0, self._distrusted
        if damaged and not self._discard():
            return False, 0
        while True:
            inside = db.in_transaction
            try:
                version = db.row("PRAGMA data_version")
                if position_of(db) == (top := top_of(db)):
                    with db.lock:
                        self._forget_memory()
                    return True, count
                taken, position = db.derive(lambda: _step(db), MAX_WAIT)
            except (StoreBusy, StoreReadOnly):
                return False, count
            except sqlite3.Error as error:
                if inside and not db.in_transaction:
                    raise
                if is_unwritable(error) or damaged:
                    return False, count
                damaged = True
                self._discard()
                continue
            count += taken
            progress(position, max(position, top))
            if not inside:
                time.sleep(_PAUSE if db.row("PRAGMA data_version") == version else _CONTENDED)

    def _in_memory(self, progress: Progress, ask: Callable[[Memory], T]) -> tuple[T, int]:
        """Ask an index in memory that has all events; return the answer, and how many events it took in."""
        count = 0
        while True:
            with self._db.lock:
                if self._db.in_transaction:
                    # What it took in may be undone, and its positions be given to other events.
                    return self._once(ask)
                memory = self._memory or self._begun()
                self._memory = memory
                taken = memory.take_in(self._db)
                if not taken:
                    return ask(memory), count
                count += taken
                progress(memory.position, max(memory.position, top_of(self._db)))

    def _once(self, ask: Callable[[Memory], T]) -> tuple[T, int]:
        with closing(self._begun()) as memory:
            count = 0
            while taken := memory.take_in(self._db):
                count += taken
            return ask(memory), count

    def _begun(self) -> Memory:
        memory = Memory()
        if not self._distrusted:
            with suppress(sqlite3.DatabaseError):
                memory.copy(self._db)
                return memory
            memory.close()
            memory = Memory()
        return memory

    def _discard(self) -> bool:
        """Drop an index that is damaged, in memory and in the file; return whether the file's could be."""
        with self._db.lock:
            self._forget_memory()
        try:
            self._db.derive(lambda: drop(self._db), MAX_WAIT)
            self._distrusted = False
        except (StoreBusy, StoreReadOnly, sqlite3.Error):
            self._distrusted = True
        return not self._distrusted

    def _forget_memory(self) -> None:
        if self._memory is not None:
            self._memory.close()
            self._memory = None


def _quietly(done: int, total: int) -> None:
    """Take no notice of progress."""


def _conditions(
    stream: Stream | None, scope: str | None, since: int | None, until: int | None
) -> tuple[str, list[Any]]:
    conditions: list[str] = []
    parameters: list[Any] = []
    if stream is not None:
        owned = "events.conversation = ? AND events.version BETWEEN ? AND ?"
        conditions.append(f"({' OR '.join([owned] * len(stream.lineage))})")
        parameters += [bound for segment in stream.lineage for bound in (segment.key, segment.first, segment.last)]
    for condition, value in (
        ("events.scope = ?", scope),
        ("coalesce(events.occurred_at, events.recorded_at) >= ?", since),
        ("coalesce(events.occurred_at, events.recorded_at) < ?", until),
    ):
        if value is not None:
            conditions.append(condition)
            parameters.append(value)
    return "".join(f" AND {condition}" for condition in conditions), parameters
