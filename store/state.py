"""One state of the store, read through a connection that nobody else uses, whatever is written meanwhile."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any

from .database import Database, lenient_text
from .errors import StoreBusy, StoreUnusable

_WAIT = 5.0  # Seconds to wait for a lock; readers of a write-ahead log hardly ever have to.
_BUSY = frozenset((sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED))


class State:
    """Reads a state of the store; text that is damaged ends with a NUL, which no stored text does."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def rows(self, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Return all rows of a query."""
        return self._connection.execute(sql, parameters).fetchall()

    def row(self, sql: str, parameters: Sequence[Any] = ()) -> tuple[Any, ...] | None:
        """Return the first row of a query."""
        row: tuple[Any, ...] | None = self._connection.execute(sql, parameters).fetchone()
        return row

    def each(self, sql: str, parameters: Sequence[Any] = ()) -> Iterator[tuple[Any, ...]]:
        """Return the rows of a query as they are asked for, so that memory does not grow with their number."""
        return self._connection.execute(sql, parameters)


@contextmanager
def state_of(db: Database) -> Iterator[State]:
    """Give the store as it was last committed; of a store in memory, whose one connection this is, as it is.

    :raises StoreBusy: the lock was not had in time.
    :raises StoreUnusable: the file cannot be opened, or was written to meanwhile where that cannot be shared.
    """
    try:
        if db.file.in_memory:
            with db.alone() as connection:
                before = connection.text_factory
                connection.text_factory = lenient_text
                try:
                    yield State(connection)
                finally:
                    connection.text_factory = before
            return
        with closing(db.connect()) as connection:
            connection.text_factory = lenient_text
            connection.execute(f"PRAGMA busy_timeout = {int(_WAIT * 1000)}")
            connection.execute("BEGIN")
            yield State(connection)
            if not db.file.is_current(connection):
                why = "was written to while it was read, where that cannot be shared: read again"
                raise StoreUnusable(db.path, why)
    except sqlite3.OperationalError as error:
        if (getattr(error, "sqlite_errorcode", 0) or 0) & 0xFF in _BUSY:
            raise StoreBusy(db.path, _WAIT) from None
        raise
