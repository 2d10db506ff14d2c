"""The file of a store: connections to it, and whether it is still the file that was opened."""

from __future__ import annotations

import os
import sqlite3
import stat
import time
from pathlib import Path

from .arguments import file_path
from .errors import InvalidArgument, StoreUnusable

_OLDEST_SQLITE = (3, 38, 0)
_IN_MEMORY = ":memory:"
_SETTLED = 0.05  # Seconds after a write to a file in which another may leave it with the same time.
_ATTEMPTS = 20


class Connection(sqlite3.Connection):
    """A connection to a store's file; `stamp` says how the file was when SQLite was told that it does not change."""

    stamp: tuple[int, ...] | None = None


class StoreFile:
    """The file at `path`, or a store in memory, `:memory:`.

    The path is made absolute, so that it leads to the same file whatever directory the process goes to.

    :raises InvalidArgument: `path` is not the path of a file.
    """

    def __init__(self, path: str | os.PathLike[str], read_only: bool) -> None:
        given = file_path("path", path)
        self.in_memory = given == _IN_MEMORY
        if self.in_memory and read_only:
            raise InvalidArgument("path", given, "cannot be opened read-only: a store in memory begins empty")
        try:
            self.path = given if self.in_memory else os.path.abspath(given)
        except OSError as error:
            raise StoreUnusable(given, f"cannot be opened: {error.strerror}") from None
        self._read_only = read_only
        self._identity: tuple[int, int] | None = None

    def open(self) -> Connection:
        """Return the connection that the store lives by; a store that is not read-only makes the file.

        :raises StoreUnusable: the file cannot be opened, or is no regular file.
        """
        if sqlite3.sqlite_version_info < _OLDEST_SQLITE:
            raise StoreUnusable(self.path, f"needs SQLite 3.38 or newer, this is {sqlite3.sqlite_version}")
        if self.in_memory:
            return _connected(_IN_MEMORY)
        found = self._look()
        if self._read_only:
            if found is None:
                raise StoreUnusable(self.path, "does not exist")
            self._identity = found.st_dev, found.st_ino
            return self.connect()
        connection = self._connect("mode=rwc")
        found = self._look()
        self._identity = None if found is None else (found.st_dev, found.st_ino)
        return connection

    def connect(self) -> Connection:
        """Return a further connection, which only reads and which the caller closes; it never makes the file.

        :raises StoreUnusable: the file cannot be opened, or is not the one that the store opened.
        :raises sqlite3.OperationalError: it is locked.
        """
        self.check()
        connection = self._connect("mode=ro")
        try:
            connection.execute("PRAGMA schema_version").fetchone()
        except sqlite3.DatabaseError as error:
            connection.close()
            code = (getattr(error, "sqlite_errorcode", None) or 0) & 0xFF
            if code == sqlite3.SQLITE_BUSY:
                raise
            if code not in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY):
                raise StoreUnusable(self.path, f"cannot be opened: {error}") from None
            return self._connect_frozen()
        return connection

    def connect_to_write(self) -> Connection:
        """Return a further connection, which may write and which the caller closes; it never makes the file.

        :raises StoreUnusable: the file cannot be opened, or is not the one that the store opened.
        """
        self.check()
        return self._connect("mode=rw")

    def check(self) -> None:
        """Refuse to go on if the path does not lead to the file that was opened.

        :raises StoreUnusable: it was moved, replaced or deleted.
        """
        if self._identity is None:
            return
        try:
            found = os.stat(self.path)
        except OSError:
            found = None
        if found is None or (found.st_dev, found.st_ino) != self._identity:
            raise StoreUnusable(self.path, "was moved, replaced or deleted since it was opened")

    def is_current(self, connection: Connection) -> bool:
        """Return whether what a connection has read is what the file has."""
        return connection.stamp is None or connection.stamp == self._stamp()

    def is_written(self, connection: Connection) -> bool:
        """Return whether a connection has to be made again, since the file is written to, or may be at any time."""
        return connection.stamp is not None and (self._size("-wal") > 0 or connection.stamp != self._stamp())

    def _connect(self, mode: str) -> Connection:
        try:
            return _connected(f"{Path(self.path).as_uri()}?{mode}")
        except sqlite3.Error as error:
            raise StoreUnusable(self.path, f"cannot be opened: {error}") from None

    def _connect_frozen(self) -> Connection:
        """Return a connection that takes the file for unchanging, which SQLite needs where it cannot write the folder.

        Others may write to it all the same: who reads has to look before and after (`is_written`, `is_current`).
        """
        for _ in range(_ATTEMPTS):
            for suffix in ("-wal", "-journal"):
                if self._size(suffix):
                    why = f"has changes in {Path(self.path).name}{suffix} that cannot be read in a folder like this"
                    raise StoreUnusable(self.path, f"{why}: copy both to one that can be written")
            stamp = self._stamp()
            if stamp and time.time_ns() - max(stamp[1:]) < _SETTLED * 1e9:
                time.sleep(_SETTLED)
            if stamp and stamp == self._stamp():
                connection = self._connect("immutable=1")
                connection.stamp = stamp
                return connection
        raise StoreUnusable(self.path, "is written to all the time, and cannot be shared in a folder like this")

    def _look(self) -> os.stat_result | None:
        """Return what is at the path, before SQLite opens it; None if nothing is.

        :raises StoreUnusable: there is something else than a regular file.
        """
        try:
            found = os.stat(self.path)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StoreUnusable(self.path, f"cannot be opened: {error.strerror}") from None
        if stat.S_ISDIR(found.st_mode):
            raise StoreUnusable(self.path, "is a directory")
        if not stat.S_ISREG(found.st_mode):
            raise StoreUnusable(self.path, "is not a regular file")
        return found

    def _stamp(self) -> tuple[int, ...]:
        try:
            found = os.stat(self.path)
        except OSError:
            return ()
        return found.st_size, found.st_mtime_ns, found.st_ctime_ns

    def _size(self, suffix: str) -> int:
        try:
            return os.stat(self.path + suffix).st_size
        except OSError:
            return 0


def _connected(uri: str) -> Connection:
    return sqlite3.connect(uri, uri=True, timeout=0, isolation_level=None, check_same_thread=False, factory=Connection)
