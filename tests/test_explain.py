"""Explain: from which version until which a message was visible, in which form, and what ended that."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from hypothesis import given, settings
from hypothesis import strategies as st
from logs import SCOPES, logs
from views import DELETE, REMOVE, SHARED, SWAP, Event, assistant, clear, note, reply, result, rewind, summary, to, user

from turnlog.cli import main
from turnlog.projections import MODES, Explained, Span, explain, timeline, trace
from turnlog.store import NotFound, Store

FILTER = {"type": "userAndAssistantMessages"}
TALK = [assistant("a", "A", first_message="Hello."), user("one"), reply("two", "t1"), result("t1"), note("n")]


def short(found: Explained) -> str:
    """Return what became of a message, and its lifeline, on one line."""
    fate = "visible" if found.visible else f"{found.rule} by {found.by}"
    calls = "".join(f", {each.call} {each.rule} by {each.by}" for each in found.calls)
    return f"{found.origin} of {found.scope}: {fate}{calls}; {' '.join(map(lifeline, found.spans))}"


def lifeline(span: Span) -> str:
    return f"{span.since}-{'' if span.until is None else span.until}{'>' if span.goes_on else ''}"


def explained(*events: Event, version: int, at: int | None = None) -> list[str]:
    with Store(":memory:") as store:
        store.append("c", events)
        return [short(found) for found in explain(store, "c", version, at)]


@pytest.mark.parametrize(
    ("version", "fates"),
    [
        (1, ["first_message of chat: visible; 1-", "prompt of chat: visible; 1-"]),
        (2, ["message of chat: visible; 2-"]),
        (4, ["message of chat: visible; 4-"]),
    ],
)
def test_visible(version: int, fates: list[str]) -> None:
    """What is visible has a span that has not ended."""
    assert explained(*TALK, version=version) == fates


@pytest.mark.parametrize(
    ("event", "version", "fate"),
    [
        (to("b", DELETE), 2, f"message of chat: transfer:{DELETE} by 6; 2-6"),
        (to("b", SWAP, "B"), 1, f"prompt of chat: transfer:{SWAP} by 6; 1-6"),
        (to("b", context={"type": "none"}), 2, "message of chat: context:none by 6; 2-6"),
        (summary("s", 2, 4), 3, "message of chat: summary by 6; 3-6"),
        (clear(), 5, "message of chat: clear by 6; 5-6"),
        (rewind(2), 3, "message of chat: rewind by 6; 3-6"),
        (summary("s", 5, 5), 6, "summary of chat: summary-covers-nothing-visible by 6; 6-6"),
    ],
)
def test_hidden(event: Event, version: int, fate: str) -> None:
    """What is hidden has the rule and the event that ended its last span; what was never visible an empty one."""
    assert fate in explained(*TALK, event, version=version)


@pytest.mark.parametrize(("call", "rule"), [("t9", "orphan-result"), ("t1", "duplicate-result")])
def test_hidden_by_itself(call: str, rule: str) -> None:
    """A result without a call was never visible, by its own event."""
    assert explained(*TALK, result(call), version=6) == [f"message of chat: {rule} by 6; 6-6"]


def test_a_change_of_form_goes_on() -> None:
    """A message that loses a call or all but its text has a span for each form, and the first one goes on."""
    removed = explained(*TALK, to("b", REMOVE, tool_call_id="t1"), version=3)
    assert removed == [f"message of chat: visible, t1 transfer:{REMOVE} by 6; 3-6> 6-"]
    filtered = explained(*TALK, to("b", context=FILTER), version=3)
    assert filtered == ["message of chat: visible, t1 context:userAndAssistantMessages by 6; 3-6> 6-"]


def test_a_rewind_begins_another_span() -> None:
    """A message that a rewind brings back is visible again from the rewind on, and was not in between."""
    assert explained(*TALK, clear(), rewind(5), version=2) == ["message of chat: visible; 2-6 7-"]


def test_a_transfer_s_own() -> None:
    """A transfer places a destination message, a prompt and a first message, each with a lifeline of its own."""
    handoff = to("b", SWAP, "B", message="bye", first_message="hi")
    assert explained(*TALK, handoff, clear(), version=6) == [
        "destination_message of chat: clear by 7; 6-7",
        "first_message of chat: clear by 7; 6-7",
        "prompt of chat: visible; 6-",
    ]


def test_what_places_nothing() -> None:
    """A clear adds no message, and neither does a blank response."""
    assert explained(*TALK, clear(), version=6) == []


def test_shared_memory_is_explained_for_each_scope() -> None:
    """A shared message has a lifeline in every scope."""
    found = explained(user("m", scope="shared_memory"), version=1)
    assert found == [f"message of {scope}: visible; 1-" for scope in ("chat", "agent", "coder", "shared_memory")]


def test_at_an_earlier_point() -> None:
    """At an earlier point a lifeline ends where it had come to, and what was not there yet is not explained."""
    assert explained(*TALK, clear(), version=2, at=5) == ["message of chat: visible; 2-"]
    assert explained(*TALK, clear(), version=2, at=1) == []


def test_what_only_a_later_rewind_shows() -> None:
    """What was not visible up to a point has one empty span there, also if it is visible later.

    A rewind of shared memory takes the result off the path that had answered the call, so that the other one does.
    """
    log = (reply("", "t"), user("x", **SHARED), result("t", **SHARED), result("t"), rewind(2, **SHARED))
    assert explained(*log, version=4, at=4) == ["message of chat: duplicate-result by 4; 4-4"]
    assert explained(*log, version=4) == ["message of chat: visible; 5-"]


@settings(max_examples=30, deadline=None)
@given(log=logs(), at=st.integers(1, 31))
def test_explained_at_a_point_is_explained_without_what_follows(log: list[Event], at: int) -> None:
    """What is explained at a point does not depend on what was appended later, redactions aside."""
    log = [event if event["type"] != "redaction" else clear() for event in log]
    at = min(at, len(log))
    with Store(":memory:") as store:
        store.append("long", log)
        store.append("short", log[:at])
        for version in range(1, at + 1):
            assert explain(store, "long", version, at) == explain(store, "short", version)


@settings(max_examples=30, deadline=None)
@given(log=logs(), scope=st.sampled_from(SCOPES))
def test_lifelines_are_the_views(log: list[Event], scope: str) -> None:
    """At every version exactly that is visible whose lifeline covers it."""
    with Store(":memory:") as store:
        store.append("c", log)
        line = timeline(store, "c", scope)
        spans = [span for version in range(1, len(log) + 1) for span in line.spans(version)]
        for at in range(len(log) + 1):
            covering = {(s.version, s.origin) for s in spans if s.since <= at and (s.until is None or s.until > at)}
            assert covering == {(message.version, message.origin) for message in line.at(at)}


@settings(max_examples=30, deadline=None)
@given(log=logs(), scope=st.sampled_from(SCOPES))
def test_changes_make_the_next_view(log: list[Event], scope: str) -> None:
    """What an event showed and hid is the difference between the views before and after it; steps count the same."""
    with Store(":memory:") as store:
        store.append("c", log)
        line = timeline(store, "c", scope)
        before: set[tuple[int, Any]] = set()
        counts = {step.version: step.visible for step in line.steps()}
        for at in range(1, len(log) + 1):
            changes = line.changes(at)
            shown, hid = ({(s.version, s.origin) for s in each} for each in (changes.shown, changes.hid))
            after = {(message.version, message.origin) for message in line.at(at)}
            assert (shown, hid) == (after - before, before - after)
            assert counts.get(at, len(before)) == len(after)
            before = after


class TestCommand:
    @pytest.fixture
    def path(self, tmp_path: Path) -> Path:
        with Store(tmp_path / "s.db") as store:
            store.append("c", [*TALK, to("b", SWAP, "B", tool_call_id="t1"), clear()])
        return tmp_path / "s.db"

    @staticmethod
    def run(path: Path, *arguments: str) -> Result:
        return CliRunner().invoke(main, [f"--db={path}", *arguments], catch_exceptions=False)

    def test_for_people(self, path: Path) -> None:
        """`explain` prints each message with its lifeline."""
        printed = self.run(path, "explain", "c", "2").stdout.splitlines()
        assert [line.strip() for line in printed] == [
            "chat message: hidden by clear, version 7",
            "visible from 2 until 7, ended by clear, version 7",
        ]
        assert self.run(path, "explain", "c", "7").stdout == "version 7 adds no message\n"
        assert self.run(path, "explain", "c", "7", "--at=3").stdout == "version 7 comes after version 3\n"

    def test_for_programs(self, path: Path) -> None:
        """`explain --json` gives a list of objects."""
        (found,) = json.loads(self.run(path, "explain", "c", "2", "--json").stdout)
        assert (found["origin"], found["visible"], found["rule"], found["by"]) == ("message", False, "clear", 7)
        assert [(span["since"], span["until"]) for span in found["spans"]] == [(2, 7)]

    def test_trace(self, path: Path) -> None:
        """`trace` prints when messages with the words were visible, and which modes would have kept them."""
        assert "visible from 2 until 7, ended by clear, version 7" in self.run(path, "trace", "c", "one").stdout
        prompt = self.run(path, "trace", "c", "A", "--json").stdout
        (found,) = [each for each in json.loads(prompt) if each["origin"] == "prompt" and each["version"] == 1]
        assert (found["ended_by"], found["kept_by"]) == (6, ["rolling-history"])
        assert self.run(path, "trace", "c", "nowhere").stdout == "nothing found\n"

    def test_trace_of_one_field(self, tmp_path: Path) -> None:
        """Of the texts of an event, `trace` shows the one that has the whole word, and no other."""
        with Store(tmp_path / "one.db") as store:
            store.append("c", [to("b", system="You handle invoices.", first_message="Which invoice is it?")])
            (found,) = trace(store, "c", "Invoice")
        assert (found.origin, found.excerpt) == ("first_message", "Which «invoice» is it?")

    @pytest.mark.parametrize("arguments", [["c", "9"], ["d", "1"], ["c", "1", "--at=99"]], ids=str)
    def test_refusals(self, path: Path, arguments: list[str]) -> None:
        """What does not exist is refused in one line."""
        done = self.run(path, "explain", *arguments)
        assert (done.exit_code, done.stdout, len(done.stderr.splitlines())) == (1, "", 1)


def test_spans_of_what_does_not_exist() -> None:
    """A version that is not there is refused by name."""
    with Store(":memory:") as store:
        store.append("c", [user("x")])
        line = timeline(store, "c")
        with pytest.raises(NotFound, match="version 2"):
            line.spans(2)


def test_handoffs_end_with_totals(tmp_path: Path) -> None:
    """`handoffs --compare` ends with a table of what each mode would have kept and lost over all handoffs."""
    with Store(tmp_path / "s.db") as store:
        store.append("c", [*TALK, to("b", SWAP, "B"), user("x"), to("a", SWAP)])
    run = CliRunner().invoke(main, [f"--db={tmp_path / 's.db'}", "handoffs", "c", "--compare"], catch_exceptions=False)
    heading, *rows = run.stdout.splitlines()[-5:]
    assert heading.split() == ["mode", "openai", "kept", "openai", "lost", "anthropic", "kept", "anthropic", "lost"]
    assert [row.split()[0] for row in rows] == list(MODES)
