"""Real messages, as many as are wanted: those of tests/data/airline.jsonl again and again, under new call ids."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

AIRLINE = Path(__file__).resolve().parent.parent / "tests" / "data" / "airline.jsonl"
# After so many rounds through the file the ids come again, as they do in the logs of real models.
ROUNDS_UNTIL_IDS_REPEAT = 8

Message = dict[str, Any]


def conversations() -> list[list[Message]]:
    """The file's conversations without their prompt, each message as turnlog's event has it."""
    return [[_message(each) for each in read["messages"] if each["role"] != "system"] for read in _file()]


def policy() -> list[str]:
    """The sections of the prompt that all the conversations share: what an airline's assistant has to know."""
    prompt: str = _file()[0]["messages"][0]["content"]
    return prompt.split("\n\n## ")


def tools() -> list[dict[str, Any]]:
    """The tools that the conversations call."""
    names = {call["name"] for each in conversations() for message in each for call in message.get("tool_calls", ())}
    return [{"name": name} for name in sorted(names)]


def messages(start: int = 0) -> Iterator[Message]:
    """Messages without end, from the conversation of that number on; calls stand before their results."""
    kept = conversations()
    for number in count(start):
        again = number // len(kept) % ROUNDS_UNTIL_IDS_REPEAT
        for message in kept[number % len(kept)]:
            yield _renamed(message, f"-{again}") if again else message


def _file() -> list[dict[str, Any]]:
    return [json.loads(line) for line in AIRLINE.read_text(encoding="utf-8").splitlines()]


def _message(read: dict[str, Any]) -> Message:
    message: Message = {"role": read["role"], "content": read["content"] or ""}
    if read.get("tool_calls"):
        message["tool_calls"] = [{"id": call["id"], **call["function"]} for call in read["tool_calls"]]
    if "tool_call_id" in read:
        message["tool_call_id"] = read["tool_call_id"]
        message["name"] = read["name"]
    return message


def _renamed(message: Message, suffix: str) -> Message:
    if "tool_calls" in message:
        return message | {"tool_calls": [call | {"id": call["id"] + suffix} for call in message["tool_calls"]]}
    if "tool_call_id" in message:
        return message | {"tool_call_id": message["tool_call_id"] + suffix}
    return message
