"""Chat messages as OpenAI writes them, and the events they become: what both message formats share.

Reading is lossless: whatever of a message the event's own fields would not give back is kept in `extra`.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec
import pydantic

from turnlog.projections import VisibleMessage

ASSISTANT = "assistant"
_ROLES = {"developer": "system", "function": "tool"}
Message = dict[str, Any]


class _Named(pydantic.BaseModel):
    name: str


class _Function(_Named):
    arguments: str | dict[str, Any]


class _CustomTool(_Named):
    input: str


class _Call(pydantic.BaseModel):
    id: str
    function: _Function | None = None
    custom: _CustomTool | None = None

    @pydantic.model_validator(mode="after")
    def _calls_a_tool(self) -> _Call:
        if self.function is None and self.custom is None:
            raise ValueError("a call has a function")
        return self


class _Part(pydantic.BaseModel):
    type: str


class ChatMessage(pydantic.BaseModel):
    """A message of a file; keys that are not here are kept too."""

    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: str | list[_Part] | None = None
    tool_calls: list[_Call] | None = None
    tool_call_id: str | None = None
    name: str | None = None
    function_call: _Function | None = None
    refusal: Any = None
    audio: Any = None

    @pydantic.model_validator(mode="after")
    def _says_something(self) -> ChatMessage:
        said = self.tool_calls or self.function_call or self.refusal or self.audio
        answers = self.role == "tool" and self.tool_call_id is not None
        if not (said or answers or "content" in self.model_fields_set):
            raise ValueError("the message has no content, call or call id")
        return self


def is_prompt(message: Message) -> bool:
    """Whether a message that leads a conversation is its assistant's prompt: a system message with text."""
    return _ROLES.get(message["role"], message["role"]) == "system" and bool(text_of(message.get("content")))


def prompt_event(message: Message) -> dict[str, Any]:
    """The `assistant` event of a leading system message."""
    text = text_of(message["content"])
    event: dict[str, Any] = {"type": "assistant", "assistant": ASSISTANT, "system": text}
    return with_extra(event, message, {"role": "system", "content": text})


def message_event(message: Message) -> dict[str, Any]:
    """The `message` event of any other message."""
    role = message["role"]
    event: dict[str, Any] = {"type": "message", "role": _ROLES.get(role, role)}
    if message.get("content") is not None:
        event["content"] = message["content"]
    calls = [_call(call) for call in message.get("tool_calls") or ()]
    if message.get("function_call"):
        calls.append({"id": f"function_call:{message['function_call']['name']}", **_called(message["function_call"])})
    if calls:
        event["tool_calls"] = calls
    if message.get("tool_call_id") is not None:
        event["tool_call_id"] = message["tool_call_id"]
    elif role == "function":
        event["tool_call_id"] = f"function_call:{message.get('name')}"
    if message.get("name") is not None:
        event["name"] = message["name"]
    back = _written(
        event["role"],
        event.get("content", ""),
        calls,
        event.get("tool_call_id"),
        event.get("name"),
        _words(message),
    )
    return with_extra(event, message, back)


def written(message: VisibleMessage) -> Message:
    """A visible message as a file has it."""
    calls = [msgspec.to_builtins(call) for call in message.tool_calls]
    extra = message.extra if isinstance(message.extra, dict) else {}
    if message.origin in ("message", "response"):
        extra = _of_visible_calls(extra, calls)
    return _written(message.role, message.content, calls, message.tool_call_id, message.name, extra)


def _of_visible_calls(extra: Message, calls: list[dict[str, Any]]) -> Message:
    """What was kept beside the fields, without the calls that the view has removed."""
    if not calls:
        return {
            key: value for key, value in extra.items() if key != "function_call" and not (key == "tool_calls" and value)
        }
    if not extra.get("tool_calls"):
        return extra
    visible = [call["id"] for call in calls]
    kept = []
    for call in extra["tool_calls"]:
        if call["id"] in visible:
            visible.remove(call["id"])
            kept.append(call)
    return extra | {"tool_calls": kept}


def _written(
    role: str, content: Any, calls: list[dict[str, Any]], tool_call_id: str | None, name: str | None, extra: Message
) -> Message:
    message: Message = {"role": role}
    if content or not (calls or tool_call_id or extra.get("refusal") or extra.get("audio")):
        message["content"] = content
    # The deprecated functions have no ids: theirs were made when they were read.
    if calls and not extra.get("function_call"):
        message["tool_calls"] = [
            {
                "id": call["id"],
                "type": "function",
                "function": {"name": call["name"], "arguments": call["arguments"]},
            }
            for call in calls
        ]
    if tool_call_id is not None and extra.get("role") != "function":
        message["tool_call_id"] = tool_call_id
    if name is not None:
        message["name"] = name
    return message | extra


def with_extra(event: dict[str, Any], message: Message, back: Message) -> dict[str, Any]:
    """The event with what of `message` the event's fields would not give back; they give `back`."""
    lost = {key: value for key, value in message.items() if key not in back or back[key] != value}
    extra = lost | _words(message)
    return event | {"extra": extra} if extra else event


def _words(message: Message) -> Message:
    """What of a message no field holds and the rest depends on: it is kept in `extra` and written back from there."""
    words = {"role": message["role"]} if message["role"] in _ROLES else {}
    return words | {key: message[key] for key in ("function_call", "refusal", "audio") if message.get(key)}


def _call(call: Message) -> dict[str, Any]:
    if call.get("function") is None:
        return {"id": call["id"], "name": call["custom"]["name"], "arguments": call["custom"]["input"]}
    return {"id": call["id"], **_called(call["function"])}


def _called(function: Message) -> dict[str, Any]:
    arguments = function["arguments"]
    if not isinstance(arguments, str):
        arguments = msgspec.json.encode(arguments).decode()
    return {"name": function["name"], "arguments": arguments}


def text_of(content: Any) -> str:
    """The text of a content, or of its text parts."""
    if isinstance(content, list):
        return "".join(part.get("text") or "" for part in content if part.get("type") == "text")
    return content or ""
