"""One SQLite connection, shared by the threads of a process: opening, migrations, transactions, retries."""

from __future__ import annotations

import os
import random
import sqlite3
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import closing, suppress
from typing import Any, Literal, TypeVar, get_args

import sqlite_utils

from . import migrations
from .arguments import one_of, seconds
from .backup import copy
from .erasure import Erasure
from .errors import StoreBusy, StoreReadOnly, StoreUnusable
from .file import Connection, StoreFile
from .turns import Turn, Turns

Durability = Literal["full", "normal"]
T = TypeVar("T")

# SQLite's own busy handler backs off to 100 ms and starves under load; short random pauses do not (DESIGN section 3).
_PAUSE = 0.004
_MEMORY = 1000
# What SQLite asks for where damaged rows give it a length.
_NO_MEMORY = "out of memory, which damaged rows make SQLite ask for"
_NORMAL, _FULL = 1, 2  # SQLite's numbers for `PRAGMA synchronous`.
_ATTEMPTS = 20  # At reading a file that is written to where that cannot be shared.


def lenient_text(text: bytes) -> str:
    """Return text, damaged or not; what is damaged ends with a NUL, which no stored text does."""
    try:
        return text.decode()
    except UnicodeDecodeError:
        return text.decode("utf-8", "replace") + "\0"


class _Transaction(Turn[None]):
    """A write transaction, in which an error of SQLite's becomes the store's own, as far as it `explains` them."""

    __slots__ = ("_db", "_explains")

    def __init__(self, db: Database, explains: bool) -> None:
        super().__init__(db, None, "BEGIN IMMEDIATE", True, db.synchronous)
        self._db = db
        self._explains = explains

    def __enter__(self) -> None:
        try:
            super().__enter__()
        except sqlite3.Error as error:
            raise self._db.explained(error) from error

    def leave(self, error: BaseException | None) -> None:
        try:
            super().leave(error)
        except sqlite3.Error as failed:
            raise self._db.explained(failed) from failed
        if self._explains and isinstance(error, sqlite3.Error):
            raise self._db.explained(error) from error

    def committed(self) -> None:
        if self._db.erasure.is_due:
            self._db.erasure.finish()


class Database(Turns):
    """A connection to the store at `path`; `timeout` is how many seconds to wait for another process's lock.

    :raises StoreUnusable: the file cannot be opened, or is not a turnlog store.
    :raises NewerStore: it was written by a newer turnlog.
    :raises InvalidArgument: an argument is not what it has to be.
    """

    def __init__(self, path: str | os.PathLike[str], durability: Durability, read_only: bool, timeout: float) -> None:
        one_of("durability", durability, get_args(Durability))
        super().__init__()
        self.file = StoreFile(path, read_only)
        self.path = self.file.path
        self.read_only = read_only
        self.erasure = Erasure(self)
        self._timeout = seconds("timeout", timeout)
        self.synchronous = _FULL if durability == "full" else _NORMAL
        self._synchronous_now: int | None = None  # None where an interrupt left it unknown.
        self._alone = _Transaction(self, True)
        self._memory: dict[str | None, Any] = {}
        self.derived: dict[str, Any] = {}  # What projections remember of rows; empty again when a write is undone.
        self._memory_as_of = (0, 0)
        self._recalled: dict[Any, Any] = {}
        self._recalled_as_of = (0, 0)
        self._read = self._read_live if read_only else self._retried
        self._connection = self._retried(self.file.open)
        self._writer = self._connection.cursor()  # Kept, since making one for each statement takes as long as some do.
        try:
            self._retried(self._prepare)
        except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
            self.close()
            raise StoreUnusable(self.path, f"cannot be opened: {error}") from None
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the connection, once no other thread has a turn; closing twice is nothing."""
        with suppress(StoreUnusable):
            self.hold(self._refuse_all)
        self._connection.close()

    def _refuse_all(self) -> None:
        self._closed = True

    def rows(self, sql: str, parameters: Sequence[Any] | Mapping[str, Any] = ()) -> list[tuple[Any, ...]]:
        """Return all rows of a query."""
        return self.hold(lambda: self._read(lambda: self._connection.execute(sql, parameters).fetchall()))

    def row(self, sql: str, parameters: Sequence[Any] | Mapping[str, Any] = ()) -> tuple[Any, ...] | None:
        """Return the first row of a query."""
        row: tuple[Any, ...] | None = self.hold(
            lambda: self._read(lambda: self._connection.execute(sql, parameters).fetchone())
        )
        return row

    def insert(self, sql: str, rows: Sequence[Sequence[Any]]) -> int:
        """Insert rows inside the caller's transaction; the last one's rowid."""
        if len(rows) > 1:
            self._writer.executemany(sql, rows[:-1])
        # executemany does not say which rows it made.
        return self._writer.execute(sql, rows[-1]).lastrowid or 0

    def write(self, sql: str, parameters: Sequence[Any] = ()) -> None:
        """Run a statement inside the caller's transaction."""
        self._writer.execute(sql, parameters)

    def write_many(self, sql: str, rows: Sequence[Any]) -> None:
        """Run a statement once for each row, inside the caller's transaction."""
        if rows:
            self._writer.executemany(sql, rows)

    def derive(self, step: Callable[[], T], patience: float | None) -> T:
        """Run a step that writes only what can be derived from the log again; return what it returns.

        Inside a transaction it is part of it; outside it does not wait for the disk. What is remembered stays. Without
        a patience, in seconds, the step writes in memory alone, and needs no lock of the file.

        :raises StoreBusy: the lock was not had in time, or the store was opened read-only.
        :raises sqlite3.Error: the step failed; it was undone.
        """
        if patience is not None and self.read_only:
            raise StoreBusy(self.path, patience)
        return self.hold(lambda: self._derived(step, patience))

    def _derived(self, step: Callable[[], T], patience: float | None) -> T:
        begin, synchronous = ("BEGIN", None) if patience is None else ("BEGIN IMMEDIATE", _NORMAL)
        with Turn(self, None, begin, True, synchronous, patience):
            before = self._as_of()
            try:
                result = step()
            except MemoryError:
                raise sqlite3.DatabaseError(_NO_MEMORY) from None
        # A step may be run inside a snapshot.
        self._recalled.clear()
        if self._memory_as_of == before:
            self._memory_as_of = (before[0], self._connection.total_changes)
        return result

    def _as_of(self) -> tuple[int, int]:
        return self._writer.execute("PRAGMA data_version").fetchone()[0], self._connection.total_changes

    def alone(self) -> Turn[Connection]:
        """Return a turn in which the store's own connection can be used, with every other thread kept out.

        :raises StoreUnusable: the store is closed.
        """
        return Turn(self, self._connection)

    def snapshot(self) -> Turn[None]:
        """Return a turn that reads the store as it is at one moment, whatever other processes write meanwhile."""
        return Turn(self, None, "BEGIN")

    def recall(self, key: Hashable, read: Callable[[], T]) -> T:
        """Return what `read` gives; inside a snapshot it is read once, as long as nothing is written to the store."""
        if not self._open or self._open[0].undoes or not self.in_transaction:
            return read()
        try:
            found: T = self._recalled[key]
        except KeyError:
            found = self._recalled[key] = read()
        return found

    def transaction(self, explains: bool = True) -> Turn[None]:
        """Return a write transaction, all or nothing, begun IMMEDIATE; one inside another is part of it.

        What SQLite raises in it becomes `StoreUnusable`, unless statements of others may raise it too (not `explains`).

        :raises StoreBusy: the lock was not had in time.
        :raises StoreReadOnly: the store was opened read-only.
        """
        if self.read_only:
            raise StoreReadOnly(self.path)
        return _Transaction(self, explains)

    def write_all(self, work: Callable[[], T]) -> T:
        """Return what `work` returns, all of whose writes are one transaction, or part of the one that is open.

        :raises StoreBusy: the lock was not had in time.
        :raises StoreReadOnly: the store was opened read-only.
        :raises StoreUnusable: SQLite cannot write.
        """
        if self.read_only:
            raise StoreReadOnly(self.path)
        return self.hold(lambda: self._write_all(work))

    def _write_all(self, work: Callable[[], T]) -> T:
        if self._open:
            with self.transaction():
                return work()
        try:
            return self.commit(work, self._alone)
        except sqlite3.Error as error:
            raise self.explained(error) from error

    def _begin_transaction(self, turn: Turn[Any]) -> None:
        if not turn.undoes:
            self._refresh()
        elif turn.synchronous is not None:
            self.file.check()
            if turn.synchronous != self._synchronous_now:
                self._synchronous_now = None
                self._connection.execute(f"PRAGMA synchronous = {turn.synchronous}")
                self._synchronous_now = turn.synchronous
        begin = turn.begin
        self._retried(lambda: self._writer.execute(begin), turn.patience)
        if not turn.undoes and (as_of := self._as_of()) != self._recalled_as_of:
            self._recalled.clear()
            self._recalled_as_of = as_of

    def _undone(self) -> None:
        self._memory.clear()
        self._recalled.clear()
        self._recalled_as_of = (0, 0)
        self.derived.clear()
        if not self._closed:
            # A statement of the old one that an interrupt kept from being read to its end would keep a read open.
            self._writer = self._connection.cursor()

    def explained(self, error: sqlite3.Error) -> StoreUnusable:
        """Return what is raised in place of an error of SQLite's in a write transaction."""
        return StoreUnusable(self.path, f"cannot be written: {error}")

    def remembered(self, key: str) -> Any:
        """Return what was remembered, inside a transaction; None if anything at all has been written since then."""
        as_of = self._as_of()
        if as_of != self._memory_as_of:
            self._memory.clear()
            self._memory_as_of = as_of
        return self._memory.get(key)

    def remember(self, keys: tuple[str | None, str | None], value: Any) -> None:
        """Remember something, inside a transaction that looked at what is remembered and left the rest of it true."""
        if len(self._memory) >= _MEMORY:
            self._memory.clear()
        self._memory[keys[0]] = self._memory[keys[1]] = value
        self._memory_as_of = (self._memory_as_of[0], self._connection.total_changes)

    def backup(self, target: str | os.PathLike[str], progress: Callable[[int, int], None] | None = None) -> None:
        """Copy the live store to a new file; see `Store.backup`."""
        with self.alone() if self.file.in_memory else closing(self.connect()) as source:
            copy(self.file, source, target, self._retried, progress)

    def connect(self) -> Connection:
        """Return a new connection to the store's file that only reads, which the caller closes.

        :raises StoreUnusable: the store is closed, or the file cannot be opened, or is another by now.
        :raises StoreBusy: the file is locked.
        """
        if self._closed:
            raise StoreUnusable(self.path, "is closed")
        return self._retried(self.file.connect)

    def _prepare(self) -> None:
        tables = sqlite_utils.Database(self._connection, execute_plugins=False)
        migrations.recognise(tables, self.path, self.read_only)
        if self.read_only:
            return
        self._connection.execute("PRAGMA journal_mode = WAL")
        self._connection.execute("PRAGMA foreign_keys = ON")
        # What is redacted must leave the file's free space too (DESIGN section 7).
        self._connection.execute("PRAGMA secure_delete = ON")
        if migrations.MIGRATIONS.pending(tables):
            with self.transaction():
                # Looked at again under the lock: another process may have got here first.
                migrations.MIGRATIONS.apply(tables)
        self.erasure.finish()

    def _read_live(self, attempt: Callable[[], T]) -> T:
        """Return what `attempt` reads, of the file as it is now.

        :raises StoreUnusable: a read-only store's file was moved, replaced or deleted, or was written to meanwhile.
        """
        for _ in range(_ATTEMPTS):
            self._refresh()
            try:
                found = self._retried(attempt)
            except sqlite3.DatabaseError:
                if self.file.is_current(self._connection):
                    raise
            else:
                if self.file.is_current(self._connection):
                    return found
            if self._connection.in_transaction:
                break
        raise StoreUnusable(self.path, "was written to while it was read, where that cannot be shared: read again")

    def _refresh(self) -> None:
        """Look, in a read-only store, whether the file is the same, and open it again if it has to be."""
        if not self.read_only or self._closed or self._connection.in_transaction:
            return
        self.file.check()
        if self.file.is_written(self._connection):
            again = self.connect()
            self._connection.close()
            self._connection, self._writer = again, again.cursor()
            self._memory.clear()
            self._recalled_as_of = (0, 0)
            self.derived.clear()

    def _retried(self, attempt: Callable[[], T], patience: float | None = None) -> T:
        """Return what `attempt` returns, tried again after random pauses while another process has the lock."""
        deadline: float | None = None
        timeout = self._timeout if patience is None else patience
        while True:
            try:
                return attempt()
            except sqlite3.ProgrammingError:
                raise StoreUnusable(self.path, "is closed") from None
            except MemoryError:
                raise sqlite3.DatabaseError(_NO_MEMORY) from None
            except sqlite3.OperationalError as error:
                code: int | None = getattr(error, "sqlite_errorcode", None)
                if code is None and self._connection.text_factory is str:
                    # Text that is not UTF-8 can only be damage, and damage must not keep anybody from reading.
                    self._connection.text_factory = lenient_text
                    continue
                if code is None or code & 0xFF != sqlite3.SQLITE_BUSY:
                    raise
                now = time.monotonic()
                deadline = now + timeout if deadline is None else deadline
                if now >= deadline:
                    raise StoreBusy(self.path, timeout) from None
                time.sleep(random.uniform(0, _PAUSE))
