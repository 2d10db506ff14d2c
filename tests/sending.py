"""Histories sent over wires, in few words: what became of their messages, points and all else."""

from __future__ import annotations

from typing import Any

import pytest
from wire_rules import obeys

from turnlog.projections import History
from turnlog.store.events import CachePoint
from turnlog.wires import WIRES, Adapted, Wire, adapt

both = pytest.mark.parametrize("wire", WIRES.values(), ids=WIRES)


def parts(*texts: str) -> Any:
    return [{"type": "text", "text": text} for text in texts]


def called(id: str = "t1", name: str = "f", arguments: str = "{}", **fields: Any) -> dict[str, Any]:
    calls = [{"id": id, "name": name, "arguments": arguments}]
    return {"type": "message", "role": "assistant", "tool_calls": calls, **fields}


def sent(history: History, wire: Wire, *points: CachePoint) -> Adapted:
    adapted = adapt(history, wire, points)
    obeys(wire, adapted.request)
    return adapted


def moved(history: History, wire: Wire, *points: CachePoint) -> list[CachePoint]:
    return sent(history, wire, *points).cache_points


def messages(history: History, wire: Wire) -> list[tuple[str, list[Any]]]:
    """Each message's role, and its texts and the ids of calls and of what they are answered by."""
    found = []
    for message in sent(history, wire).request["messages"]:
        items = [*message.get("content", ()), *message.get("tool_calls", ())]
        ids = [message["tool_call_id"]] if "tool_call_id" in message else []
        found.append((message["role"], ids + [_short(item) for item in items]))
    return found


def _short(item: dict[str, Any]) -> Any:
    return item.get("text") or item.get("id") or item.get("tool_use_id") or item


def changes(history: History, wire: Wire) -> list[tuple[int, str]]:
    return [(change.version, change.what) for change in sent(history, wire).changes]
