"""What the providers take, checked on requests: their packages' own types, and their rules beside these."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from anthropic.types.message_create_params import MessageCreateParamsNonStreaming
from openai.types.chat.completion_create_params import CompletionCreateParamsNonStreaming
from pydantic import TypeAdapter

from turnlog.projections import History
from turnlog.wires import WIRES, Wire

Request = dict[str, Any]
OPENAI, ANTHROPIC = WIRES["openai"], WIRES["anthropic"]
NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
THINKING = ("thinking", "redacted_thinking")

_OPENAI_TYPE = TypeAdapter[Any](CompletionCreateParamsNonStreaming)
_ANTHROPIC_TYPE = TypeAdapter[Any](MessageCreateParamsNonStreaming)


def obeys(wire: Wire, request: Request) -> None:
    """The request is one that the wire's provider takes."""
    {"openai": _obeys_openai, "anthropic": _obeys_anthropic}[wire.name](request)


def items(wire: Wire, request: Request) -> list[list[Any]]:
    """The items of each message that cache points count, as JSON values."""
    messages = [message for message in request["messages"] if message["role"] != "system"]
    return [[*message.get("content", ()), *message.get("tool_calls", ())] for message in messages]


def open_calls(wire: Wire, request: Request, view: History) -> list[int]:
    """The places in the flat list of items of the calls without a final result: what comes after them may change."""
    kind = {"openai": "function", "anthropic": "tool_use"}[wire.name]
    flat = [item for message in items(wire, request) for item in message]
    places = [place for place, item in enumerate(flat) if item.get("type") == kind]
    answered = {(pair.call, pair.number) for pair in view.pairs if not pair.interim}
    callers = [message for message in view.messages if message.role == "assistant"]
    calls = [(message.version, number) for message in callers for number in range(len(message.tool_calls))]
    return [place for place, call in zip(places, calls, strict=True) if call not in answered]


def marked(request: Request) -> list[dict[str, Any]]:
    """What carries a cache mark, in the order of prefixes."""
    content = [item for message in request["messages"] for item in message["content"]]
    everything = [*request.get("tools", ()), *request.get("system", ()), *content]
    return [each for each in everything if "cache_control" in each]


def read_back(wire: Wire, request: Request) -> list[dict[str, Any]]:
    """Events whose history is what the request says."""
    tools = [{"type": "assistant", "assistant": "a", "tools": request["tools"]}] if "tools" in request else []
    notes = [_message("system", [block]) for block in request.get("system", ())]
    read = {"openai": _read_openai, "anthropic": _read_anthropic}[wire.name]
    return [*tools, *notes, *(event for message in request["messages"] for event in read(message))]


def _message(role: str, content: list[Any], **fields: Any) -> dict[str, Any]:
    return {"type": "message", "role": role, "content": content, **fields}


def _read_openai(message: dict[str, Any]) -> list[dict[str, Any]]:
    fields = {key: message[key] for key in ("name", "tool_call_id") if key in message}
    calls = [{"id": call["id"], **call["function"]} for call in message.get("tool_calls", ())]
    return [_message(message["role"], message.get("content", []), tool_calls=calls, **fields)]


def _read_anthropic(message: dict[str, Any]) -> list[dict[str, Any]]:
    content = message["content"]
    results = [
        _message("tool", item["content"], tool_call_id=item["tool_use_id"])
        | ({"extra": {"is_error": True}} if item.get("is_error") else {})
        for item in content
        if item["type"] == "tool_result"
    ]
    calls = [
        {"id": item["id"], "name": item["name"], "arguments": json.dumps(item["input"])}
        for item in content
        if item["type"] == "tool_use"
    ]
    rest = [item for item in content if item["type"] not in ("tool_result", "tool_use")]
    return [*results, *([_message(message["role"], rest, tool_calls=calls)] if rest or calls else [])]


def _obeys_openai(request: Request) -> None:
    _has_type(_OPENAI_TYPE, request | {"model": "m"})
    messages = request["messages"]
    assert messages
    assert messages[0]["role"] in ("system", "user", "assistant")
    _has_legal_tools([tool["function"]["name"] for tool in request.get("tools", ())], request)
    waiting: list[str] = []
    ids: list[str] = []
    before: tuple[str, str | None] | None = None
    for message in messages:
        assert message.get("content") or message.get("tool_calls")
        _has_no_blank_text(message.get("content", ()))
        if message["role"] == "tool":
            waiting.remove(message["tool_call_id"])
        else:
            assert not waiting, "a call is not answered directly after its message"
        for call in message.get("tool_calls", ()):
            waiting.append(call["id"])
            ids.append(call["id"])
            assert NAME.fullmatch(call["function"]["name"])
            assert isinstance(json.loads(call["function"]["arguments"]), dict)
        speaker = message["role"], message.get("name")
        assert speaker[0] != "user" or speaker != before, "adjacent user messages"
        before = speaker
    assert not waiting
    _has_legal_ids(ids, 40)


def _obeys_anthropic(request: Request) -> None:
    _has_type(_ANTHROPIC_TYPE, request | {"model": "m", "max_tokens": 1})
    messages = request["messages"]
    roles = [message["role"] for message in messages]
    assert roles
    assert roles == [("user", "assistant")[number % 2] for number in range(len(roles))]
    _has_legal_tools([tool["name"] for tool in request.get("tools", ())], request)
    _has_no_blank_text(request.get("system", ()))
    waiting: set[str] = set()
    ids: list[str] = []
    for message in messages:
        content = message["content"]
        assert content
        _has_no_blank_text(content)
        results = [item["tool_use_id"] for item in content if item["type"] == "tool_result"]
        assert len(results) == len(waiting)
        assert set(results) == waiting, "a call is not answered directly after its message"
        assert [item["type"] for item in content[: len(results)]] == ["tool_result"] * len(results)
        for item in content[: len(results)]:
            assert item["content"]
            _has_no_blank_text(item["content"])
        calls = [item for item in content if item["type"] == "tool_use"]
        waiting = {call["id"] for call in calls}
        ids += [call["id"] for call in calls]
        assert all(NAME.fullmatch(call["name"]) for call in calls)
        if message["role"] == "assistant":
            assert content[-1]["type"] not in THINKING
            assert all(item["text"] == item["text"].rstrip() for item in content if item["type"] == "text")
    assert not waiting
    _has_legal_ids(ids, 64)
    assert len(marked(request)) <= 4
    assert not [each for each in marked(request) if each.get("type") in THINKING]


def _has_type(type: TypeAdapter[Any], request: Request) -> None:
    # Unknown keys are left out of what was validated: so nothing may be.
    assert _read(type.validate_python(request)) == request


def _read(value: Any) -> Any:
    """A validated value; pydantic validates an `Iterable` only when it is read."""
    if isinstance(value, Mapping):
        return {key: _read(inner) for key, inner in value.items()}
    if isinstance(value, Iterable) and not isinstance(value, str):
        return [_read(inner) for inner in value]
    return value


def _has_no_blank_text(content: Iterable[dict[str, Any]]) -> None:
    assert all(item["text"].strip() for item in content if item["type"] == "text")


def _has_legal_ids(ids: list[str], length: int) -> None:
    assert len(ids) == len(set(ids))
    assert all(re.fullmatch(rf"[a-zA-Z0-9_-]{{1,{length}}}", id) for id in ids)


def _has_legal_tools(names: list[str], request: Request) -> None:
    assert len(names) == len(set(names))
    assert all(map(NAME.fullmatch, names))
    assert request.get("tools") != []
