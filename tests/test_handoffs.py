"""Handoffs: each transfer with what it hid, kept and added (DESIGN sections 4 and 7)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from logs import logs, what_ifs
from oracle import path
from views import seen

from turnlog.projections import Handoff, handoffs
from turnlog.store import InvalidArgument, NotFound, Store, Transfer
from turnlog.store.events import Mode

ROLLING: Mode = "rolling-history"
SWAP: Mode = "swap-system-message-in-history"
REMOVE: Mode = "swap-system-message-in-history-and-remove-transfer-tool-messages"
DELETE: Mode = "delete-history"

# What every test begins with: a prompt, a greeting, a question, two calls of which one transfers, two results.
BEGINNING: list[dict[str, Any]] = [
    {"type": "assistant", "assistant": "a", "system": "You are a.", "first_message": "Hello."},
    {"type": "message", "role": "user", "content": "Hi."},
    {
        "type": "message",
        "role": "assistant",
        "content": "Wait.",
        "tool_calls": [{"id": id, "name": "f", "arguments": "{}"} for id in ("t1", "t2")],
    },
    {"type": "message", "role": "tool", "tool_call_id": "t2", "content": "found"},
    {"type": "message", "role": "tool", "tool_call_id": "t1", "content": "ok"},
]
TO_B: dict[str, Any] = {
    "type": "transfer",
    "to": "b",
    "system": "You are b.",
    "message": "Bye.",
    "first_message": "Hello, b here.",
    "tool_call_id": "t1",
}


@pytest.fixture
def store() -> Iterator[Store]:
    with Store(":memory:") as store:
        store.append("c", BEGINNING)
        yield store


def only(store: Store, **what_if: Any) -> Handoff:
    (handoff,) = handoffs(store, "c", **what_if)
    return handoff


def hid(handoff: Handoff) -> list[tuple[int, str, str | None]]:
    """What a handoff hid: a message of a version, or the call of one that stays; what it is of that version."""
    return [(hidden.version, hidden.origin, hidden.call) for hidden in handoff.hid]


def added(handoff: Handoff) -> list[tuple[str, Any]]:
    return [(message.origin, message.content) for message in handoff.added]


PROMPT = (1, "prompt", None)
PROMPTED = ("prompt", "You are b.")
SPOKEN = ("destination_message", "Bye.")
GREETED = ("first_message", "Hello, b here.")
EVERYTHING = [(1, "first_message", None), PROMPT, *((version, "message", None) for version in (2, 3, 4, 5))]

MODES = {
    ROLLING: (6, 9, [], [SPOKEN, PROMPTED, GREETED]),
    SWAP: (5, 8, [PROMPT], [PROMPTED, SPOKEN, GREETED]),
    REMOVE: (4, 7, [PROMPT, (3, "message", "t1"), (5, "message", None)], [PROMPTED, SPOKEN, GREETED]),
    DELETE: (0, 2, EVERYTHING, [PROMPTED, GREETED]),
}


@pytest.mark.parametrize("what_if", [False, True], ids=["recorded", "what if"])
@pytest.mark.parametrize("mode", MODES)
def test_each_mode(store: Store, mode: Mode, what_if: bool) -> None:
    """A handoff tells what its mode, recorded or supposed, kept, hid and added, of six messages before it."""
    store.append("c", [TO_B if what_if else TO_B | {"mode": mode}])
    handoff = only(store, mode=mode) if what_if else only(store)
    kept, after, gone, new = MODES[mode]
    assert (handoff.from_, handoff.to, handoff.mode, handoff.context) == ("a", "b", mode, "all")
    assert (handoff.before, handoff.kept, handoff.after) == (6, kept, after)
    assert hid(handoff) == gone
    assert {hidden.rule for hidden in handoff.hid} <= {f"transfer:{mode}"}
    assert added(handoff) == new


def test_a_mode_for_one_transfer(store: Store) -> None:
    """`modes` supposes a mode for the transfer of a version, and goes before `mode`."""
    store.append("c", [TO_B, TO_B | {"to": "c"}, TO_B | {"to": "d"}])
    found = handoffs(store, "c", mode=SWAP, modes={7: DELETE})
    assert [handoff.mode for handoff in found] == [SWAP, DELETE, SWAP]
    assert [handoff.kept for handoff in found] == [5, 0, 1]


CONTEXTS: dict[str, tuple[dict[str, Any], int, list[tuple[int, str, str | None]], list[tuple[str, Any]]]] = {
    "all": ({"type": "all"}, 6, [], [SPOKEN, PROMPTED, GREETED]),
    "last two": (
        {"type": "lastNMessages", "maxMessages": 2},
        1,
        [each for each in EVERYTHING if each != PROMPT],  # The result of 5 stays without its call: an orphan.
        [SPOKEN, PROMPTED, GREETED],
    ),
    "last none": (
        {"type": "lastNMessages", "maxMessages": 0},
        1,
        [each for each in EVERYTHING if each != PROMPT],
        [PROMPTED, GREETED],
    ),
    "texts": (
        {"type": "userAndAssistantMessages"},
        4,
        [(3, "message", "t1"), (3, "message", "t2"), (4, "message", None), (5, "message", None)],
        [SPOKEN, PROMPTED, GREETED],
    ),
    "previous": (
        {"type": "previousAssistantMessages"},
        1,
        [each for each in EVERYTHING if each != PROMPT],
        [PROMPTED, GREETED],
    ),
    "none": ({"type": "none"}, 1, [each for each in EVERYTHING if each != PROMPT], [PROMPTED, GREETED]),
}


@pytest.mark.parametrize(("context", "kept", "gone", "new"), CONTEXTS.values(), ids=CONTEXTS)
def test_each_context(store: Store, context: dict[str, Any], kept: int, gone: Any, new: Any) -> None:
    """A handoff tells what its context kept of the scope's messages, the destination message included."""
    store.append("c", [TO_B | {"context": context}])
    handoff = only(store)
    assert (handoff.context, handoff.mode) == (context["type"], ROLLING)
    assert (handoff.before, handoff.kept, handoff.after) == (6, kept, kept + len(new))
    assert hid(handoff) == gone
    assert {hidden.rule for hidden in handoff.hid} <= {f"context:{context['type']}", "orphan-result"}
    assert added(handoff) == new


def test_deleting_needs_no_context(store: Store) -> None:
    """`delete-history` hides everything itself: its context filters nothing."""
    store.append("c", [TO_B | {"mode": DELETE, "context": {"type": "none"}}])
    handoff = only(store)
    assert (handoff.context, handoff.kept, handoff.after) == ("none", 0, 2)
    assert {hidden.rule for hidden in handoff.hid} == {f"transfer:{DELETE}"}


@pytest.mark.parametrize(
    ("speaks", "new"),
    [
        ("assistant-speaks-first", [PROMPTED, GREETED]),
        ("assistant-speaks-first-with-model-generated-message", [PROMPTED]),
        ("assistant-waits-for-user", [PROMPTED]),
    ],
)
def test_who_speaks_first(store: Store, speaks: str, new: Any) -> None:
    """The first message is added only where the assistant speaks first with a message of its own."""
    store.append("c", [TO_B | {"message": "", "first_message_mode": speaks}])
    assert added(only(store)) == new


def test_what_a_transfer_says_of_itself(store: Store) -> None:
    """A handoff carries the transfer's own words: its call, its reason, and whether it was inferred."""
    store.append("c", [Transfer(to="b", tool_call_id="t1", reason="asked for", inferred=True, from_="somebody")])
    handoff = only(store)
    assert (handoff.conversation, handoff.scope, handoff.version) == ("c", "chat", 6)
    assert (handoff.tool_call_id, handoff.reason, handoff.inferred) == ("t1", "asked for", True)
    assert handoff.from_ == "a"
    assert (handoff.abandoned, handoff.hid, handoff.added) == (False, [], [])


def test_nobody_hands_over(store: Store) -> None:
    """The first transfer of a scope in which no assistant was declared comes from nobody."""
    store.append("d", [Transfer(to="b")])
    (handoff,) = handoffs(store, "d")
    assert (handoff.from_, handoff.before, handoff.after) == (None, 0, 0)


def test_a_known_assistant_speaks_again(store: Store) -> None:
    """What is known of an assistant is added again when it takes over again, from the event that takes over."""
    store.append("c", [TO_B | {"mode": SWAP}, Transfer(to="a", mode=SWAP)])
    handoff = handoffs(store, "c")[1]
    assert (handoff.from_, handoff.to) == ("b", "a")
    assert [(message.version, message.content) for message in handoff.added] == [(7, "You are a."), (7, "Hello.")]


# Several scopes, and paths that were left.


def test_scopes_are_told_in_order(store: Store) -> None:
    """The handoffs of all scopes come by version; with a scope, only its own."""
    transfers = [Transfer(to="b"), Transfer(to="x", scope="agent"), Transfer(to="d"), Transfer(to="y", scope="agent")]
    store.append("c", transfers)
    everywhere = handoffs(store, "c")
    assert [(handoff.version, handoff.scope, handoff.from_) for handoff in everywhere] == [
        (6, "chat", "a"),
        (7, "agent", None),
        (8, "chat", "b"),
        (9, "agent", "x"),
    ]
    assert handoffs(store, "c", "agent") == [everywhere[1], everywhere[3]]
    assert handoffs(store, "c", "coder") == []
    assert handoffs(store, "c", "shared_memory") == []


def test_a_described_scope_counts(store: Store) -> None:
    """A scope that the conversation describes has its handoffs told like any other."""
    store.append("c", [{"type": "describe", "scopes": ["notes"]}, Transfer(to="b", scope="notes")])
    assert [handoff.scope for handoff in handoffs(store, "c")] == ["notes"]


def test_shared_memory_is_kept(store: Store) -> None:
    """A transfer of a scope touches nothing of shared memory, which is before and after it."""
    store.append("c", [{"type": "message", "role": "user", "content": "fact", "scope": "shared_memory"}])
    store.append("c", [Transfer(to="b", mode=DELETE)])
    handoff = only(store)
    assert (handoff.before, handoff.kept, handoff.after) == (7, 1, 1)


def test_an_abandoned_transfer_is_told_as_it_was(store: Store) -> None:
    """A transfer that a rewind left is still told, with what it did then, and marked."""
    store.append("c", [TO_B | {"mode": SWAP}])
    before = only(store)
    store.conversation("c").rewind(5, "chat")
    store.append("c", [TO_B | {"to": "d"}])
    abandoned, present = handoffs(store, "c")
    assert (abandoned.abandoned, present.abandoned) == (True, False)
    assert (abandoned.hid, abandoned.added, abandoned.kept) == (before.hid, before.added, before.kept)
    assert present.from_ == "a"


def test_a_path_taken_up_again(store: Store) -> None:
    """A rewind that takes an abandoned path up again takes its transfers up too."""
    store.append("c", [TO_B])
    store.conversation("c").rewind(2)
    assert only(store).abandoned
    store.conversation("c").rewind(6)
    assert not only(store).abandoned


def test_other_scopes_rewind_nothing_here(store: Store) -> None:
    """A rewind of another scope abandons no transfer of this one."""
    store.append("c", [TO_B])
    store.conversation("c").rewind(0, "agent")
    assert not only(store).abandoned


# What is asked wrongly.


def test_nothing_to_tell(store: Store) -> None:
    """A conversation without transfers has no handoffs."""
    assert handoffs(store, "c") == []


@pytest.mark.parametrize(
    ("conversation", "scope", "kind", "value"), [("d", None, "conversation", "d"), ("c", "kitchen", "scope", "kitchen")]
)
def test_what_does_not_exist(store: Store, conversation: str, scope: str | None, kind: str, value: str) -> None:
    """A conversation or a scope that does not exist is the caller's error and says so."""
    with pytest.raises(NotFound) as refused:
        handoffs(store, conversation, scope)
    assert (refused.value.kind, refused.value.value) == (kind, value)


@pytest.mark.parametrize(
    ("what_if", "field", "value"),
    [
        ({"mode": "swap"}, "mode", "swap"),
        ({"modes": {6: "swap"}}, "modes.6", "swap"),
        ({"modes": {"6": "delete-history"}}, "modes", "6"),
    ],
    ids=["mode", "modes", "version"],
)
def test_an_unknown_mode(store: Store, what_if: Any, field: str, value: str) -> None:
    """A mode that does not exist, or a version that is none, is refused by field and value."""
    with pytest.raises(InvalidArgument) as refused:
        handoffs(store, "c", **what_if)
    assert (refused.value.field, refused.value.value) == (field, value)


# Any log.


@settings(max_examples=80, deadline=None)
@given(events=logs(16), what_if=what_ifs)
def test_handoffs_are_the_difference_of_two_histories(events: list[dict[str, Any]], what_if: dict[str, Any]) -> None:
    """Of any transfer of any log: what `history` shows just before it and just after it is what its handoff tells."""
    log = list(enumerate(events, 1))
    with Store(":memory:") as store:
        store.append("c", events)
        found = handoffs(store, "c", **what_if)
        assert [handoff.version for handoff in found] == [
            version for version, each in log if each["type"] == "transfer"
        ]
        for handoff in found:
            before = seen(store, "c", handoff.scope, handoff.version - 1, **what_if)
            after = seen(store, "c", handoff.scope, handoff.version, **what_if)
            old = {(message.version, message.origin): message for message in before.messages}
            new = {(message.version, message.origin): message for message in after.messages}
            assert (handoff.before, handoff.after, handoff.kept) == (len(old), len(new), len(old.keys() & new.keys()))
            assert handoff.added == [message for key, message in new.items() if key not in old]
            gone = {(hidden.version, hidden.origin, hidden.call) for hidden in handoff.hid}
            calls = {(*key, call.id) for key in old.keys() & new.keys() for call in old[key].tool_calls}
            calls -= {(*key, call.id) for key in new for call in new[key].tool_calls}
            assert {each for each in gone if each[2] is None} == {(*key, None) for key in old.keys() - new.keys()}
            assert calls <= {each for each in gone if each[2] is not None}
            assert all(hidden in after.hidden for hidden in handoff.hid)
            assert handoff.from_ == before.assistant
            assert handoff.abandoned == (handoff.version not in path(events, handoff.scope))
