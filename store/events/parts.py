"""The content of messages and responses: a text or a list of parts, with calls among the parts or beside them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, TypeAlias

import msgspec

from ..errors import InvalidEvent
from .base import MAX_NAME_LENGTH, FrameField, Name

Part: TypeAlias = dict[str, Any]
Content: TypeAlias = str | list[Part]
Kind = Literal["text", "refusal", "image", "audio", "file", "reasoning", "tool_call", "server_tool", "other"]
PartKind = Literal[
    "text", "refusal", "image", "audio", "audio+text", "file", "reasoning", "tool_call", "server_tool", "other"
]

# The names under which the parts of each kind are written.
KINDS: dict[Kind, tuple[str, ...]] = {
    "text": ("text", "input_text", "output_text", "summary_text"),
    "refusal": ("refusal",),
    "image": ("image", "image_url", "input_image"),
    "audio": ("audio", "input_audio"),
    "file": ("file", "input_file", "document"),
    "reasoning": ("reasoning", "thinking", "redacted_thinking"),
    "tool_call": ("tool_call", "tool_use", "function_call", "toolCall"),
    "server_tool": (
        "server_tool",
        "server_tool_use",
        "web_search_tool_result",
        "web_fetch_tool_result",
        "code_execution_tool_result",
        "bash_code_execution_tool_result",
        "text_editor_code_execution_tool_result",
        "tool_search_tool_result",
        "mcp_tool_use",
        "mcp_tool_result",
        "web_search_call",
        "file_search_call",
        "code_interpreter_call",
        "computer_call",
        "image_generation_call",
        "mcp_call",
        "mcp_list_tools",
    ),
}
_KIND_OF: dict[str, Kind] = {name: kind for kind, names in KINDS.items() for name in names}
# Where each kind of call has its id, its name and its arguments: the first of these fields that is there.
_CALL_FIELDS: dict[str, tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]] = {
    "tool_call": (("id",), ("name",), ("arguments",)),
    "tool_use": (("id",), ("name",), ("input",)),
    "function_call": (("call_id",), ("name",), ("arguments",)),
    "toolCall": (("toolCallId", "id"), ("toolName", "name"), ("args", "arguments")),
}
_TEXT_KINDS = frozenset(("text", "refusal", "audio+text"))
_NAME = re.compile(rf"[^\x00-\x1f\x7f-\x9f]{{1,{MAX_NAME_LENGTH}}}\Z")


class ToolCall(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A call by a model; `arguments` is the JSON text that it wrote, valid or not."""

    id: Name
    name: Name
    arguments: str


class Call(FrameField, frozen=True, kw_only=True, gc=False):
    """A call as a frame has it."""

    id: str
    name: str


def kind_of(part: Mapping[str, Any]) -> Kind:
    """Return the kind of a part, under whichever of its names it is written; `other` if it is of none of the kinds."""
    type_ = part.get("type")
    return _KIND_OF.get(type_, "other") if isinstance(type_, str) else "other"


def text_of(part: Mapping[str, Any]) -> str:
    """Return the text that a part says: that of a text or a refusal, or the transcript of an audio; else ""."""
    match kind_of(part):
        case "text":
            text = part.get("text")
        case "refusal":
            text = part.get("refusal")
        case "audio":
            inner = (part, part.get("audio"), part.get("input_audio"))
            texts = (each.get("transcript") for each in inner if isinstance(each, Mapping))
            text = next((each for each in texts if isinstance(each, str) and each), "")
        case _:
            return ""
    return text if isinstance(text, str) else ""


def calls_of(content: object, tool_calls: object = None) -> list[ToolCall]:
    """Return the calls of a body in order: those among the parts of its content, then those beside it.

    What is no call is left out, so that a damaged body can be read too.
    """
    parts = content if isinstance(content, list) else ()
    calls = [_read_call(part) for part in parts if isinstance(part, dict) and kind_of(part) == "tool_call"]
    beside = tool_calls if isinstance(tool_calls, list | tuple) else ()
    calls += [
        call if isinstance(call, ToolCall) else _read_call({**call, "type": "tool_call"})
        for call in beside
        if isinstance(call, ToolCall | dict)
    ]
    return [call for call in calls if call is not None]


def frame_parts(content: Content | None) -> tuple[PartKind, ...]:
    """Return the kinds of a content's parts in order, calls included and empty texts left out.

    A text that is not in a list is one part. An audio with a transcript is `audio+text`.
    """
    if not content:
        return ()
    if isinstance(content, str):
        return ("text",)
    return tuple(kind for part in content if (kind := _frame_kind(part)) is not None)


def frame_calls(content: Content | None, calls: Sequence[ToolCall] | None) -> tuple[Call, ...]:
    """Return the calls of an event in order as its frame has them."""
    if type(content) is list:
        calls = calls_of(content, calls)
    return tuple([Call(id=call.id, name=call.name) for call in calls]) if calls else ()


def has_text(parts: Iterable[str]) -> bool:
    """Return whether any of a frame's parts has text."""
    return not _TEXT_KINDS.isdisjoint(parts)


def has_other(parts: Iterable[str]) -> bool:
    """Return whether any of a frame's parts is more than text and no call; an audio with a transcript is one, too."""
    return any(part not in ("text", "refusal", "tool_call") for part in parts)


def check_content(field: str, content: Content | None, calls: Sequence[ToolCall] | None) -> None:
    """Refuse a part without a kind, a text without text, a call without an id or name, and calls in two places.

    :raises InvalidEvent: names the field; that of a part begins with `field`.
    """
    if not isinstance(content, list):
        return
    has_calls = False
    for number, part in enumerate(content):
        type_ = part.get("type")
        if not isinstance(type_, str) or not type_:
            raise InvalidEvent(f"{field}[{number}].type", type_, "is not the name of a kind of part")
        match _KIND_OF.get(type_):
            case "text":
                _check_text(f"{field}[{number}]", part, "text")
            case "refusal":
                _check_text(f"{field}[{number}]", part, "refusal")
            case "tool_call":
                _check_call(f"{field}[{number}]", part)
                has_calls = True
    if has_calls and calls:
        value = [msgspec.to_builtins(call) for call in calls]
        raise InvalidEvent("tool_calls", value, f"is given beside the calls in {field}: calls have one place")


def _frame_kind(part: Part) -> PartKind | None:
    kind = kind_of(part)
    if kind in ("text", "refusal"):
        return kind if text_of(part) else None
    return "audio+text" if kind == "audio" and text_of(part) else kind


def _read_call(part: Part) -> ToolCall | None:
    """Return the call that a part is; None if it has no id or name."""
    id_, name, arguments = (_first(part, keys)[1] for keys in _CALL_FIELDS[part["type"]])
    if not isinstance(id_, str) or not isinstance(name, str):
        return None
    if arguments is None:
        arguments = ""
    elif not isinstance(arguments, str):
        arguments = msgspec.json.encode(arguments).decode()
    return ToolCall(id=id_, name=name, arguments=arguments)


def _first(part: Part, keys: Sequence[str]) -> tuple[str, Any]:
    """Return the first of these fields that a part has, and its value; the first of all and None if it has none."""
    return next(((key, part[key]) for key in keys if part.get(key) is not None), (keys[0], None))


def _check_text(where: str, part: Part, field: str) -> None:
    if not isinstance(part.get(field), str):
        raise InvalidEvent(f"{where}.{field}", part.get(field), "is not text")


def _check_call(where: str, part: Part) -> None:
    *names, arguments = _CALL_FIELDS[part["type"]]
    for keys in names:
        key, value = _first(part, keys)
        if value is None:
            raise InvalidEvent(f"{where}.{key}", None, "is missing: a call has an id and a name")
        if not isinstance(value, str) or not _NAME.match(value):
            why = f"is not a text of 1 to {MAX_NAME_LENGTH} characters without control characters"
            raise InvalidEvent(f"{where}.{key}", value, why)
    key, value = _first(part, arguments)
    if not isinstance(value, str | dict | None):
        raise InvalidEvent(f"{where}.{key}", value, "is neither JSON text nor an object")
