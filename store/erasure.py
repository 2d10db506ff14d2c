"""How far the erasing of what was redacted has come: in the rows, in the file, in the write-ahead log.

A transaction that erases takes bodies out of their rows. Copies are left: SQLite leaves some in the free space of pages
when it moves rows between them (`secure_delete` wipes a row only where it is last), and the write-ahead log keeps pages
as they were. So the file is written anew, and then the log is emptied. How far that has come is in the file itself, so
that whoever opens it for writing next finishes what somebody else has begun:

    CLEAN → (a transaction that erases) → ERASED → (VACUUM) → REWRITTEN → (checkpoint) → CLEAN

Another transaction that erases leads from every state to ERASED.
"""

from __future__ import annotations

import os
import random
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from enum import IntEnum
from typing import TYPE_CHECKING

from .derived_tables import discard_damaged, is_damage
from .errors import StoreUnusable

if TYPE_CHECKING:
    from .database import Database

_PATIENCE = 1.0  # Seconds that who erases waits for readers; one that goes on for longer is told of.
_PAUSE = 0.004
# The bytes of the -shm file that SQLite locks for those who read from the write-ahead log.
_READ_LOCKS = range(124, 128)
_CONTENDED = frozenset((sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED))
_REASONS = {
    sqlite3.SQLITE_FULL: "there is no space left to write the file anew",
    sqlite3.SQLITE_READONLY: "the file cannot be written",
    sqlite3.SQLITE_CANTOPEN: "the file cannot be written",
    sqlite3.SQLITE_CORRUPT: "the file is damaged",
    sqlite3.SQLITE_NOTADB: "the file is damaged",
}


class State(IntEnum):
    """Where copies of what was erased may be left. The file's `user_version` modulo 4 is the number."""

    CLEAN = 0  # Nowhere.
    ERASED = 1  # In the free space of the file's pages, and in the write-ahead log.
    REWRITTEN = 2  # In the write-ahead log alone.


class _HeldUp(Exception):
    """Something keeps the erasing from being finished; `passes` if it may be over in a moment."""

    def __init__(self, why: str, passes: bool = False) -> None:
        super().__init__(why)
        self.passes = passes


class Erasure:
    """The erasing of what was redacted in one store, as a connection to it takes part in it."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self.is_due = False  # Whether this connection has to see to it once its transaction has ended.
        self._patience = 0.0
        self._held_up_by = ""
        self._rewritten: int | None = None  # The number of the erasure for which this connection wrote the file anew.

    @property
    def state(self) -> State:
        """Return how far it has come, by whomever."""
        state = _state_of(self._number())
        is_clean = self._db.file.in_memory or (state is State.REWRITTEN and self._is_log_empty())
        return State.CLEAN if is_clean else state

    def begin(self) -> None:
        """Note, inside a transaction, that it erases."""
        # A number that was never there, so that nobody takes this erasure for the one that was just finished.
        self._db.write(f"PRAGMA user_version = {(self._number() // 4 + 1) * 4 + State.ERASED}")
        self._take_on(_PATIENCE)

    def notice(self) -> None:
        """See to it, once the transaction has ended, if somebody has erased and not finished it."""
        if self.state is not State.CLEAN:
            self._take_on(_PATIENCE)

    def finish(self) -> None:
        """Go as far as it goes now, outside of a transaction; who has just erased waits a second for readers."""
        deadline = time.monotonic() + self._patience
        self._patience = 0.0
        while True:
            try:
                self._advance()
                self.is_due = False
                return
            except _HeldUp as held_up:
                self.is_due, self._held_up_by = True, str(held_up)
                if not held_up.passes or time.monotonic() >= deadline:
                    return
            time.sleep(random.uniform(0, _PAUSE))

    def told(self) -> str | None:
        """Return where copies of what was erased may be left, and who holds that up, in one line; None if nowhere."""
        state = self.state
        if state is State.CLEAN:
            return None
        where = "in the file" if state is State.ERASED else "in the write-ahead log"
        return f"copies of what was redacted may be left {where}: {self._held_up()}"

    def _held_up(self) -> str:
        if self._db.in_transaction:
            return "the transaction that erases has not ended"
        if self.is_due and self._held_up_by:
            return self._held_up_by
        readers = _readers(self._db.path)
        if readers:
            return _told_readers(readers)
        return "who opens the store for writing next finishes it"

    def _advance(self) -> None:
        """Take the steps that are due.

        :raises _HeldUp: one of them cannot be taken now.
        """
        if self._db.file.in_memory:
            return
        with self._db.alone() as connection, _explained():
            number = _number_of(connection)
            if _state_of(number) is State.ERASED:
                if self._rewritten != number:
                    self._write_anew(connection)
                    self._rewritten = number
                number = _move(connection, number, State.REWRITTEN)
            if _state_of(number) is State.REWRITTEN:
                if connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]:
                    raise _HeldUp(_told_readers(_readers(self._db.path)), passes=True)
                _move(connection, number, State.CLEAN)

    def _write_anew(self, connection: sqlite3.Connection) -> None:
        """Write the file anew."""
        # Through another connection: where this one has temporary tables with names of the file's, VACUUM fails.
        with closing(self._db.file.connect_to_write()) as other:
            for setting in ("synchronous", "secure_delete"):
                value = connection.execute(f"PRAGMA {setting}").fetchone()[0]
                other.execute(f"PRAGMA {setting} = {value}")
            _write_anew(other)

    def _take_on(self, patience: float) -> None:
        self.is_due, self._patience, self._held_up_by = True, patience, ""

    def _number(self) -> int:
        return int((self._db.row("PRAGMA user_version") or (0,))[0])

    def _is_log_empty(self) -> bool:
        try:
            return os.stat(f"{self._db.path}-wal").st_size == 0
        except OSError:
            return True


def finish_in_copy(connection: sqlite3.Connection) -> None:
    """Finish the erasing in a copy of a store that nobody else has opened, outside of a transaction.

    :raises sqlite3.Error: the copy cannot be written anew.
    """
    number = _number_of(connection)
    if _state_of(number) is State.ERASED:
        _write_anew(connection)
    if _state_of(number) is not State.CLEAN:
        connection.execute(f"PRAGMA user_version = {number - number % 4 + 4}")


def _write_anew(connection: sqlite3.Connection) -> None:
    try:
        connection.execute("VACUUM")
    except sqlite3.DatabaseError as error:
        if not (is_damage(error) and discard_damaged(connection)):
            raise
        connection.execute("VACUUM")


def _move(connection: sqlite3.Connection, number: int, state: State) -> int:
    """Note that a state is reached, unless somebody has erased more meanwhile; return its number."""
    reached = number - number % 4 + (state or 4)
    connection.execute("BEGIN IMMEDIATE")
    try:
        if _number_of(connection) != number:
            raise _HeldUp("another process erases at the same time", passes=True)
        connection.execute(f"PRAGMA user_version = {reached}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    return reached


def _number_of(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def _state_of(number: int) -> State:
    # A number that is none of ours was set by somebody else, who may have done so over an erasure that was due.
    return State(number % 4) if number % 4 in (*State,) else State.ERASED


def _code_of(error: sqlite3.Error) -> int:
    return (getattr(error, "sqlite_errorcode", None) or 0) & 0xFF


@contextmanager
def _explained() -> Iterator[None]:
    """Say of an error of SQLite what holds the erasing up: what was committed is no error because of it."""
    try:
        yield
    except StoreUnusable as error:
        raise _HeldUp(error.why) from None
    except (sqlite3.Error, MemoryError) as error:
        code = sqlite3.SQLITE_CORRUPT if isinstance(error, MemoryError) else _code_of(error)
        is_contended = code in _CONTENDED
        why = "another process is writing" if is_contended else _REASONS.get(code, " ".join(str(error).split()))
        raise _HeldUp(why, is_contended) from None


def _readers(path: str) -> list[int]:
    """Return the processes that read from the write-ahead log now, as far as the system tells (Linux does)."""
    try:
        shared = os.stat(f"{path}-shm").st_ino
        with open("/proc/locks", encoding="ascii") as locks:
            rows = [line.split() for line in locks if "->" not in line]
    except OSError:
        return []
    found = set()
    for _, kind, _, _, process, file, first, _ in (row for row in rows if len(row) == 8):
        if kind == "POSIX" and file.rpartition(":")[2] == str(shared) and int(first) in _READ_LOCKS:
            found.add(int(process))
    return sorted(found)


def _told_readers(processes: list[int]) -> str:
    names = ["this process" if process == os.getpid() else f"process {process}" for process in processes]
    who = f" ({', '.join(names)})" if names else ""
    return f"a reader keeps an old state of the store{who}"
