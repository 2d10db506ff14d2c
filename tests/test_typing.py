"""The public interface as its users' type checkers see it: checked by mypy --strict, and run."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, assert_type

import pytest

from turnlog.projections import (
    Change,
    Changes,
    Description,
    Handoff,
    Hidden,
    History,
    Problem,
    Span,
    Step,
    Timeline,
    VisibleCall,
    VisibleMessage,
    describe,
    diff,
    handoffs,
    history,
    problems,
    timeline,
)
from turnlog.store import (
    MUST_EXIST,
    Assistant,
    Conversation,
    Event,
    InvalidArgument,
    InvalidEvent,
    Message,
    NewEvent,
    NotFound,
    Receipt,
    Store,
    Summary,
    ToolCall,
    Transfer,
    TransferContext,
    Unchanged,
    VersionConflict,
)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store(tmp_path / "calls.db", durability="normal") as opened:
        yield opened


def test_program(store: Store) -> None:
    """The program of DESIGN section 9 is typed from the store to the text of a message."""
    call = store.conversation("call-42")
    assert_type(call, Conversation)
    assert_type(call.assistant("greeter", system="You greet.", first_message="Hello!"), Receipt)
    call.user("I need help with my account")
    receipt = call.transfer("billing", mode="swap-system-message-in-history", system="You bill.", message="One moment.")
    assert_type(receipt.last, int)
    for m in history(store, "call-42").messages:
        assert_type(m, VisibleMessage)
        assert_type(m.content, str | list[dict[str, Any]])
        assert_type(m.version, int)
    assert [(m.role, m.content, m.version, m.origin) for m in history(store, "call-42")] == [
        ("system", "You bill.", 3, "prompt"),
        ("assistant", "Hello!", 1, "first_message"),
        ("user", "I need help with my account", 2, "message"),
        ("assistant", "One moment.", 3, "destination_message"),
    ]


def test_typed_events(store: Store) -> None:
    """A batch of typed events and plain mappings is appended, and read back as events."""
    events: list[NewEvent | dict[str, Any]] = [
        Assistant(assistant="greeter", tools=[{"name": "transferCall"}]),
        Message(role="user", content=[{"type": "text", "text": "Hi"}], occurred_at=datetime(2026, 1, 1, tzinfo=UTC)),
        Message(role="assistant", tool_calls=[ToolCall(id="t1", name="transferCall", arguments="{}")]),
        Transfer(
            to="billing",
            from_="greeter",
            tool_call_id="t1",
            first_message_mode="assistant-waits-for-user",
            context=TransferContext(type="lastNMessages", max_messages=1),
        ),
        {"type": "describe", "title": "A call"},
    ]
    assert_type(store.append("call-42", events, expected=0), Receipt)
    store.append("call-42", [Summary(text="Hi, twice.", summary_of=2, first=3, last=3)], expected=MUST_EXIST)
    read = store.events("call-42", types=["transfer", "describe"], backwards=True)
    assert_type(read, Iterator[Event])
    assert [event.type for event in read] == ["describe", "transfer"]
    event = store.event("call-42", 2)
    assert_type(event.recorded_at, datetime)
    assert_type(event.occurred_at, datetime | None)
    assert event.body["role"] == "user"
    about = describe(store, "call-42")
    assert_type(about, Description)
    assert_type(about.title, str | None)
    assert about.title == "A call"


def test_views(store: Store) -> None:
    """A history tells what is visible, what is hidden and what is wrong in structs of their own."""
    call = store.conversation("call-42")
    call.reply("", [ToolCall(id="c1", name="f", arguments="{}")], scope="coder")
    call.tool("c2", "nobody asked", scope="coder")
    line = timeline(store, "call-42", scope="coder", modes={1: "delete-history"})
    assert_type(line, Timeline)
    view = line.at(datetime.now(UTC), last=5)
    assert_type(view, History)
    assert_type(view.assistant, str | None)
    assert_type(view.tools, list[dict[str, Any]])
    assert_type(line.hidden(), list[Hidden])
    assert_type(problems(line), list[Problem])
    assert_type(line.spans(1), list[Span])
    assert_type(line.changes(1), Changes)
    assert_type(line.steps(), list[Step])
    assert_type(view.messages[0].tool_calls, tuple[VisibleCall, ...])
    assert_type(view.messages[0].tool_call_id, str | None)
    assert_type(line.hidden()[0].call, str | None)
    assert_type(len(view), int)
    assert [(problem.rule, problem.call) for problem in problems(line)] == [
        ("unanswered-call", "c1"),
        ("orphan-result", None),
    ]


def test_handoffs_and_diff(store: Store) -> None:
    """Handoffs and differences are typed: what a transfer hid, and the message on either side of a change."""
    call = store.conversation("call-42")
    call.assistant("greeter", system="You greet.")
    call.transfer("billing", mode="delete-history", system="You bill.")
    [handoff] = handoffs(store, "call-42", mode="rolling-history")
    assert_type(handoff, Handoff)
    assert_type(handoff.from_, str | None)
    assert_type(handoff.hid, list[Hidden])
    assert_type(handoff.added, list[VisibleMessage])
    assert (handoff.from_, handoff.to, handoff.mode, handoff.hid) == ("greeter", "billing", "rolling-history", [])
    changes = diff(history(store, "call-42", at=1), history(store, "call-42"))
    assert_type(changes, list[Change])
    assert_type(changes[0].kind, Literal["same", "changed", "moved", "only-a", "only-b"])
    assert_type(changes[0].a, VisibleMessage | None)
    assert [change.kind for change in changes] == ["only-a", "only-b"]


def test_errors(store: Store) -> None:
    """Errors are caught by their types, and their fields are typed."""
    store.conversation("call-42").user("Hi")
    with pytest.raises(VersionConflict) as conflict:
        store.conversation("call-42").append(
            Message(role="assistant", content="Hello"), expected=Unchanged(since=0, types=["message"])
        )
    assert_type(conflict.value.conversation, str)
    assert_type(conflict.value.found, int)
    assert (conflict.value.conversation, conflict.value.found) == ("call-42", 1)
    with pytest.raises(NotFound) as missing:
        history(store, "call-42", at=2)
    assert_type(missing.value.kind, str)
    assert (missing.value.kind, missing.value.value) == ("version", 2)


def test_what_a_type_checker_refuses(store: Store) -> None:
    """A mode, a role and an expectation that do not exist are errors of types before they are refusals."""
    call = store.conversation("call-42")
    call.user("Hi")
    with pytest.raises(InvalidArgument) as mode:
        history(store, "call-42", mode="swap")  # type: ignore[arg-type]
    with pytest.raises(InvalidEvent) as role:
        call.append(Message(role="developer", content="Hi"))  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument) as expected:
        call.append(Message(role="user", content="Hi"), expected="any")  # type: ignore[arg-type]
    refused: tuple[InvalidArgument, ...] = (mode.value, role.value, expected.value)
    assert [(error.field, error.value) for error in refused] == [
        ("mode", "swap"),
        ("role", "developer"),
        ("expected", "any"),
    ]
    assert store.version("call-42") == 1
