"""The `anthropic` wire: messages.

Facts are from the types of the `anthropic` package and, where these are silent, from the API's refusals.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from turnlog.store.errors import shown

from .groups import Adjustment
from .parts import REASONING, Media, Tool, media
from .turns import Call, Turn
from .wire import Block, Draft, Message

_IMAGES = frozenset(("image/png", "image/jpeg", "image/gif", "image/webp"))
_PDF = "application/pdf"
_MARK = {"cache_control": {"type": "ephemeral"}}
_UNMARKABLE = frozenset(("thinking", "redacted_thinking"))


class Anthropic:
    """Messages: the system stands apart, results are the user's, user and assistant take turns, the user begins."""

    name = "anthropic"
    budget: int | None = 4  # "A maximum of 4 blocks with cache_control may be provided."
    hoists = True
    joins = frozenset(("user", "assistant"))
    opens = frozenset(("user",))
    id_length = 64

    def tool(self, tool: Tool, name: str) -> dict[str, Any]:
        written: dict[str, Any] = {"name": name}
        if tool.description is not None:
            written["description"] = tool.description
        written["input_schema"] = tool.schema or {"type": "object", "properties": {}}
        if tool.strict is not None:
            written["strict"] = tool.strict
        return written

    def part(self, role: str, part: dict[str, Any]) -> dict[str, Any] | None:
        if part.get("type") in REASONING:
            return _thinking(part) if role == "assistant" else None
        return _source(media(part)) if role in ("user", "tool") else None

    def call(self, call: Call) -> dict[str, Any]:
        return {"type": "tool_use", "id": call.id, "name": call.name, "input": call.arguments}

    def message(self, turn: Turn, blocks: list[Block], adjustments: list[Adjustment]) -> Message:
        if turn.answers is not None:
            return Message("user", [_result(turn, blocks)])
        if turn.name is not None:
            adjustments.append(Adjustment(turn.version, f"name {shown(turn.name)} dropped"))
        if turn.role == "assistant":
            blocks = _ended(turn, blocks, adjustments)
        return Message(turn.role, blocks)

    def written(self, message: Message) -> dict[str, Any]:
        return {"role": message.role, "content": [dict(block.value) for block in message.blocks]}

    def request(self, draft: Draft, places: Sequence[int]) -> dict[str, Any]:
        tools = [dict(tool) for tool in draft.tools]
        system = [dict(block.value) for block in draft.system]
        messages = [self.written(message) for message in draft.messages]
        items = [item for message in messages for item in message["content"]]
        _mark([tools[-1] if tools else None, system[-1] if system else None, *items], places)
        request: dict[str, Any] = {"system": system, "messages": messages, "tools": tools}
        return {key: value for key, value in request.items() if value}


def _mark(ends: list[dict[str, Any] | None], places: Sequence[int]) -> None:
    """Mark what ends each place: `ends` has it for the tools, the system and then for each item.

    Where that is nothing or may carry no mark, the nearest before it is marked: a shorter prefix, never a longer one.
    """
    for place in places:
        for end in reversed(ends[: place + 2]):
            if end is not None and end.get("type") not in _UNMARKABLE:
                end |= _MARK
                break


def _thinking(part: dict[str, Any]) -> dict[str, Any] | None:
    """Only what the API signed goes back to it."""
    if part["type"] == "redacted_thinking":
        return {"type": part["type"], "data": part["data"]} if isinstance(part.get("data"), str) else None
    thinking, signature = part.get("thinking", part.get("text")), part.get("signature")
    if not isinstance(thinking, str) or not isinstance(signature, str) or not signature:
        return None
    return {"type": "thinking", "thinking": thinking, "signature": signature}


def _source(medium: Media | None) -> dict[str, Any] | None:
    match medium:
        case Media(kind="image", data=str(data), type=str(type)) if type in _IMAGES:
            return {"type": "image", "source": {"type": "base64", "media_type": type, "data": data}}
        case Media(kind="image", data=None, url=str(url)) if url.startswith("https://"):
            return {"type": "image", "source": {"type": "url", "url": url}}
        case Media(kind="file", data=str(data), type=type) if type == _PDF:
            document = {"type": "document", "source": {"type": "base64", "media_type": _PDF, "data": data}}
        case Media(kind="file", data=None, url=str(url)) if url.startswith("https://") and url.endswith(".pdf"):
            document = {"type": "document", "source": {"type": "url", "url": url}}
        case _:
            return None
    return document if medium.name is None else document | {"title": medium.name}


def _result(turn: Turn, blocks: list[Block]) -> Block:
    """A result is one item, whatever is in it: it is inside where all of it is."""
    value: dict[str, Any] = {
        "type": "tool_result",
        "tool_use_id": turn.answers,
        "content": [block.value for block in blocks],
    }
    if turn.failed:
        value["is_error"] = True
    return Block(value, turn.end, turn.version, turn.origin)


def _ended(turn: Turn, blocks: list[Block], adjustments: list[Adjustment]) -> list[Block]:
    """An assistant's items with an end that the API takes of a final message: no thinking, no white space.

    Done to every message, not only to the final one, so that its bytes stay as they are when others follow.
    """
    while blocks and blocks[-1].value["type"] in _UNMARKABLE:
        blocks = blocks[:-1]
        adjustments.append(Adjustment(turn.version, "thinking at the end dropped"))
    ended = []
    for block in blocks:
        text = block.value.get("text", "")
        if text != text.rstrip():
            block = msgspec.structs.replace(block, value=block.value | {"text": text.rstrip()})
            adjustments.append(Adjustment(turn.version, "white space at the end of a text dropped"))
        ended.append(block)
    return ended
