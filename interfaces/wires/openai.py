"""The `openai` wire: chat completions.

Facts are from the types of the `openai` package and, where these are silent, from the API's refusals. Caching is by
prefix and automatic: the request says nothing of cache points.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from turnlog.store.errors import shown

from .groups import Adjustment
from .names import legal_name
from .parts import Media, Tool, media
from .turns import Call, Turn
from .wire import Block, Draft, Message

_IMAGES = frozenset(("image/png", "image/jpeg", "image/gif", "image/webp"))
_DETAILS = ("auto", "low", "high", "original")
_SOUNDS = {
    "wav": "wav",
    "audio/wav": "wav",
    "audio/x-wav": "wav",
    "mp3": "mp3",
    "audio/mpeg": "mp3",
    "audio/mp3": "mp3",
}


class OpenAI:
    """Chat completions: system messages stay in place, results are messages of their own, anyone may begin."""

    name = "openai"
    budget: int | None = None
    hoists = False
    joins = frozenset(("user",))
    opens = frozenset(("system", "user", "assistant"))
    id_length = 40  # "string too long. Expected a string with maximum length 40"

    def tool(self, tool: Tool, name: str) -> dict[str, Any]:
        function: dict[str, Any] = {"name": name}
        if tool.description is not None:
            function["description"] = tool.description
        if tool.schema is not None:
            function["parameters"] = tool.schema
        if tool.strict is not None:
            function["strict"] = tool.strict
        return {"type": "function", "function": function}

    def part(self, role: str, part: dict[str, Any]) -> dict[str, Any] | None:
        medium = media(part) if role == "user" else None
        match medium:
            case Media(kind="image"):
                return _image(medium, part)
            case Media(kind="audio", data=str(data), type=str(type)) if type in _SOUNDS:
                return {"type": "input_audio", "input_audio": {"data": data, "format": _SOUNDS[type]}}
            case Media(kind="file", file_id=str(file_id)):
                return {"type": "file", "file": {"file_id": file_id}}
            case Media(kind="file", data=str(data), type=str(type)):
                file = {"filename": medium.name or "file", "file_data": f"data:{type};base64,{data}"}
                return {"type": "file", "file": file}
        return None

    def call(self, call: Call) -> dict[str, Any]:
        return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.text}}

    def message(self, turn: Turn, blocks: list[Block], adjustments: list[Adjustment]) -> Message:
        if turn.answers is not None:
            return Message("tool", blocks, {"tool_call_id": turn.answers})
        name = legal_name(turn.name or "")
        if name != (turn.name or ""):
            adjustments.append(Adjustment(turn.version, f"name {shown(turn.name)} written as {name}"))
        return Message(turn.role, blocks, {"name": name} if name else {})

    def written(self, message: Message) -> dict[str, Any]:
        # Always a list, so that a message's bytes stay as they are when another joins it.
        content = [block.value for block in message.blocks if block.call is None]
        calls = [block.value for block in message.blocks if block.call is not None]
        written: dict[str, Any] = {"role": message.role, **message.head}
        if content:
            written["content"] = content
        if calls:
            written["tool_calls"] = calls
        return written

    def request(self, draft: Draft, places: Sequence[int]) -> dict[str, Any]:
        request: dict[str, Any] = {"messages": [self.written(message) for message in draft.messages]}
        if draft.tools:
            request["tools"] = draft.tools
        return request


def _image(medium: Media, part: dict[str, Any]) -> dict[str, Any] | None:
    if medium.data is not None and medium.type in _IMAGES:
        image = {"url": f"data:{medium.type};base64,{medium.data}"}
    elif medium.data is None and (medium.url or "").startswith(("https://", "http://")):
        image = {"url": str(medium.url)}
    else:
        return None
    given = part.get("image_url")
    if isinstance(given, dict) and given.get("detail") in _DETAILS:
        image["detail"] = given["detail"]
    return {"type": "image_url", "image_url": image}
