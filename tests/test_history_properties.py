"""Random logs of every event type: what a view must equal, and what must hold of every view."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from logs import SCOPES, event_at, logs, what_ifs
from oracle import every_version
from views import (
    Key,
    Seen,
    assistant,
    foretold,
    foretold_forms,
    forms,
    keys_of,
    lifelines,
    redact,
    reply,
    result,
    seen,
    to,
    told,
    user,
)

from turnlog.projections import MODES, Timeline, VisibleMessage, diff, history, timeline
from turnlog.store import Store

Json = dict[str, Any]
CONTEXTS = ("all", "lastNMessages", "userAndAssistantMessages", "previousAssistantMessages", "none")
REQUEST: Json = {"type": "request", "at": 0}


@pytest.fixture(scope="module")
def store() -> Iterator[Store]:
    """One store for all the logs of this module, since making one takes longer than reading a log."""
    with Store(":memory:") as opened:
        yield opened


def written(store: Store, log: list[Json]) -> str:
    """A new conversation of this log; its name."""
    name = str(uuid4())
    store.append(name, log)
    return name


asking = given(log=logs(), scope=st.sampled_from(SCOPES), what_if=what_ifs)
some = settings(max_examples=25, deadline=None)


class Growing(RuleBasedStateMachine):
    """A timeline that is kept, one that is opened for each question, and the oracle agree while a log grows."""

    def __init__(self) -> None:
        super().__init__()
        self.store = Store(":memory:")
        self.log: list[Json] = []
        self.kept: list[tuple[str, Json, Timeline]] = []

    def teardown(self) -> None:
        self.store.close()

    @initialize(what_if=what_ifs)
    def begin(self, what_if: Json) -> None:
        self.add(REQUEST)
        asked = [(scope, query) for scope in SCOPES for query in ({}, what_if)]
        self.kept = [(scope, query, timeline(self.store, "c", scope, **query)) for scope, query in asked]

    def add(self, event: Json) -> None:
        self.log.append(event)
        self.store.append("c", [event])

    @rule(data=st.data())
    def append(self, data: st.DataObject) -> None:
        self.add(data.draw(event_at(len(self.log) + 1)))

    @rule(data=st.data(), scope=st.sampled_from(SCOPES), what_if=what_ifs, last=st.none() | st.integers(0, 5))
    def look_back(self, data: st.DataObject, scope: str, what_if: Json, last: int | None) -> None:
        query: Json = {"scope": scope, "at": data.draw(st.integers(0, len(self.log))), "last": last, **what_if}
        assert told(seen(self.store, "c", **query)) == foretold(self.log, **query)

    @invariant()
    def agree(self) -> None:
        for scope, query, line in self.kept:
            assert told(Seen(line, line.at())) == foretold(self.log, scope, **query)


TestGrowing = Growing.TestCase
TestGrowing.settings = settings(max_examples=12, stateful_step_count=20, deadline=None)


@some
@asking
def test_equals_the_oracle_at_every_version(store: Store, log: list[Json], scope: str, what_if: Json) -> None:
    """At every version, in every scope and under every what-if a view is the oracle's, and nothing is appended."""
    name = written(store, log)
    for at in range(len(log) + 1):
        assert told(seen(store, name, scope, at, **what_if)) == foretold(log, scope, at, **what_if)
    assert store.version(name) == len(log)


@some
@asking
def test_forms_equal_the_oracle_at_every_version(store: Store, log: list[Json], scope: str, what_if: Json) -> None:
    """The spans that cover a version are the oracle's view, each with its visible calls and whether only text is left.

    A message that has visible calls or other parts becomes text alone by `userAndAssistantMessages` (rule 4.3), a call
    is taken by that or by the removing mode (rule 4.4), and a rewind gives back the form that was (rule 1).
    """
    spans = lifelines(timeline(store, written(store, log), scope, **what_if))
    for at, expected in enumerate(every_version(log, scope, **what_if)):
        assert forms(spans, at) == foretold_forms(expected)


# Few ids, many handoffs: what a transfer takes away of calls whose results come before it, after it, or never.
CALLS = (
    *(reply(text, *calls) for text in ("", "x") for calls in (("t1",), ("t2", "t1"))),
    *(result("t1"), result("t1"), result("t2"), result("t1", scope="shared_memory")),
)
HANDOFFS = tuple(
    to("b", mode, tool_call_id="t1", context={"type": kind, "maxMessages": 2}) for mode in MODES for kind in CONTEXTS
)


@settings(max_examples=250, deadline=None)
@given(
    log=st.lists(st.sampled_from(CALLS) | st.sampled_from(CALLS) | st.sampled_from(HANDOFFS), min_size=5, max_size=12)
)
def test_calls_and_handoffs_equal_the_oracle(store: Store, log: list[Json]) -> None:
    """Calls and results around transfers of every mode and context are paired and hidden as the oracle says."""
    name = written(store, log)
    assert told(seen(store, name)) == foretold(log)


@some
@asking
def test_every_item_is_visible_or_hidden(store: Store, log: list[Json], scope: str, what_if: Json) -> None:
    """Visible and hidden are disjoint and together all that was ever placed in the scope and in shared memory."""
    own = [(version, event) for version, event in enumerate(log, 1) if event.get("scope") in (scope, "shared_memory")]
    said = {(version, event["type"]) for version, event in own if event["type"] in ("message", "summary")}
    said |= {(version, "destination_message") for version, event in own if "to" in event and event.get("message")}
    name = written(store, log)
    placed: set[Key] = set()
    for at in range(len(log) + 1):
        visible, hidden = keys_of(seen(store, name, scope, at, **what_if))
        everything = {*visible, *hidden}
        assert len(everything) == len(visible) + len(hidden)
        assert {version for version, _ in everything - placed} <= {at}
        assert placed <= everything
        placed = everything
    assert {key for key in placed if key[1] not in ("prompt", "first_message", "response")} == said
    answers = {version for version, event in own if event.get("status") == "completed"}
    assert {version for version, origin in placed if origin == "response"} <= answers
    declared = {version for version, event in own if event["type"] in ("assistant", "transfer")}
    assert {version for version, origin in placed if origin in ("prompt", "first_message")} <= declared


@some
@asking
def test_every_result_stands_after_its_call(store: Store, log: list[Json], scope: str, what_if: Json) -> None:
    """Each visible result belongs to a visible call before it, one each; open calls are visible ones."""
    name = written(store, log)
    view = told(seen(store, name, scope, **what_if))
    waiting: list[str] = []
    for message in view["messages"]:
        if message["role"] == "tool":
            assert message["tool_call_id"] in waiting
            waiting.remove(message["tool_call_id"])
        waiting += [call["id"] for call in message.get("tool_calls", ())]
    calls = Counter(call["id"] for message in view["messages"] for call in message.get("tool_calls", ()))
    assert Counter(found["call"] for found in view["problems"] if found["rule"] == "unanswered-call") <= calls


def kept(event: Json) -> Json:
    return {"type": "describe", "title": "t"} if event["type"] == "redaction" else event


@some
@given(log=logs().map(lambda log: [kept(event) for event in log]), scope=st.sampled_from(SCOPES), what_if=what_ifs)
def test_the_past_never_changes(store: Store, log: list[Json], scope: str, what_if: Json) -> None:
    """A view at a version is never changed by what is appended later, redactions aside."""
    then, name = [], str(uuid4())
    for event in log:
        store.append(name, [event])
        then.append(told(seen(store, name, scope, **what_if)))
    assert [told(seen(store, name, scope, at, **what_if)) for at in range(1, len(log) + 1)] == then


@some
@asking
def test_what_if_it_was_as_recorded(store: Store, log: list[Json], scope: str, what_if: Json) -> None:
    """Projecting every transfer as it was recorded, by `modes` or by `mode`, changes nothing."""
    recorded = {version: event.get("mode") for version, event in enumerate(log, 1) if event["type"] == "transfer"}
    modes = {version: mode or MODES[0] for version, mode in recorded.items()}
    name = written(store, log)
    plain = told(seen(store, name, scope))
    assert told(seen(store, name, scope, mode=what_if.get("mode"), modes=modes)) == plain
    for mode in MODES:
        other = [event | {"mode": mode} if event["type"] == "transfer" else event for event in log]
        assert told(seen(store, written(store, other), scope)) == told(seen(store, name, scope, mode=mode))


@some
@asking
def test_last_is_the_tail(store: Store, log: list[Json], scope: str, what_if: Json) -> None:
    """`last=n` gives the last n of the same messages, and tells the same of what is hidden and wrong."""
    name = written(store, log)
    whole = seen(store, name, scope, **what_if)
    for last in range(len(whole.messages) + 2):
        some_of_it = seen(store, name, scope, last=last, **what_if)
        assert some_of_it.messages == whole.messages[max(0, len(whole.messages) - last) :]
        assert (some_of_it.hidden, some_of_it.problems) == (whole.hidden, whole.problems)


@some
@asking
def test_a_fork_shares_the_past(store: Store, log: list[Json], scope: str, what_if: Json) -> None:
    """Up to where it forks a fork has its parent's views, later redactions of what both share included."""
    name, at = written(store, log), (len(log) + 1) // 2
    child = store.fork(name, at).conversation
    for version in range(at + 1):
        assert told(seen(store, child, scope, version, **what_if)) == told(seen(store, name, scope, version, **what_if))
    assert told(seen(store, child, scope, **what_if)) == told(seen(store, child, scope, at, **what_if))


def test_forks_have_versions_of_their_own(store: Store) -> None:
    """Events of a fork and of its parent with the same version are not the same message to a diff."""
    name = written(store, [user("shared")])
    child = store.fork(name).conversation
    store.append(name, [user("2"), user("parent's")])
    store.append(child, [user("child's")])
    changes = diff(history(store, name), history(store, child))
    assert [change.kind for change in changes] == ["same", "only-a", "only-a", "only-b"]


@settings(max_examples=100, deadline=None)
@given(wanted=st.lists(st.tuples(st.integers(1, 7), st.sampled_from((None, "", "x", "y"))), max_size=6))
def test_a_digest_stands_for_what_was_shown(wanted: list[tuple[int, str | None]]) -> None:
    """Views of one point with the same digest show the same: a redaction, of a replacement too, changes both."""
    shown: dict[str, list[VisibleMessage]] = {}
    # A store of its own, since a redaction writes the whole store anew.
    with Store(":memory:") as store:
        name = written(store, [user("1"), assistant("a", "SA", first_message="hi")])
        for version, (target, replacement) in enumerate(wanted, 3):
            store.append(name, [redact(min(target, version - 1), replacement)])
            view = history(store, name, at=2)
            assert shown.setdefault(view.digest, view.messages) == view.messages
