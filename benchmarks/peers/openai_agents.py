"""OpenAI Agents SDK: SQLiteSession, one item a message."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Coroutine
from importlib.metadata import version
from itertools import islice
from pathlib import Path
from time import perf_counter
from typing import Any, TypeVar

from agents import SQLiteSession  # type: ignore[import-not-found, unused-ignore]

from benchmarks.contest import Contestant, file_size, serve, timed
from benchmarks.messages import Message, messages

T = TypeVar("T")


class Session(SQLiteSession):  # type: ignore[misc, unused-ignore]
    """A session whose connections are in WAL mode, as the library makes them, and sync as they are told."""

    durability = "normal"

    @staticmethod
    def _configure_connection(conn: sqlite3.Connection) -> None:
        SQLiteSession._configure_connection(conn)
        conn.execute(f"PRAGMA synchronous = {Session.durability}")


class OpenAIAgents(Contestant):
    """SQLiteSession. It has no view of an earlier point: all items are read, and cut."""

    name = "OpenAI Agents `SQLiteSession`"

    def __init__(self) -> None:
        self._folder = Path()
        self._loop = asyncio.new_event_loop()
        self._sessions: dict[str, Session] = {}
        self._messages = messages()

    def about(self) -> str:
        return f"openai-agents {version('openai-agents')}; `synchronous` set on its connections"

    def start(self, folder: str) -> None:
        self._folder = Path(folder)

    def append(self, durability: str, count: int) -> float:
        session = self._session(f"openai-{durability}.db", durability)
        return self._run(self._append(session, list(islice(self._messages, count)), 1))

    def append_hundreds(self, batches: int) -> float:
        session = self._session("openai-normal.db", "normal")
        return self._run(self._append(session, list(islice(self._messages, 100 * batches)), 100))

    def fill(self, size: int) -> None:
        self._run(self._append(self._session(f"openai-{size}.db", "normal"), list(islice(messages(), size)), 1000))

    def whole(self, size: int) -> float:
        session = self._session(f"openai-{size}.db", "normal")
        return timed(lambda: self._run(session.get_items()))

    def last(self, size: int, middle: bool) -> float:
        session = self._session(f"openai-{size}.db", "normal")
        if middle:
            return timed(lambda: self._run(session.get_items())[: size // 2][-50:])
        return timed(lambda: self._run(session.get_items(limit=50)))

    def disk(self, size: int) -> float:
        return file_size(self._folder / f"openai-{size}.db") / size

    async def _append(self, session: Session, items: list[Message], batch: int) -> float:
        began = perf_counter()
        for start in range(0, len(items), batch):
            await session.add_items(items[start : start + batch])
        return (perf_counter() - began) / len(items)

    def _session(self, file: str, durability: str) -> Session:
        Session.durability = durability
        if file not in self._sessions:
            self._sessions[file] = Session("call-42", self._folder / file)
        return self._sessions[file]

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._loop.run_until_complete(work)


if __name__ == "__main__":
    serve(OpenAIAgents())
