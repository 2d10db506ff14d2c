"""The eventsourcing library on SQLite: its application with an aggregate, or its recorder and mapper alone (`rows`)."""

from __future__ import annotations

import sys
from datetime import datetime
from importlib.metadata import version
from itertools import islice
from pathlib import Path
from time import perf_counter
from typing import Any
from uuid import UUID

from eventsourcing import sqlite  # type: ignore[import-not-found, unused-ignore]
from eventsourcing.application import Application  # type: ignore[import-not-found, unused-ignore]
from eventsourcing.domain import Aggregate, event  # type: ignore[import-not-found, unused-ignore]

from benchmarks.contest import Contestant, file_size, serve, timed
from benchmarks.messages import Message, messages

_create_connection = sqlite.SQLiteConnectionPool._create_connection


def _create_connection_and_sync(pool: Any) -> Any:
    connection = _create_connection(pool)
    connection.cursor().execute(f"PRAGMA synchronous = {pool.durability}")
    return connection


sqlite.SQLiteConnectionPool._create_connection = _create_connection_and_sync


class Talk(Aggregate):  # type: ignore[misc, unused-ignore]
    """A conversation."""

    def __init__(self) -> None:
        self.messages: list[Message] = []

    @event("Said")  # type: ignore[untyped-decorator, unused-ignore]
    def say(self, message: Message) -> None:
        self.messages.append(message)


class Applied(Contestant):
    """Application and aggregate: appends to an aggregate that is kept, reads by building it from its events."""

    name = "`eventsourcing`, application"
    files = "eventsourcing-application"

    def __init__(self) -> None:
        self._folder = Path()
        self._open: dict[str, tuple[Any, Talk]] = {}
        self._messages = messages()

    def about(self) -> str:
        return f"eventsourcing {version('eventsourcing')}; `synchronous` set on its connections"

    def start(self, folder: str) -> None:
        self._folder = Path(folder)

    def append(self, durability: str, count: int) -> float:
        return self._append(self._talk(durability, durability), list(islice(self._messages, count)), 1)

    def append_hundreds(self, batches: int) -> float:
        return self._append(self._talk("normal", "normal"), list(islice(self._messages, 100 * batches)), 100)

    def fill(self, size: int) -> None:
        self._append(self._talk(str(size), "normal"), list(islice(messages(), size)), 1000)

    def whole(self, size: int) -> float:
        application, talk = self._talk(str(size), "normal")
        return timed(lambda: application.repository.get(talk.id).messages)

    def last(self, size: int, middle: bool) -> float:
        application, talk = self._talk(str(size), "normal")
        # The first version is the aggregate's creation.
        at = size // 2 + 1 if middle else None
        return timed(lambda: application.repository.get(talk.id, version=at).messages[-50:])

    def disk(self, size: int) -> float:
        return file_size(self._file(str(size))) / size

    def _append(self, to: tuple[Any, Talk], said: list[Message], batch: int) -> float:
        application, talk = to
        began = perf_counter()
        for start in range(0, len(said), batch):
            for message in said[start : start + batch]:
                talk.say(message)
            application.save(talk)
        return (perf_counter() - began) / len(said)

    def _file(self, name: str) -> Path:
        return self._folder / f"{self.files}-{name}.db"

    def _talk(self, name: str, durability: str) -> tuple[Any, Talk]:
        if name not in self._open:
            sqlite.SQLiteConnectionPool.durability = durability
            file = str(self._file(name))
            application = Application({"PERSISTENCE_MODULE": "eventsourcing.sqlite", "SQLITE_DBNAME": file})
            talk = Talk()
            application.save(talk)
            self._open[name] = application, talk
        return self._open[name]


class Rows(Applied):
    """Recorder and mapper alone: what it costs to write and read the rows of events, nothing built from them."""

    name = "`eventsourcing`, rows"
    files = "eventsourcing-rows"

    def whole(self, size: int) -> float:
        return self._read(size, None, None)

    def last(self, size: int, middle: bool) -> float:
        return self._read(size, 50, size // 2 + 1 if middle else None)

    def _read(self, size: int, limit: int | None, lte: int | None) -> float:
        application, talk = self._talk(str(size), "normal")

        def work() -> list[Any]:
            rows = application.recorder.select_events(talk.id, desc=True, limit=limit, lte=lte)
            return [application.mapper.to_domain_event(row) for row in reversed(rows)]

        return timed(work)

    def _append(self, to: tuple[Any, Talk], said: list[Message], batch: int) -> float:
        application, talk = to
        events = [self._event(talk.id, talk.version + number, each) for number, each in enumerate(said, start=1)]
        talk._version += len(said)
        began = perf_counter()
        for start in range(0, len(events), batch):
            stored = [application.mapper.to_stored_event(each) for each in events[start : start + batch]]
            application.recorder.insert_events(stored)
        return (perf_counter() - began) / len(said)

    def _event(self, talk: UUID, number: int, message: Message) -> Any:
        return Talk.Said(
            originator_id=talk, originator_version=number, timestamp=datetime.now().astimezone(), message=message
        )


if __name__ == "__main__":
    serve(Rows() if "rows" in sys.argv else Applied())
