"""One SQLite connection, shared by the threads of a process: opening, migrations, transactions, retries."""

from __future__ import annotations

import os
import random
import sqlite3
import threading
import time
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from typing import Any, Literal, TypeVar, get_args

import sqlite_utils

from . import migrations
from .arguments import one_of, seconds
from .backup import copy
from .erasure import Erasure
from .errors import StoreBusy, StoreReadOnly, StoreUnusable
from .file import Connection, StoreFile
from .transaction import Transaction

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


class Database:
    """A connection to the store at `path`; `timeout` is how many seconds to wait for another process's lock.

    :raises StoreUnusable: the file cannot be opened, or is not a turnlog store.
    :raises NewerStore: it was written by a newer turnlog.
    :raises InvalidArgument: an argument is not what it has to be.
    """

    def __init__(self, path: str | os.PathLike[str], durability: Durability, read_only: bool, timeout: float) -> None:
        one_of("durability", durability, get_args(Durability))
        self.file = StoreFile(path, read_only)
        self.path = self.file.path
        self.read_only = read_only
        self._closed = False
        self.erasure = Erasure(self)
        self._timeout = seconds("timeout", timeout)
        self._synchronous = _FULL if durability == "full" else _NORMAL
        self.lock = self._lock = threading.RLock()
        self._memory: dict[str | None, Any] = {}
        self.derived: dict[str, Any] = {}  # What projections remember of rows; empty again when a write is undone.
        self._memory_as_of = (0, 0)
        self._recalled: dict[Any, Any] = {}
        self._recalled_as_of = (0, 0)
        self._in_snapshot = False
        self._read = self._read_live if read_only else self._retried
        self._connection = self._retried(self.file.open)
        self._writer = self._connection.cursor()  # Kept, since making one for each statement takes as long as some do.
        try:
            self._retried(lambda: self._open(durability))
        except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
            self.close()
            raise StoreUnusable(self.path, f"cannot be opened: {error}") from None
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the connection; closing twice is nothing."""
        self._closed = True
        with self._lock:
            self._connection.close()

    def rows(self, sql: str, parameters: Sequence[Any] | Mapping[str, Any] = ()) -> list[tuple[Any, ...]]:
        """Return all rows of a query."""
        with self._lock:
            return self._read(lambda: self._connection.execute(sql, parameters).fetchall())

    def row(self, sql: str, parameters: Sequence[Any] | Mapping[str, Any] = ()) -> tuple[Any, ...] | None:
        """Return the first row of a query."""
        with self._lock:
            row: tuple[Any, ...] | None = self._read(lambda: self._connection.execute(sql, parameters).fetchone())
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
        in_file = patience is not None
        if (in_file and self.read_only) or not self._lock.acquire(timeout=-1 if patience is None else patience):
            raise StoreBusy(self.path, patience or 0)
        execute, inside, begun = self._connection.execute, self._connection.in_transaction, False
        unsynced = in_file and not inside and self._synchronous > _NORMAL
        try:
            if unsynced:
                execute(f"PRAGMA synchronous = {_NORMAL}")
            begin = "BEGIN IMMEDIATE" if in_file else "BEGIN"
            self._retried(lambda: execute("SAVEPOINT derived" if inside else begin), patience)
            begun = True
            before = self._as_of()
            try:
                result = step()
            except MemoryError:
                raise sqlite3.DatabaseError(_NO_MEMORY) from None
            execute("RELEASE derived" if inside else "COMMIT")
            begun = False
            if self._memory_as_of == before:
                self._memory_as_of = (before[0], self._connection.total_changes)
            return result
        finally:
            # A step may be run inside a snapshot.
            self._recalled.clear()
            self._recalled_as_of = (0, 0)
            try:
                # SQLite has already rolled back after some errors.
                if begun and self._connection.in_transaction:
                    for statement in ("ROLLBACK TO derived", "RELEASE derived") if inside else ("ROLLBACK",):
                        execute(statement)
                if unsynced:
                    execute(f"PRAGMA synchronous = {self._synchronous}")
            finally:
                self._lock.release()

    def _as_of(self) -> tuple[int, int]:
        return self._writer.execute("PRAGMA data_version").fetchone()[0], self._connection.total_changes

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Read the store as it is at one moment, whatever other processes write meanwhile."""
        with self._lock:
            if self._connection.in_transaction:
                yield
                return
            self._refresh()
            self._retried(lambda: self._connection.execute("BEGIN"))
            try:
                as_of = self._as_of()
                if as_of != self._recalled_as_of:
                    self._recalled.clear()
                    self._recalled_as_of = as_of
                self._in_snapshot = True
                yield
            finally:
                self._in_snapshot = False
                if self._connection.in_transaction:
                    self._connection.execute("COMMIT")

    def recall(self, key: Hashable, read: Callable[[], T]) -> T:
        """Return what `read` gives; inside a snapshot it is read once, as long as nothing is written to the store."""
        if not self._in_snapshot:
            return read()
        try:
            found: T = self._recalled[key]
        except KeyError:
            found = self._recalled[key] = read()
        return found

    def transaction(self) -> Transaction:
        """Return a write transaction, all or nothing, begun IMMEDIATE; one inside another is part of it.

        :raises StoreBusy: the lock was not had in time.
        :raises StoreReadOnly: the store was opened read-only.
        """
        return Transaction(self)

    def begin(self) -> bool:
        """Begin a transaction, or a part of the one there is; whether it is such a part."""
        if self.read_only:
            raise StoreReadOnly(self.path)
        if self._closed:
            raise StoreUnusable(self.path, "is closed")
        self._lock.acquire()
        try:
            self.file.check()
            nested = self._connection.in_transaction
            statement = "SAVEPOINT nested" if nested else "BEGIN IMMEDIATE"
            self._retried(lambda: self._writer.execute(statement))
        except BaseException:
            self._lock.release()
            raise
        return nested

    @property
    def in_transaction(self) -> bool:
        """Return whether a transaction is going on."""
        return self._connection.in_transaction

    def commit(self, nested: bool) -> None:
        """End what `begin` began; rolled back instead, if it fails."""
        try:
            self._writer.execute("RELEASE nested" if nested else "COMMIT")
            if not nested and self.erasure.is_due:
                self.erasure.finish()
        except BaseException as error:
            self.roll_back(nested, error)
            raise
        self._lock.release()

    def roll_back(self, nested: bool, error: BaseException) -> None:
        """Undo what was done since `begin`, because of an error.

        :raises StoreUnusable: the error is SQLite's, such as a full disk.
        """
        try:
            # SQLite has already rolled back after some errors.
            if self._connection.in_transaction:
                for statement in ("ROLLBACK TO nested", "RELEASE nested") if nested else ("ROLLBACK",):
                    self._connection.execute(statement)
            self._memory.clear()
            self._recalled_as_of = (0, 0)
            self.derived.clear()
        finally:
            self._lock.release()
        if isinstance(error, sqlite3.OperationalError):
            raise StoreUnusable(self.path, f"cannot be written: {error}") from error

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

    @contextmanager
    def alone(self) -> Iterator[Connection]:
        """Give the store's own connection, with every other thread kept out."""
        with self._lock:
            if self._closed:
                raise StoreUnusable(self.path, "is closed")
            yield self._connection

    def connect(self) -> Connection:
        """Return a new connection to the store's file that only reads, which the caller closes.

        :raises StoreUnusable: the store is closed, or the file cannot be opened, or is another by now.
        :raises StoreBusy: the file is locked.
        """
        if self._closed:
            raise StoreUnusable(self.path, "is closed")
        return self._retried(self.file.connect)

    def _open(self, durability: Durability) -> None:
        tables = sqlite_utils.Database(self._connection, execute_plugins=False)
        migrations.recognise(tables, self.path, self.read_only)
        if self.read_only:
            return
        self._connection.execute("PRAGMA journal_mode = WAL")
        self._connection.execute(f"PRAGMA synchronous = {durability.upper()}")
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
