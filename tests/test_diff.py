"""Diff: two views of one log, message by message, by source (DESIGN section 7)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from logs import logs, what_ifs

from turnlog.projections import Change, History, VisibleMessage, diff, history
from turnlog.store import Redaction, Rewind, Store, Summary
from turnlog.store.events import Mode

SWAP: Mode = "swap-system-message-in-history"
REMOVE: Mode = "swap-system-message-in-history-and-remove-transfer-tool-messages"
Source = tuple[int, str]

EVENTS: list[dict[str, Any]] = [
    {"type": "assistant", "assistant": "a", "system": "You are a."},
    {"type": "message", "role": "user", "content": "Hi."},
    {
        "type": "message",
        "role": "assistant",
        "content": "Wait.",
        "tool_calls": [{"id": id, "name": "f", "arguments": "{}"} for id in ("t1", "t2")],
    },
    {"type": "message", "role": "tool", "tool_call_id": "t1", "content": "ok"},
    {"type": "message", "role": "tool", "tool_call_id": "t2", "content": "found"},
    {"type": "transfer", "to": "b", "system": "You are b.", "message": "Bye.", "tool_call_id": "t1"},
    {"type": "message", "role": "user", "content": "Hello?"},
]


@pytest.fixture
def store() -> Iterator[Store]:
    with Store(":memory:") as store:
        store.append("c", EVENTS)
        yield store


def source(message: VisibleMessage) -> Source:
    return message.version, message.origin


def told(changes: list[Change]) -> list[tuple[str, int, str]]:
    """Each change in short: its kind and the source of its message."""
    found: list[tuple[str, int, str]] = []
    for change in changes:
        message = change.a or change.b
        assert message is not None
        found.append((change.kind, *source(message)))
    return found


def test_a_view_and_itself(store: Store) -> None:
    """A view differs from itself in nothing, and every message of it is told, on both sides."""
    view = history(store, "c")
    changes = diff(view, history(store, "c"))
    assert {change.kind for change in changes} == {"same"}
    assert [change.a for change in changes] == [change.b for change in changes] == view.messages


def test_two_versions(store: Store) -> None:
    """Between two points of a log, what came since is only in the second."""
    changes = diff(history(store, "c", at=2), history(store, "c", at=4))
    assert told(changes) == [
        ("same", 1, "prompt"),
        ("same", 2, "message"),
        ("only-b", 3, "message"),
        ("only-b", 4, "message"),
    ]
    assert [change.a for change in changes[2:]] == [None, None]
    assert [change.b for change in changes] == history(store, "c", at=4).messages


def test_backwards(store: Store) -> None:
    """The other way round, it is only in the first."""
    changes = diff(history(store, "c", at=4), history(store, "c", at=2))
    assert told(changes)[2:] == [("only-a", 3, "message"), ("only-a", 4, "message")]
    assert [change.b for change in changes[2:]] == [None, None]


def test_the_beginning(store: Store) -> None:
    """Before the first event there is nothing: all is only in the other view, and nothing differs from nothing."""
    nothing, all_of_it = history(store, "c", at=0), history(store, "c")
    assert {change.kind for change in diff(nothing, all_of_it)} == {"only-b"}
    assert diff(nothing, nothing) == []


def test_two_modes(store: Store) -> None:
    """Between modes, a prompt at another place has moved, and is told once at each of its places."""
    changes = diff(history(store, "c"), history(store, "c", mode=SWAP))
    assert told(changes) == [
        ("only-a", 1, "prompt"),
        ("moved", 6, "prompt"),
        ("same", 2, "message"),
        ("same", 3, "message"),
        ("same", 4, "message"),
        ("same", 5, "message"),
        ("same", 6, "destination_message"),
        ("moved", 6, "prompt"),
        ("same", 7, "message"),
    ]
    for change in (changes[1], changes[7]):
        assert change.a is not None
        assert change.a == change.b


def test_a_call_removed(store: Store) -> None:
    """A message in both views, of which one shows another content or fewer calls, has changed."""
    changes = diff(history(store, "c"), history(store, "c", mode=REMOVE))
    (changed,) = [change for change in changes if change.kind == "changed"]
    assert changed.a is not None
    assert changed.b is not None
    assert source(changed.a) == source(changed.b) == (3, "message")
    assert [[call.id for call in side.tool_calls] for side in (changed.a, changed.b)] == [["t1", "t2"], ["t2"]]
    assert ("only-a", 4, "message") in told(changes)


def test_one_event_places_several_messages(store: Store) -> None:
    """Messages are told apart by what they are of their event: a prompt is no destination message."""
    store.append("c", [EVENTS[5] | {"to": "d", "first_message": "d here."}])
    changes = diff(history(store, "c", at=7), history(store, "c"))
    new = [("only-b", 8, origin) for origin in ("destination_message", "prompt", "first_message")]
    assert told(changes)[-3:] == new


def test_a_summary(store: Store) -> None:
    """A summary stands where what it covers is gone."""
    store.append("c", [Summary(text="They met.", summary_of=2, first=2, last=5)])
    changes = diff(history(store, "c", at=7), history(store, "c"))
    assert [change for change in told(changes) if change[0] != "same"] == [
        *(("only-a", version, "message") for version in (2, 3, 4, 5)),
        ("only-b", 8, "summary"),
    ]


def test_a_rewind(store: Store) -> None:
    """What a rewind abandoned is only in the view before it."""
    store.append("c", [Rewind(to=2)])
    changes = diff(history(store, "c", at=7), history(store, "c"))
    assert Counter(change.kind for change in changes) == {"same": 2, "only-a": 6}


def test_two_scopes(store: Store) -> None:
    """Views of two scopes have shared memory in common."""
    store.append("c", [{"type": "message", "role": "user", "content": "fact", "scope": "shared_memory"}])
    store.append("c", [{"type": "message", "role": "user", "content": "plan", "scope": "agent"}])
    changes = diff(history(store, "c"), history(store, "c", "agent"))
    assert [change for change in told(changes) if change[0] != "only-a"] == [
        ("same", 8, "message"),
        ("only-b", 9, "message"),
    ]


def test_a_redaction_is_the_same_at_every_point(store: Store) -> None:
    """A redaction shows at every point in time, so it makes no difference between two of them."""
    store.append("c", [Redaction(target=2, reason="asked for")])
    changes = diff(history(store, "c", at=2), history(store, "c"))
    assert told(changes)[1] == ("same", 2, "message")


def test_the_last_messages(store: Store) -> None:
    """Views of the last messages differ in what each of them has."""
    changes = diff(history(store, "c", last=3), history(store, "c", last=1))
    assert told(changes) == [
        ("only-a", 6, "destination_message"),
        ("only-a", 6, "prompt"),
        ("same", 7, "message"),
    ]


# Any two views.

MIRRORED = {"same": "same", "changed": "changed", "moved": "moved", "only-a": "only-b", "only-b": "only-a"}


def check(a: History, b: History, changes: list[Change]) -> None:
    """What must hold of the difference of any two views."""
    in_a = {source(message): message for message in a.messages}
    in_b = {source(message): message for message in b.messages}
    for change, (kind, version, origin) in zip(changes, told(changes), strict=True):
        assert change.a == in_a.get((version, origin))
        assert change.b == in_b.get((version, origin))
        assert (change.a is None) == (kind == "only-b")
        assert (change.b is None) == (kind == "only-a")
        assert kind != "same" or change.a == change.b
        assert kind != "changed" or change.a != change.b
    seen = Counter((version, origin) for _, version, origin in told(changes))
    moved = {(version, origin) for kind, version, origin in told(changes) if kind == "moved"}
    assert seen == {key: 2 if key in moved else 1 for key in in_a | in_b}
    stays = [(version, origin) for kind, version, origin in told(changes) if kind in ("same", "changed")]
    for messages, only in ((in_a, "only-a"), (in_b, "only-b")):
        assert stays == [key for key in messages if key in set(stays)]
        mine = [(version, origin) for kind, version, origin in told(changes) if kind == only]
        assert mine == [key for key in messages if key in set(mine)]


@settings(max_examples=100, deadline=None)
@given(events=logs(20), data=st.data(), one=what_ifs, other=what_ifs)
def test_any_two_views(events: list[dict[str, Any]], data: st.DataObject, one: Any, other: Any) -> None:
    """Every message of either view is told once, one that moved twice, in the order of the views, as it is there."""
    at = st.integers(0, len(events))
    with Store(":memory:") as store:
        store.append("c", events)
        a = history(store, "c", at=data.draw(at), **one)
        b = history(store, "c", at=data.draw(at), **other)
        check(a, b, diff(a, b))
        assert {change.kind for change in diff(a, a)} <= {"same"}
        mirrored = Counter((MIRRORED[kind], *rest) for kind, *rest in told(diff(b, a)) if kind.startswith("only"))
        assert mirrored == Counter(each for each in told(diff(a, b)) if each[0].startswith("only"))
