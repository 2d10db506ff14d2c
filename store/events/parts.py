"""The content of messages and responses: a text or a list of parts, and the calls beside it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import msgspec

from ..errors import InvalidEvent
from .base import FrameField, Name

Part: TypeAlias = dict[str, Any]
Content: TypeAlias = str | list[Part]
PartKind = Literal["text", "image", "audio", "file", "reasoning", "other"]

_KINDS: dict[str, PartKind] = {
    "text": "text",
    "image": "image",
    "image_url": "image",
    "audio": "audio",
    "input_audio": "audio",
    "file": "file",
    "reasoning": "reasoning",
    "thinking": "reasoning",
}


class ToolCall(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A call by a model; `arguments` is the JSON text that it wrote, valid or not."""

    id: Name
    name: Name
    arguments: str


class Call(FrameField, frozen=True, kw_only=True, gc=False):
    """A call as a frame has it."""

    id: str
    name: str


def check_parts(field: str, content: Content | None) -> None:
    """Refuse a list of parts of which one has no kind, or is a text without text.

    :raises InvalidEvent: names the part's field, which begins with `field`.
    """
    if not isinstance(content, list):
        return
    for number, part in enumerate(content):
        if not isinstance(part.get("type"), str) or not part["type"]:
            raise InvalidEvent(f"{field}[{number}].type", part.get("type"), "is not the name of a kind of part")
        if part["type"] == "text" and not isinstance(part.get("text"), str):
            raise InvalidEvent(f"{field}[{number}].text", part.get("text"), "is not text")


def frame_parts(content: Content | None) -> tuple[PartKind, ...]:
    """Return the kinds of a content's parts in order, without empty texts; a text that is not in a list is one part."""
    if not content:
        return ()
    if isinstance(content, str):
        return ("text",)
    return tuple(_KINDS.get(part["type"], "other") for part in content if part["type"] != "text" or part["text"])


def frame_calls(calls: Sequence[ToolCall] | None) -> tuple[Call, ...]:
    """Return calls as a frame has them."""
    return tuple([Call(id=call.id, name=call.name) for call in calls]) if calls else ()
