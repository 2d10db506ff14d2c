"""The search index: an FTS5 table beside the log, derived from it, caught up when it is used, dropped by an erasure."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from typing import Any, TypeVar

from .database import Database
from .derived_tables import is_unwritable
from .errors import StoreBusy, StoreReadOnly, StoreUnusable
from .excerpts import Excerpts
from .search_audit import differences
from .search_file import (
    INSERT,
    MATCH,
    ROWS,
    SEARCH,
    copy_shadows,
    drop,
    entry_of,
    is_sealed,
    position_of,
    rows_after,
    seal,
    step,
    top_of,
)
from .state import state_of
from .streams import Stream
from .words import spaced, words_of

__all__ = ["MAX_WAIT", "Index", "Memory", "Progress", "is_unwritable"]

T = TypeVar("T")
Progress = Callable[[int, int], None]

MAX_WAIT = 0.1  # Seconds; what is not had by then is answered in memory.
_PAUSE = 0.001  # Seconds between two steps, in which others get the lock.
_CONTENDED = 0.004  # The same when others have written, who try again within this time.


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
            copy_shadows(self.connection, db.rows, position)
        self.position = position

    def take_in(self, db: Database) -> int:
        """Take in the next events of the log, at most a thousand; return how many there were."""
        rows = rows_after(db, self.position, 16 * ROWS)
        if rows:
            self.connection.execute("BEGIN")
            self.connection.executemany(INSERT, (entry for row in rows if (entry := entry_of(row)) is not None))
            self.connection.execute("COMMIT")
            self.position = max(self.position + 1, rows[-1][0])
        return len(rows)

    def matches(self, expression: str) -> list[int]:
        """Return the positions of the events that an expression of FTS5 matches, best first."""
        return [position for (position,) in self.connection.execute(MATCH, (expression,))]


def _quietly(done: int, total: int) -> None:
    """Take no notice of progress."""


class Index:
    """The index of one open store: in its file where that can be written, else in memory."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._distrusted = False
        # Both are used under the database's lock alone.
        self._memory: Memory | None = None
        self._excerpts: Excerpts | None = None

    def close(self) -> None:
        """Close what is kept in memory; closing twice is nothing."""
        with suppress(StoreUnusable), self._db.alone():
            self._forget_memory()
            self._forget_excerpts()

    def catch_up(self, progress: Progress = _quietly) -> int:
        """Take in what was appended since; return how many events that were.

        :raises StoreUnusable: the log cannot be read.
        """
        try:
            complete, count = self._in_file(progress)
            return count if complete else count + self._in_memory(progress, lambda memory: None)[1]
        except sqlite3.Error as error:
            raise StoreUnusable(self._db.path, f"cannot be searched: {error}") from error

    def rebuild(self, progress: Progress = _quietly) -> int:
        """Make the file's index again from the log; return of how many events.

        :raises StoreReadOnly: the store was opened read-only.
        :raises StoreBusy: the lock was not had in time.
        """
        with self._db.transaction():
            drop(self._db)
        return self.catch_up(progress)

    def differences(self) -> list[str]:
        """Compare the file's index with the log, as far as it has come; return what differs, one a line.

        Nothing is written, and an error in reading the index is a difference. An index that is behind, or not there,
        agrees with the log.
        """
        try:
            with state_of(self._db) as state:
                return differences(state)
        except (sqlite3.Error, MemoryError, StoreUnusable, StoreBusy) as error:
            return [f"search index: cannot be read: {error}"]

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
        with self._db.alone():
            self._excerpts = self._excerpts or Excerpts()
            try:
                return self._excerpts.excerpt(spaced(words_of(body_text)), phrases)
            except BaseException:
                self._forget_excerpts()
                raise

    def _matches(self, expression: str) -> list[int]:
        attempts = 3  # The index may be damaged, and be dropped by another's erasure when it was made again.
        while True:
            attempts -= 1
            try:
                if self._in_file(_quietly)[0]:
                    return [position for (position,) in self._db.rows(MATCH, (expression,))]
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
                    if not (inside or db.read_only):
                        self._seal()
                    with db.alone():
                        self._forget_memory()
                    return True, count
                taken, position = db.derive(lambda: step(db), MAX_WAIT)
                if position_of(db) is None:  # What was just made is not trusted: the log is damaged.
                    return False, count
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
            if taken:  # A step may have had no time for any.
                progress(position, max(position, top))
            if not inside:
                time.sleep(_PAUSE if db.row("PRAGMA data_version") == version else _CONTENDED)

    def _seal(self) -> None:
        """Let it be noticed if somebody else writes to the file's index; the next search does it if this one cannot."""
        with suppress(StoreBusy, sqlite3.Error):
            if top_of(self._db) and not is_sealed(self._db):
                self._db.derive(lambda: seal(self._db), 0)

    def _in_memory(self, progress: Progress, ask: Callable[[Memory], T]) -> tuple[T, int]:
        """Ask an index in memory that has all events; return the answer, and how many events it took in."""
        count = 0
        while True:
            with self._db.alone():
                if self._db.in_transaction:
                    # What it took in may be undone, and its positions be given to other events.
                    return self._once(ask)
                memory = self._memory or self._begun()
                self._memory = memory
                try:
                    taken = memory.take_in(self._db)
                except BaseException:
                    # It may have taken in what it does not know of.
                    self._forget_memory()
                    raise
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
        with self._db.alone():
            self._forget_memory()
        try:
            self._db.derive(lambda: drop(self._db), MAX_WAIT)
            self._distrusted = False
            if self._db.erasure.is_due and not self._db.in_transaction:
                self._db.erasure.finish()
        except (StoreBusy, StoreReadOnly, sqlite3.Error):
            self._distrusted = True
        return not self._distrusted

    def _forget_memory(self) -> None:
        if self._memory is not None:
            self._memory.close()
            self._memory = None

    def _forget_excerpts(self) -> None:
        if self._excerpts is not None:
            self._excerpts.close()
            self._excerpts = None


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
