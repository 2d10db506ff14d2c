"""Google ADK: SqliteSessionService, one event a message. It opens a connection for each call."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from importlib.metadata import version
from itertools import islice
from pathlib import Path
from time import perf_counter
from typing import Any, TypeVar

from google.adk.events.event import Event  # type: ignore[import-not-found, unused-ignore]
from google.adk.sessions.base_session_service import GetSessionConfig  # type: ignore[import-not-found, unused-ignore]
from google.adk.sessions.sqlite_session_service import (  # type: ignore[import-not-found, unused-ignore]
    SqliteSessionService,
)
from google.genai import types  # type: ignore[import-not-found, unused-ignore]

from benchmarks.contest import Contestant, file_size, serve, timed
from benchmarks.messages import Message, messages

T = TypeVar("T")
WHO = {"app_name": "app", "user_id": "user", "session_id": "call-42"}
MOST_APPENDS = 100


class Service(SqliteSessionService):  # type: ignore[misc, unused-ignore]
    """A service whose connections sync as they are told; FULL is what they do untold."""

    durability = "full"

    @asynccontextmanager
    async def _get_db_connection(self) -> AsyncIterator[Any]:
        async with super()._get_db_connection() as connection:
            if self.durability != "full":
                await connection.execute(f"PRAGMA synchronous = {self.durability}")
            yield connection


class ADK(Contestant):
    """SqliteSessionService. It has no view of an earlier point: all events are read, and cut."""

    name = "ADK on SQLite"
    without = ("append_hundreds",)

    def __init__(self) -> None:
        self._folder = Path()
        self._loop = asyncio.new_event_loop()
        self._open: dict[str, tuple[Service, Any]] = {}
        self._events = map(_event, messages())

    def about(self) -> str:
        return f"google-adk {version('google-adk')}; its file put in WAL mode, `synchronous` set on each connection"

    def start(self, folder: str) -> None:
        self._folder = Path(folder)

    def append(self, durability: str, count: int) -> float:
        return self._run(self._append(durability, list(islice(self._events, min(count, MOST_APPENDS)))))

    def fill(self, size: int) -> None:
        """One event as the service appends it, the others as rows like it: thousands of appends would take minutes."""
        self._run(self._append(str(size), [_event(next(messages()))]))
        rows = []
        for event in map(_event, islice(messages(), 1, size)):
            data = event.model_dump_json(exclude_none=True)
            rows.append((event.id, *WHO.values(), event.invocation_id, event.timestamp, data))
        connection = sqlite3.connect(self._folder / f"adk-{size}.db")
        connection.executemany(
            "INSERT INTO events (id, app_name, user_id, session_id, invocation_id, timestamp, event_data)"
            " VALUES (?, ?, ?, ?, ?, ?, ?)",
            rows,
        )
        connection.commit()
        connection.close()

    def whole(self, size: int) -> float:
        return timed(lambda: self._read(size))

    def last(self, size: int, middle: bool) -> float:
        if middle:
            return timed(lambda: self._read(size)[: size // 2][-50:])
        return timed(lambda: self._read(size, num_recent_events=50))

    def disk(self, size: int) -> float:
        return file_size(self._folder / f"adk-{size}.db") / size

    def _read(self, size: int, **config: Any) -> list[Any]:
        service, _ = self._run(self._session(str(size)))
        events: list[Any] = self._run(service.get_session(**WHO, config=GetSessionConfig(**config))).events
        return events

    async def _append(self, name: str, events: list[Any]) -> float:
        service, session = await self._session(name)
        began = perf_counter()
        for event in events:
            await service.append_event(session, event)
        return (perf_counter() - began) / len(events)

    async def _session(self, name: str) -> tuple[Service, Any]:
        if name not in self._open:
            file = self._folder / f"adk-{name}.db"
            connection = sqlite3.connect(file)
            connection.execute("PRAGMA journal_mode = WAL")
            connection.close()
            service = Service(str(file))
            service.durability = "full" if name == "full" else "normal"
            self._open[name] = service, await service.create_session(**WHO)
        return self._open[name]

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._loop.run_until_complete(work)


def _event(said: Message) -> Any:
    if said["role"] == "tool":
        result = types.FunctionResponse(
            id=said["tool_call_id"], name=said["name"], response={"result": said["content"]}
        )
        part = types.Part(function_response=result)
    elif "tool_calls" in said:
        (call,) = said["tool_calls"]
        called = types.FunctionCall(id=call["id"], name=call["name"], args=json.loads(call["arguments"]))
        part = types.Part(function_call=called)
    else:
        part = types.Part(text=said["content"])
    role = "model" if said["role"] == "assistant" else "user"
    author = "user" if said["role"] == "user" else "agent"
    return Event(author=author, invocation_id="call", content=types.Content(role=role, parts=[part]))


if __name__ == "__main__":
    serve(ADK())
