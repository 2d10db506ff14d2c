"""Raw: the standard library's sqlite3, one plain INSERT of the bytes that turnlog has as an event's body."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from time import perf_counter
from typing import Any

import msgspec

from .contest import Contestant, file_size, serve, timed
from .log import events
from .messages import messages

TABLE = (
    "CREATE TABLE events (conversation INTEGER NOT NULL, version INTEGER NOT NULL, body TEXT NOT NULL,"
    " UNIQUE (conversation, version))"
)
INSERT = "INSERT INTO events VALUES (?, ?, ?)"
HEADER = ("type", "scope")
APPENDED = (1_000_000, 10_000)

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


class Raw(Contestant):
    """Raw."""

    name = "raw"

    def __init__(self) -> None:
        self._folder = Path()
        self._open: dict[str, sqlite3.Connection] = {}
        self._versions: dict[str, int] = {}
        self._events: dict[str, Iterator[dict[str, Any]]] = {}

    def about(self) -> str:
        return f"sqlite3 of SQLite {sqlite3.sqlite_version}"

    def start(self, folder: str) -> None:
        self._folder = Path(folder)

    def append(self, durability: str, count: int) -> float:
        connection, version, bodies = self._appended(durability, count)
        began = perf_counter()
        for number, body in enumerate(bodies, start=version):
            connection.execute(INSERT, (1, number, body))
        return (perf_counter() - began) / count

    def append_hundreds(self, batches: int) -> float:
        connection, version, bodies = self._appended("normal", 100 * batches)
        began = perf_counter()
        for start in range(0, len(bodies), 100):
            connection.execute("BEGIN IMMEDIATE")
            batch = bodies[start : start + 100]
            connection.executemany(INSERT, [(1, version + start + number, body) for number, body in enumerate(batch)])
            connection.execute("COMMIT")
        return (perf_counter() - began) / len(bodies)

    def fill(self, size: int) -> None:
        connection = self._connection(f"raw-{size}.db", "normal")
        rows = ((1, number, _encode(each).decode()) for number, each in enumerate(islice(messages(), size), start=1))
        connection.execute("BEGIN IMMEDIATE")
        connection.executemany(INSERT, rows)
        connection.execute("COMMIT")

    def whole(self, size: int) -> float:
        return self.read(f"raw-{size}.db")

    def last(self, size: int, middle: bool) -> float:
        return self.read_last(f"raw-{size}.db", at=size // 2 if middle else size)

    def disk(self, size: int) -> float:
        return self.size(f"raw-{size}.db") / size

    def copy(self, store: str, name: str, file: str, versions: list[int] | None = None) -> int:
        """Take a conversation of a turnlog store, or these versions of it, into a new file; how many rows it has."""
        connection = self._connection(file, "normal")
        connection.execute("ATTACH ? AS store", (str(self._folder / store),))
        connection.execute("CREATE TEMP TABLE wanted (version INTEGER PRIMARY KEY)")
        connection.executemany("INSERT INTO wanted VALUES (?)", ((version,) for version in versions or ()))
        only = "" if versions is None else " AND version IN (SELECT version FROM wanted)"
        connection.execute(
            "INSERT INTO main.events SELECT 1, version, body FROM store.events WHERE conversation ="
            f" (SELECT key FROM store.conversations WHERE name = ?){only} ORDER BY version",
            (name,),
        )
        connection.execute("DROP TABLE wanted")
        connection.execute("DETACH store")
        return int(connection.execute("SELECT count(*) FROM events").fetchone()[0])

    def read(self, file: str) -> float:
        """SELECT and decode all rows."""
        connection = self._connection(file, "normal")

        def work() -> list[object]:
            rows = connection.execute("SELECT body FROM events WHERE conversation = ? ORDER BY version", (1,))
            return [_decode(body) for (body,) in rows]

        return timed(work)

    def read_last(self, file: str, at: int, opened: bool = True) -> float:
        """SELECT and decode 50 rows by key; if not `opened`, with a connection of its own each time."""
        kept = self._connection(file, "normal")

        def work() -> list[object]:
            connection = kept if opened else sqlite3.connect(self._folder / file)
            rows = connection.execute(
                "SELECT body FROM events WHERE conversation = ? AND version <= ? ORDER BY version DESC LIMIT 50",
                (1, at),
            )
            read = [_decode(body) for (body,) in rows]
            if not opened:
                connection.close()
            return read[::-1]

        return timed(work)

    def size(self, file: str) -> int:
        """The bytes of a file once its WAL is written back."""
        return file_size(self._folder / file)

    def _appended(self, durability: str, count: int) -> tuple[sqlite3.Connection, int, list[str]]:
        """The connection, the next version and the next bodies."""
        file = f"raw-{durability}.db"
        version = self._versions.get(file, 1)
        self._versions[file] = version + count
        log = self._events.setdefault(file, events(*APPENDED))
        bodies = [
            _encode({key: value for key, value in event.items() if key not in HEADER}).decode()
            for event in islice(log, count)
        ]
        return self._connection(file, durability), version, bodies

    def _connection(self, file: str, durability: str) -> sqlite3.Connection:
        if file not in self._open:
            self._open[file] = connection = sqlite3.connect(self._folder / file, isolation_level=None)
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute(f"PRAGMA synchronous = {durability}")
            if not connection.execute("SELECT 1 FROM sqlite_schema").fetchone():
                connection.execute(TABLE)
        return self._open[file]


if __name__ == "__main__":
    serve(Raw())
