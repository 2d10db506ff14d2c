"""The form of events: typed and as JSON, what of them is frame, and that whatever else they say is kept."""

from __future__ import annotations

import json
from collections.abc import Iterator
from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from logs import random_log
from test_append import said

from turnlog.store import (
    Assistant,
    Clear,
    Describe,
    Event,
    Message,
    NewEvent,
    Redaction,
    Request,
    Response,
    Rewind,
    Store,
    Summary,
    TokenUsage,
    ToolCall,
    Transfer,
    TransferContext,
)
from turnlog.store.codec import prepare
from turnlog.store.events import KINDS, MessageFrame, Messages, ResponseFrame, Tools, has_other, has_text

WORDS = "what was said"
CALLS = [ToolCall(id="t", name="look", arguments="{not json")]
USAGE = TokenUsage(prompt_tokens=1, completion_tokens=2, total_tokens=3, cached_tokens=0)
CALLS_JSON = [{"id": "t", "name": "look", "arguments": "{not json"}]
USAGE_JSON = {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3, "cached_tokens": 0}
# Parts of every kind, with calls of every form in their places.
AMONG: list[dict[str, Any]] = [
    {"type": "thinking", "thinking": "secret"},
    {"type": "tool_call", "id": "1", "name": "f", "arguments": "{not json"},
    {"type": "output_text", "text": "secret"},
    {"type": "text", "text": ""},
    {"type": "tool_use", "id": "2", "name": "g", "input": {"secret": 1}},
    {"type": "function_call", "id": "fc", "call_id": "3", "name": "f", "arguments": "{}"},
    {"type": "refusal", "refusal": "secret"},
    {"type": "refusal", "refusal": ""},
    {"type": "toolCall", "toolCallId": "4", "toolName": "h", "args": {}},
    {"type": "toolCall", "id": "5", "name": "h"},
    {"type": "input_audio", "input_audio": {"data": "AA==", "transcript": "secret"}},
    {"type": "audio", "data": "AA=="},
    {"type": "document", "source": {}},
    {"type": "web_search_call", "id": "ws"},
    {"type": "own", "text": "secret"},
]
AMONG_KINDS = [
    *("reasoning", "tool_call", "text", "tool_call", "tool_call", "refusal", "tool_call", "tool_call"),
    *("audio+text", "audio", "file", "server_tool", "other"),
]
AMONG_CALLS = [{"id": id, "name": name} for id, name in zip("12345", "fgfhh", strict=True)]

# Each type as it is written in Python and in JSON, and what of it must survive erasure.
FORMS: list[tuple[NewEvent, dict[str, Any], dict[str, Any]]] = [
    (
        Describe(title="T", metadata={"k": 1}, scopes=["lab"]),
        {"type": "describe", "title": "T", "metadata": {"k": 1}, "scopes": ["lab"]},
        {"scopes": ["lab"]},
    ),
    (
        Assistant(assistant="a", system="You.", tools=[{"name": "f"}], first_message="", model="m", scope="coder"),
        {"type": "assistant", "assistant": "a", "system": "You.", "tools": [{"name": "f"}], "first_message": ""}
        | {"model": "m", "scope": "coder"},
        {"assistant": "a", "system": True, "tools": ["f"], "first_message": False, "model": True},
    ),
    (
        Message(role="user", content="hello", name="Ann", assistant="a", id="i", meta={"k": 1}, extra={}, actor="u"),
        {"type": "message", "role": "user", "content": "hello", "name": "Ann", "assistant": "a", "id": "i"}
        | {"meta": {"k": 1}, "extra": {}, "actor": "u"},
        {"role": "user", "parts": ["text"], "assistant": "a"},
    ),
    (
        Message(role="assistant", content=[{"type": "image_url", "url": "u"}, {"type": "own"}], tool_calls=CALLS),
        {"type": "message", "role": "assistant", "content": [{"type": "image_url", "url": "u"}, {"type": "own"}]}
        | {"tool_calls": CALLS_JSON},
        {"role": "assistant", "parts": ["image", "other"], "tool_calls": [{"id": "t", "name": "look"}]},
    ),
    (
        Message(role="tool", content="secret", tool_call_id="t", name="look", scope="agent"),
        {"type": "message", "role": "tool", "content": "secret", "tool_call_id": "t", "name": "look"}
        | {"scope": "agent"},
        {"role": "tool", "parts": ["text"], "tool_call_id": "t", "name": "look"},
    ),
    (
        Message(role="tool", content="so far", tool_call_id="t", interim=True),
        {"type": "message", "role": "tool", "content": "so far", "tool_call_id": "t", "interim": True},
        {"role": "tool", "parts": ["text"], "tool_call_id": "t", "interim": True},
    ),
    (
        Message(role="assistant", content=list(AMONG)),
        {"type": "message", "role": "assistant", "content": AMONG},
        {"role": "assistant", "parts": AMONG_KINDS, "tool_calls": AMONG_CALLS},
    ),
    (
        Transfer(
            to="b",
            mode="delete-history",
            from_="a",
            message="m",
            system="",
            tools=[{"type": "function", "function": {"name": "g"}}],
            first_message="f",
            first_message_mode="assistant-waits-for-user",
            tool_call_id="t",
            context=TransferContext(type="lastNMessages", max_messages=2),
            reason="why",
            inferred=True,
        ),
        {"type": "transfer", "to": "b", "mode": "delete-history", "from": "a", "message": "m", "system": ""}
        | {"tools": [{"type": "function", "function": {"name": "g"}}], "first_message": "f"}
        | {"first_message_mode": "assistant-waits-for-user", "tool_call_id": "t", "reason": "why", "inferred": True}
        | {"context": {"type": "lastNMessages", "maxMessages": 2}},
        {"to": "b", "mode": "delete-history", "from": "a", "message": True, "system": False, "tools": ["g"]}
        | {"first_message": True, "first_message_mode": "assistant-waits-for-user", "tool_call_id": "t"}
        | {"context": {"type": "lastNMessages", "maxMessages": 2}, "inferred": True},
    ),
    (
        Summary(text="s", summary_of=2, first=1, last=2, method="m", max_tokens=30, usage=USAGE, role="assistant"),
        {"type": "summary", "text": "s", "summary_of": 2, "first": 1, "last": 2, "method": "m", "max_tokens": 30}
        | {"usage": USAGE_JSON, "role": "assistant"},
        {"summary_of": 2, "text": True, "first": 1, "last": 2, "max_tokens": 30, "role": "assistant"}
        | {"usage": USAGE_JSON},
    ),
    (
        Summary(text="", summary_of=0, first=1, last=2, keep=[1, 2]),
        {"type": "summary", "text": "", "summary_of": 0, "first": 1, "last": 2, "keep": [1, 2]},
        {"summary_of": 0, "first": 1, "last": 2, "keep": [1, 2]},
    ),
    (
        Request(at=1, history="00", rules=1, model="m", cache_points=[Tools(), Messages(2)], parameters={"t": 0.5}),
        {"type": "request", "at": 1, "history": "00", "rules": 1, "model": "m", "parameters": {"t": 0.5}}
        | {"cache_points": ["Tools", {"Messages": 2}]},
        {"at": 1, "history": "00", "rules": 1},
    ),
    (
        Response(
            request=2,
            status="completed",
            response="r",
            tool_calls=CALLS,
            usage=USAGE,
            finish_reason="stop",
            response_id="r1",
        ),
        {"type": "response", "request": 2, "status": "completed", "response": "r", "tool_calls": CALLS_JSON}
        | {"usage": USAGE_JSON, "finish_reason": "stop", "response_id": "r1"},
        {"request": 2, "status": "completed", "parts": ["text"], "tool_calls": [{"id": "t", "name": "look"}]}
        | {"usage": USAGE_JSON},
    ),
    (
        Response(request=2, status="completed", response=list(AMONG)),
        {"type": "response", "request": 2, "status": "completed", "response": AMONG},
        {"request": 2, "status": "completed", "parts": AMONG_KINDS, "tool_calls": AMONG_CALLS},
    ),
    (Rewind(to=0), {"type": "rewind", "to": 0}, {"to": 0}),
    (Rewind(to=1, scope="coder"), {"type": "rewind", "to": 1, "scope": "coder"}, {"to": 1}),
    (Clear(), {"type": "clear"}, {}),
    (
        Redaction(target=1, reason="r", replacement="gone"),
        {"type": "redaction", "target": 1, "reason": "r", "replacement": "gone"},
        {"target": 1, "replacement": True},
    ),
    (
        Redaction(target=1, reason="r", whole=False),
        {"type": "redaction", "target": 1, "reason": "r", "whole": False},
        {"target": 1},
    ),
]
GROUND = [said("one"), {"type": "request", "at": 1}]


def appended(event: NewEvent | dict[str, Any]) -> Event:
    """The event as recorded after a message and a request."""
    with Store(":memory:") as store:
        store.append("c", GROUND)
        store.append("c", [event])
        return store.event("c", 3)


@pytest.mark.parametrize(("typed", "written", "frame"), FORMS)
def test_typed_events_are_their_json(typed: NewEvent, written: dict[str, Any], frame: dict[str, Any]) -> None:
    """A typed event and its JSON form make the same row, key order aside."""
    one, two = appended(typed), appended(written)
    assert (one.type, one.v, one.scope, one.id) == (two.type, two.v, two.scope, two.id)
    assert one.frame_text == two.frame_text
    assert one.body == two.body == {key: value for key, value in written.items() if key not in ("type", "scope", "id")}


@pytest.mark.parametrize(("typed", "written", "frame"), FORMS)
def test_frames(typed: NewEvent, written: dict[str, Any], frame: dict[str, Any]) -> None:
    """The frame holds what the shape of a view needs and nothing of what was said."""
    event = appended(written)
    assert json.loads(event.frame_text) == frame
    assert event.frame is not None


parts = st.fixed_dictionaries(
    {"type": st.sampled_from(sorted({name for kind, names in KINDS.items() if kind != "tool_call" for name in names}))},
).map(lambda part: part | {"text": WORDS, "refusal": WORDS, "transcript": WORDS, "data": {"a": WORDS}})
empty_parts = st.sampled_from(
    [{"type": "text", "text": ""}, {"type": "refusal", "refusal": ""}, {"type": "audio"}, {"type": "x-own"}]
)
calls = st.fixed_dictionaries(
    {"id": st.sampled_from(("t1", "t2")), "name": st.sampled_from(("f", "g")), "arguments": st.just(WORDS)}
)
forms_of_calls = st.sampled_from(
    [
        lambda call: {"type": "tool_call"} | call,
        lambda call: {"type": "tool_use", "id": call["id"], "name": call["name"], "input": {"a": WORDS}},
        lambda call: {"type": "function_call", "call_id": call["id"], "name": call["name"], "arguments": WORDS},
        lambda call: {"type": "toolCall", "toolCallId": call["id"], "toolName": call["name"], "args": {"a": WORDS}},
    ]
)


@given(
    st.lists(st.one_of(parts, empty_parts), max_size=5),
    st.lists(st.tuples(calls, forms_of_calls), max_size=4),
    st.sampled_from(["message", "response"]),
)
def test_calls_beside_the_parts_and_after_them(content: list[Any], made: list[Any], type: str) -> None:
    """A frame is the same whether calls are in `tool_calls` or the last parts, but for their places; it has no text."""
    fields: dict[str, Any] = {"type": "message", "role": "assistant"}
    if type == "response":
        fields = {"type": "response", "request": 1, "status": "completed"}
    key = "content" if type == "message" else "response"
    beside = prepare(fields | {key: content, "tool_calls": [call for call, _ in made]})
    among = prepare(fields | {key: content + [form(call) for call, form in made]})
    assert isinstance(beside.frame, MessageFrame | ResponseFrame)
    assert among.frame == msgspec.structs.replace(beside.frame, parts=(*beside.frame.parts, *["tool_call"] * len(made)))
    assert [(call.id, call.name) for call in beside.frame.tool_calls] == [(c["id"], c["name"]) for c, _ in made]
    assert (has_text(among.frame.parts), has_other(among.frame.parts)) == (
        has_text(beside.frame.parts),
        has_other(beside.frame.parts),
    )
    assert WORDS not in beside.frame_text + among.frame_text


@given(st.integers(0, 2**32))
def test_no_frame_has_text(seed: int) -> None:
    """Of no event of a random log has the frame anything that the event says: ids, names, numbers and kinds alone."""
    texts = {"p", "o", "no", "heard", "u", "think", "y z", "r", "{}"}
    for event in random_log(Random(seed), 20):
        frame = json.loads(prepare(event).frame_text)
        assert not texts & set(_texts(frame)), frame


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _texts(inner)


@pytest.mark.parametrize(
    ("kinds", "text", "other"),
    [
        ((), False, False),
        (("text",), True, False),
        (("refusal",), True, False),
        (("tool_call",), False, False),
        (("audio",), False, True),
        (("audio+text",), True, True),
        (("tool_call", "reasoning"), False, True),
        (("image", "text"), True, True),
        (("server_tool",), False, True),
        (("other",), False, True),
    ],
    ids=str,
)
def test_text_and_other_parts(kinds: tuple[str, ...], text: bool, other: bool) -> None:
    """Texts, refusals and transcripts are text; every part is another but texts, refusals and calls."""
    assert (has_text(kinds), has_other(kinds)) == (text, other)


@pytest.mark.parametrize("absent", [None, False])
def test_not_interim(absent: bool | None) -> None:
    """A message of any role may say that it is not interim; its frame then has nothing of it."""
    assert json.loads(appended(said(interim=absent)).frame_text) == {"role": "user", "parts": ["text"]}


def test_no_calls_beside_those_among_the_parts() -> None:
    """An empty `tool_calls` is no second place for calls, and null none."""
    nothings: list[Any] = [[], None]
    for nothing in nothings:
        event = appended({"type": "message", "role": "assistant", "content": AMONG, "tool_calls": nothing})
        assert json.loads(event.frame_text)["tool_calls"] == AMONG_CALLS


@pytest.mark.parametrize(("typed", "written", "frame"), FORMS)
def test_headers(typed: NewEvent, written: dict[str, Any], frame: dict[str, Any]) -> None:
    """An event's scope is `chat` if absent; what is about the whole conversation, or all scopes, has none."""
    of_all = written["type"] in ("describe", "redaction", "rewind")
    event = appended(written)
    assert event.scope == written.get("scope", None if of_all else "chat")
    assert (event.type, event.v, event.version) == (written["type"], 1, 3)


@pytest.mark.parametrize("type", ["message", "clear", "describe", "rewind", "x:mark", "x:a.b-c_d:9"])
def test_unknown_fields_are_kept(type: str) -> None:
    """Fields that no type knows survive, in order and byte for byte, as compact JSON in UTF-8."""
    needed: dict[str, dict[str, Any]] = {"message": {"role": "user", "content": ""}, "rewind": {"to": 0}}
    known = needed.get(type, {})
    odd: dict[str, Any] = {
        "z": 1,
        "a": [None, True, {"": {}, "é": []}],
        "text": '\u0000\u001f\u007f\u2028 é \U0001f600 "\\/',
        "numbers": [0, -1, 2**53 + 1, 2**200, -(2**200), 0.1, -0.0, 1.5, 1e22],
        "nested": {"type": "message", "version": 3, "digest": "d", "frame": {}},
    }
    event = appended({"type": type, **known, **odd})
    assert event.body == known | odd
    assert list(event.body) == [*known, *odd]
    assert event.body_text is not None
    for key in ("z", "a", "nested"):
        text = json.dumps({key: odd[key]}, ensure_ascii=False, separators=(",", ":"))[1:-1]
        assert text in event.body_text
    assert str(2**200) in event.body_text


def test_null_is_kept_as_null() -> None:
    """A field written as null is absent to every reader and stays null in the body."""
    event = appended({**said(), "name": None, "tool_calls": None, "scope": None, "id": None, "occurred_at": None})
    assert event.body == {"role": "user", "content": "x", "name": None, "tool_calls": None}
    assert (event.scope, event.id, event.occurred_at) == ("chat", None, None)
    assert json.loads(event.frame_text) == {"role": "user", "parts": ["text"]}


def test_the_flat_form_can_be_appended_again() -> None:
    """What `to_dict` gives, less what the store gave, is the event again."""
    given = ("conversation", "version", "recorded_at")
    for _, written, _ in FORMS:
        flat = appended(written).to_dict()
        again = appended({key: value for key, value in flat.items() if key not in given})
        assert again.to_dict() | {key: flat[key] for key in given} == flat


def test_handles_append_the_events_they_are_named_for() -> None:
    """Each method of a conversation's handle appends the one event that its name says."""
    with Store(":memory:") as store:
        call = store.conversation("call-42")
        call.assistant("greeter", system="You greet.", first_message="Hello!")
        call.user("I need help", id="u1")
        call.reply(tool_calls=CALLS)
        call.tool("t", "found", scope="chat")
        call.note("be brief")
        call.transfer("billing", mode="swap-system-message-in-history", message="One moment.")
        call.rewind(2, scope="chat")
        call.clear("agent")
        call.append(Summary(text="s", summary_of=1), expected=8)
        told = [event.to_dict() for event in store.events("call-42")]
    for event in told:
        for key in ("conversation", "version", "recorded_at", "v"):
            del event[key]
    chat = {"scope": "chat"}
    assert told == [
        {"type": "assistant", "assistant": "greeter", "system": "You greet.", "first_message": "Hello!"} | chat,
        {"type": "message", "role": "user", "content": "I need help", "id": "u1"} | chat,
        {"type": "message", "role": "assistant", "tool_calls": CALLS_JSON} | chat,
        {"type": "message", "role": "tool", "tool_call_id": "t", "content": "found"} | chat,
        {"type": "message", "role": "system", "content": "be brief"} | chat,
        {"type": "transfer", "to": "billing", "mode": "swap-system-message-in-history", "message": "One moment."}
        | chat,
        {"type": "rewind", "to": 2} | chat,
        {"type": "clear", "scope": "agent"},
        {"type": "summary", "text": "s", "summary_of": 1} | chat,
    ]
