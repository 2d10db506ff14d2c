"""LangGraph: SqliteSaver, whose checkpoints hold all messages so far, as a graph with a list of messages saves them."""

from __future__ import annotations

import json
import sqlite3
from importlib.metadata import version
from itertools import islice
from pathlib import Path
from time import perf_counter
from typing import Any

from langchain_core.messages import (  # type: ignore[import-not-found, unused-ignore]
    AIMessage,
    BaseMessage,
    HumanMessage,
    ToolMessage,
)
from langgraph.checkpoint.base import empty_checkpoint  # type: ignore[import-not-found, unused-ignore]
from langgraph.checkpoint.sqlite import SqliteSaver  # type: ignore[import-not-found, unused-ignore]

from benchmarks.contest import Contestant, file_size, serve, timed
from benchmarks.messages import Message, messages

# Each append writes the whole conversation again, so that few can be made.
BEGUN_AT = 1000
MOST_APPENDS = 20


class LangGraph(Contestant):
    """SqliteSaver. Appends go to a conversation of 1,000 messages; what is read was saved in two checkpoints."""

    name = "LangGraph `SqliteSaver`"
    without = ("append_hundreds",)

    def __init__(self) -> None:
        self._folder = Path()
        self._savers: dict[str, Any] = {}
        self._said: dict[str, list[Any]] = {}
        self._checkpoints: dict[tuple[int, bool], str] = {}
        self._messages = map(_message, messages())

    def about(self) -> str:
        return (
            f"langgraph-checkpoint-sqlite {version('langgraph-checkpoint-sqlite')}; `synchronous` set on its connection"
        )

    def start(self, folder: str) -> None:
        self._folder = Path(folder)

    def append(self, durability: str, count: int) -> float:
        saver = self._saver(durability, durability)
        said = self._said.setdefault(durability, list(islice(self._messages, BEGUN_AT)))
        fresh = list(islice(self._messages, min(count, MOST_APPENDS)))
        began = perf_counter()
        for message in fresh:
            said.append(message)
            self._save(saver, said)
        return (perf_counter() - began) / len(fresh)

    def fill(self, size: int) -> None:
        saver = self._saver(str(size), "normal")
        said = list(islice(map(_message, messages()), size))
        self._checkpoints[size, True] = self._save(saver, said[: size // 2])
        self._checkpoints[size, False] = self._save(saver, said)

    def whole(self, size: int) -> float:
        return timed(lambda: self._read(size, middle=False))

    def last(self, size: int, middle: bool) -> float:
        return timed(lambda: self._read(size, middle)[-50:])

    def disk(self, size: int) -> float:
        """Of 1,000 messages that were appended one by one: each leaves all before it on disk once more."""
        saver, said = self._saver("disk", "normal"), list(islice(self._messages, BEGUN_AT))
        for count in range(1, len(said) + 1):
            self._save(saver, said[:count])
        return file_size(self._folder / "langgraph-disk.db") / len(said)

    def _saver(self, name: str, durability: str) -> Any:
        if name not in self._savers:
            connection = sqlite3.connect(self._folder / f"langgraph-{name}.db", check_same_thread=False)
            self._savers[name] = SqliteSaver(connection)
            self._savers[name].setup()
            connection.execute(f"PRAGMA synchronous = {durability}")
        return self._savers[name]

    def _save(self, saver: Any, said: list[Any]) -> str:
        checkpoint = empty_checkpoint() | {"channel_values": {"messages": said}}
        config = {"configurable": {"thread_id": "call-42", "checkpoint_ns": ""}}
        saver.put(config, checkpoint, {"source": "loop", "step": len(said)}, {})
        return str(checkpoint["id"])

    def _read(self, size: int, middle: bool) -> list[Any]:
        identity = self._checkpoints[size, middle]
        config = {"configurable": {"thread_id": "call-42", "checkpoint_ns": "", "checkpoint_id": identity}}
        found = self._saver(str(size), "normal").get_tuple(config)
        said: list[Any] = found.checkpoint["channel_values"]["messages"]
        return said


def _message(said: Message) -> BaseMessage:
    if said["role"] == "user":
        return HumanMessage(said["content"])
    if said["role"] == "tool":
        return ToolMessage(said["content"], tool_call_id=said["tool_call_id"], name=said["name"])
    calls = [
        {"id": call["id"], "name": call["name"], "args": json.loads(call["arguments"])}
        for call in said.get("tool_calls", ())
    ]
    return AIMessage(said["content"], tool_calls=calls)


if __name__ == "__main__":
    serve(LangGraph())
