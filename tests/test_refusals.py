"""What an append refuses (DESIGN section 3): by type, field and value, before anything is written."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from test_append import recorded, said

from turnlog.store import InvalidArgument, InvalidEvent, Message, NotFound, Store, Transfer, Unchanged

GROUND = [said("one"), {"type": "request", "at": 1}, said("three")]
GOOD = [said("good", id="good"), {"type": "describe", "scopes": ["lab"]}]


def refused(batch: Any, kind: type[InvalidArgument] = InvalidEvent, **options: Any) -> Any:
    """The refusal of a batch by a log of three events, which stays as it is."""
    with Store(":memory:") as store:
        store.append("c", GROUND)
        before = recorded(store)
        with pytest.raises(kind) as error:
            store.append("c", batch, **options)
        assert type(error.value) is kind
        assert recorded(store) == before
        with pytest.raises(kind):
            store.append("new", [*GROUND, *batch], **options)
        assert recorded(store) == before
    return error.value


def told(error: InvalidArgument) -> tuple[str, str]:
    """Field and value; the value's repr, which tells True from 1 and knows that nan is nan."""
    return error.field, repr(error.value)


def transfer(**fields: Any) -> dict[str, Any]:
    return {"type": "transfer", "to": "b", **fields}


def summary(**fields: Any) -> dict[str, Any]:
    return {"type": "summary", "text": "s", "summary_of": 1, **fields}


def response(**fields: Any) -> dict[str, Any]:
    return {"type": "response", "request": 2, "status": "completed", **fields}


def calls(**fields: Any) -> dict[str, Any]:
    call = {"id": "t", "name": "f", "arguments": "{}"} | fields
    return {"type": "message", "role": "assistant", "tool_calls": [call]}


def usage(**fields: Any) -> dict[str, Any]:
    return response(usage={"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2} | fields)


UNKNOWN = [
    ({"type": "nonsense"}, "type", "nonsense"),
    ({"type": "Message", "role": "user", "content": "x"}, "type", "Message"),
    ({"type": "x:"}, "type", "x:"),
    ({"type": "y:mark"}, "type", "y:mark"),
    ({"type": "x:mark\n"}, "type", "x:mark\n"),
    ({"type": ""}, "type", ""),
    ({"type": None}, "type", None),
    ({"type": ["message"]}, "type", ["message"]),
    ({"role": "user", "content": "x"}, "type", None),
    ({"type": "fork", "parent": "00000000-0000-4000-8000-000000000000", "at": 1}, "type", "fork"),
    (said(v=2), "v", 2),
    (said(v=0), "v", 0),
    (said(v=True), "v", True),
    (said(v="1"), "v", "1"),
    (said(v=None), "v", None),
    (said(role="narrator"), "role", "narrator"),
    (said(role="developer"), "role", "developer"),
    (said(role=None), "role", None),
    (summary(role="tool"), "role", "tool"),
    (transfer(mode="swap"), "mode", "swap"),
    (transfer(mode=""), "mode", ""),
    (transfer(first_message_mode="assistant-sings"), "first_message_mode", "assistant-sings"),
    (transfer(context={"type": "some"}), "context.type", "some"),
    (transfer(context={}), "context.type", None),
    (response(status="done"), "status", "done"),
]
MISSING = [
    ({"type": "message", "content": "x"}, "role", None),
    ({"type": "assistant"}, "assistant", None),
    ({"type": "transfer"}, "to", None),
    ({"type": "summary", "text": "s"}, "summary_of", None),
    ({"type": "summary", "summary_of": 1}, "text", None),
    ({"type": "request"}, "at", None),
    ({"type": "response", "request": 2}, "status", None),
    ({"type": "response", "status": "completed"}, "request", None),
    ({"type": "rewind"}, "to", None),
    ({"type": "redaction", "target": 1}, "reason", None),
    ({"type": "redaction", "reason": "r"}, "target", None),
    ({"type": "message", "role": "tool", "content": "x"}, "tool_call_id", None),
    ({"type": "message", "role": "tool", "content": "x", "tool_call_id": None}, "tool_call_id", None),
    (
        {"type": "message", "role": "assistant", "tool_calls": [{"id": "t", "name": "f"}]},
        "tool_calls[0].arguments",
        None,
    ),
    (
        {"type": "message", "role": "assistant", "tool_calls": [{"name": "f", "arguments": ""}]},
        "tool_calls[0].id",
        None,
    ),
    (transfer(context={"type": "lastNMessages"}), "context.maxMessages", None),
    (transfer(context={"type": "lastNMessages", "maxMessages": -1}), "context.maxMessages", -1),
    (said([{"text": "no type"}]), "content[0].type", None),
    (said([{"type": "text", "text": "x"}, {"type": ""}]), "content[1].type", ""),
    (said([{"type": 5}]), "content[0].type", 5),
    (said([{"type": "text"}]), "content[0].text", None),
    (said([{"type": "text", "text": 5}]), "content[0].text", 5),
    (response(response=[{"type": "text", "text": "x"}, {"url": "u"}]), "response[1].type", None),
    (said(["text"]), "content[0]", "text"),
]
WRONG_KIND = [
    (said(5), "content", 5),
    (said(None), "content", None),
    (said({"type": "text", "text": "x"}), "content", {"type": "text", "text": "x"}),
    (said(tool_calls="none"), "tool_calls", "none"),
    (calls(arguments={"n": 1}), "tool_calls[0].arguments", {"n": 1}),
    (said(meta="m"), "meta", "m"),
    (said(extra=[1]), "extra", [1]),
    (said(id=5), "id", 5),
    (said(scope=5), "scope", 5),
    ({"type": "assistant", "assistant": "a", "tools": ["f"]}, "tools[0]", "f"),
    ({"type": "assistant", "assistant": "a", "system": ["s"]}, "system", ["s"]),
    ({"type": "describe", "title": 5}, "title", 5),
    ({"type": "describe", "metadata": []}, "metadata", []),
    ({"type": "describe", "scopes": "lab"}, "scopes", "lab"),
    (transfer(inferred="yes"), "inferred", "yes"),
    (transfer(context="all"), "context", "all"),
    ({"type": "redaction", "target": 1, "reason": None}, "reason", None),
    (summary(summary_of=True), "summary_of", True),
    (summary(summary_of=1.5), "summary_of", 1.5),
    (summary(summary_of="1"), "summary_of", "1"),
    (summary(summary_of=-1), "summary_of", -1),
    (summary(first=True, last=2), "first", True),
    (summary(first=1, last=True), "last", True),
    (summary(max_tokens=False), "max_tokens", False),
    ({"type": "rewind", "to": False}, "to", False),
    ({"type": "rewind", "to": 0.5}, "to", 0.5),
    ({"type": "redaction", "target": True, "reason": "r"}, "target", True),
    ({"type": "request", "at": True}, "at", True),
    ({"type": "request", "at": 1, "rules": True}, "rules", True),
    (response(request=True), "request", True),
    (usage(total_tokens=True), "usage.total_tokens", True),
    (usage(cached_tokens=-1), "usage.cached_tokens", -1),
    (transfer(context={"type": "lastNMessages", "maxMessages": True}), "context.maxMessages", True),
]
SCOPES = [
    ({"type": "assistant", "assistant": "a", "scope": "shared_memory"}, "scope", "shared_memory"),
    (transfer(scope="shared_memory"), "scope", "shared_memory"),
    (said(scope="attic"), "scope", "attic"),
    ({"type": "rewind", "to": 1, "scope": "attic"}, "scope", "attic"),
    ({"type": "clear", "scope": "chat2"}, "scope", "chat2"),
    (said(scope="Chat"), "scope", "Chat"),
    (said(scope=""), "scope", ""),
    (said(scope="1st"), "scope", "1st"),
    (said(scope="chat\n"), "scope", "chat\n"),
    (said(scope="s" * 65), "scope", "s" * 65),
    ({"type": "describe", "scopes": ["lab", "Lab"]}, "scopes[1]", "Lab"),
    ({"type": "describe", "scope": "chat"}, "scope", "chat"),
    ({"type": "redaction", "target": 1, "reason": "r", "scope": "chat"}, "scope", "chat"),
]
SURROGATES = [
    (said("\ud800"), "content", "\ud800"),
    (said("fine \udfff fine"), "content", "fine \udfff fine"),
    (said([{"type": "text", "text": "\ud800"}]), "content[0].text", "\ud800"),
    (said(meta={"a": [{"b": "\udc00"}]}), "meta.a[0].b", "\udc00"),
    (said(id="\ud800"), "id", "\ud800"),
    (transfer(to="\ud83d"), "to", "\ud83d"),
    ({"type": "x:\ud800"}, "type", "x:\ud800"),
    (said(**{"\ud800": 1}), r"\ud800", "\ud800"),
    (said(meta={"a": {"\udfff": 1}}), r"meta.a.\udfff", "\udfff"),
]
NUMBERS = [
    (said(meta={"n": math.nan}), "meta.n", math.nan),
    (said(meta={"n": [1, -math.inf]}), "meta.n[1]", -math.inf),
    ({"type": "x:mark", "n": math.inf}, "n", math.inf),
    (summary(summary_of=math.nan), "summary_of", math.nan),
]
NOT_JSON = [
    (said(meta={"k": b"x"}), "meta.k", "bytes"),
    (said(meta={"k": {1}}), "meta.k", "set"),
    (said(meta={"k": datetime(2026, 1, 1, tzinfo=UTC)}), "meta.k", "datetime"),
    (said(meta={1: 1}), "meta", 1),
    ({"type": "message", 5: 1}, "event", 5),
    ("message", "event", "message"),
    (None, "event", None),
    ([], "event", []),
]
TIMES = [
    (said(occurred_at="yesterday"), "occurred_at", "yesterday"),
    (said(occurred_at="2026-01-01"), "occurred_at", "2026-01-01"),
    (said(occurred_at="2026-01-01T00:00:00"), "occurred_at", "2026-01-01T00:00:00"),
    (said(occurred_at=datetime(2026, 1, 1)), "occurred_at", "2026-01-01T00:00:00"),
    (said(occurred_at=1_700_000_000), "occurred_at", 1_700_000_000),
    (said(occurred_at="0001-01-01T00:00:00+14:00"), "occurred_at", "0001-01-01T00:00:00+14:00"),
    (said(occurred_at="9999-12-31T23:59:59-14:00"), "occurred_at", "9999-12-31T23:59:59-14:00"),
]
GIVEN: list[tuple[dict[str, Any], str, object]] = [
    (said(**{field: value}), field, value)
    for field, value in (
        ("conversation", "c"),
        ("conversation_name", "c"),
        ("version", 4),
        ("position", 1),
        ("recorded_at", "2026-01-01T00:00:00Z"),
        ("frame", {}),
        ("salt", "00"),
        ("body_digest", "00"),
        ("digest", "00"),
    )
]
TYPED = [
    (Message(role="narrator", content="x"), "role", "narrator"),  # type: ignore[arg-type]
    (Message(role="tool", content="x"), "tool_call_id", None),
    (Message(role="user", content="\ud800"), "content", "\ud800"),
    (Message(role="user", meta={"n": math.nan}), "meta.n", math.nan),
    (Transfer(to=""), "to", ""),
]
BAD = [
    *(UNKNOWN + MISSING + WRONG_KIND + SCOPES + SURROGATES),
    *(NUMBERS + NOT_JSON + TIMES + GIVEN + TYPED),
]


@pytest.mark.parametrize(("event", "field", "value"), BAD, ids=ascii)
def test_a_bad_event(event: Any, field: str, value: object) -> None:
    """A bad event is an `InvalidEvent` that names its field and value, and nothing is written."""
    error = refused([event])
    assert told(error) == (field, repr(value))
    assert error.index is None


@pytest.mark.parametrize(("event", "field", "value"), BAD, ids=ascii)
def test_a_bad_event_at_the_end_of_a_batch(event: Any, field: str, value: object) -> None:
    """One bad event refuses the whole batch, and the error says which it is."""
    error = refused([*GOOD, event])
    assert told(error) == (field, repr(value))
    assert error.index == 2


PLACED: list[tuple[Callable[[int], dict[str, Any]], str, Callable[[int], object]]] = [
    (lambda own: {"type": "rewind", "to": own}, "to", lambda own: own),
    (lambda own: {"type": "rewind", "to": own + 1}, "to", lambda own: own + 1),
    (lambda own: {"type": "rewind", "to": own + 2**70, "scope": "coder"}, "to", lambda own: own + 2**70),
    (lambda own: {"type": "rewind", "to": -1}, "to", lambda own: -1),
    (lambda own: {"type": "redaction", "reason": "r", "target": own}, "target", lambda own: own),
    (lambda own: {"type": "redaction", "reason": "r", "target": own + 1}, "target", lambda own: own + 1),
    (lambda own: {"type": "redaction", "reason": "r", "target": 0}, "target", lambda own: 0),
    (lambda own: {"type": "redaction", "reason": "r", "target": -1}, "target", lambda own: -1),
    (lambda own: {"type": "request", "at": own}, "at", lambda own: own),
    (lambda own: {"type": "request", "at": own + 1}, "at", lambda own: own + 1),
    (lambda own: {"type": "request", "at": -1}, "at", lambda own: -1),
    (lambda own: response(request=own), "request", lambda own: own),
    (lambda own: response(request=own + 1), "request", lambda own: own + 1),
    (lambda own: response(request=0), "request", lambda own: 0),
    (lambda own: response(request=1), "request", lambda own: 1),
    (lambda own: response(request=own - 1), "request", lambda own: own - 1),
    (lambda own: summary(first=1, last=own), "last", lambda own: own),
    (lambda own: summary(first=own, last=own), "first", lambda own: own),
    (lambda own: summary(first=own + 1, last=own + 2), "first", lambda own: own + 1),
    (lambda own: summary(first=0, last=1), "first", lambda own: 0),
    (lambda own: summary(first=-1, last=1), "first", lambda own: -1),
    (lambda own: summary(first=2, last=1), "last", lambda own: 1),
    (lambda own: summary(first=1), "last", lambda own: None),
    (lambda own: summary(last=1), "first", lambda own: None),
    (lambda own: summary(first=None, last=1), "first", lambda own: None),
    (lambda own: summary(first=1, last=own - 1, keep=[own]), "keep[0]", lambda own: own),
]


@pytest.mark.parametrize("ahead", [[], GOOD], ids=["alone", "last-of-a-batch"])
@pytest.mark.parametrize(("make", "field", "value"), PLACED)
def test_pointing_at_itself_past_itself_or_at_nothing(
    make: Callable[[int], dict[str, Any]], field: str, value: Callable[[int], object], ahead: list[dict[str, Any]]
) -> None:
    """A rewind, redaction, request, response or range points at what stands before it, and a range has both ends."""
    own = len(GROUND) + len(ahead) + 1
    with Store(":memory:") as store:
        store.append("c", GROUND)
        before = recorded(store)
        with pytest.raises(InvalidEvent) as error:
            store.append("c", [*ahead, make(own)])
        assert told(error.value) == (field, repr(value(own)))
        assert recorded(store) == before


@pytest.mark.parametrize("batch", [[], ()], ids=["list", "tuple"])
def test_an_empty_batch(batch: Any) -> None:
    """A batch has at least one event."""
    with Store(":memory:") as store:
        with pytest.raises(InvalidArgument) as error:
            store.append("c", batch)
        assert told(error.value) == ("events", "[]")
        assert recorded(store) == []


def test_an_id_twice_in_a_batch() -> None:
    """An id is used once in a conversation, so once in a batch."""
    assert told(refused([said("a", id="i"), said("b"), said("a", id="i")])) == ("id", repr("i"))


@pytest.mark.parametrize("expected", [True, False, -1, 3.0, "3", None, "any version", (), Unchanged], ids=repr)
def test_a_wrong_expectation(expected: Any) -> None:
    """What is neither a version nor an expectation is refused as such, not taken for a conflict."""
    assert told(refused([said()], InvalidArgument, expected=expected)) == ("expected", repr(expected))


@pytest.mark.parametrize(
    "expected",
    [
        Unchanged(0, "message"),
        Unchanged("0", ("message",)),  # type: ignore[arg-type]
        Unchanged(True, ("message",)),
        Unchanged(0, (5,)),  # type: ignore[arg-type]
        Unchanged(0, ("message",), 5),  # type: ignore[arg-type]
        Unchanged(0, ("message",), None),  # type: ignore[arg-type]
    ],
    ids=repr,
)
def test_a_wrong_unchanged(expected: Unchanged) -> None:
    """An `Unchanged` of wrong kinds is refused, not held for want of a match: a text is not a list of letters."""
    assert told(refused([said()], InvalidArgument, expected=expected)) == ("expected", repr(expected))


def test_a_refusal_says_what_was_wrong() -> None:
    """The error's text is one line that names the event's place, the field, the value and the reason."""
    error = refused([said(), transfer(mode="swap\n")])
    assert str(error) == "event 2 of the batch: mode: 'swap\\n' is not a value that this build knows"
    assert "control" not in refused([{"type": "describe", "scopes": ["Lab"]}]).why


def test_a_described_scope_is_open_from_then_on() -> None:
    """A scope may be used after the event that lists it, in the same batch too, and in no other conversation."""
    with Store(":memory:") as store:
        with pytest.raises(InvalidEvent):
            store.append("c", [said(scope="lab"), {"type": "describe", "scopes": ["lab"]}])
        store.append("c", [{"type": "describe", "scopes": ["lab", "s" * 64]}, said(scope="lab")])
        store.append("c", [{"type": "describe", "scopes": ["more"]}, {"type": "redaction", "target": 1, "reason": "r"}])
        store.append("c", [{"type": "rewind", "to": 0}, said(scope="lab"), said(scope="s" * 64)])
        assert store.scopes("c") == ["chat", "agent", "coder", "shared_memory", "lab", "more", "s" * 64]
        with pytest.raises(InvalidEvent) as error:
            store.append("d", [said(scope="lab")])
        assert told(error.value) == ("scope", repr("lab"))


def test_asking_for_what_is_not_there() -> None:
    """A version that a conversation does not have is not found, however it is asked for."""
    with Store(":memory:") as store:
        store.append("c", GROUND)
        for version in (0, -1, 4, 2**62, 2**63, 2**70, -(2**70)):
            with pytest.raises(NotFound) as error:
                store.event("c", version)
            assert (error.value.kind, error.value.value) == ("version", version)
