"""Explain: at which place a message is visible, or what hid it, and what it passed (DESIGN section 7)."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from hypothesis import given, settings
from hypothesis import strategies as st
from logs import SCOPES, logs
from test_append import said
from views import (
    DELETE,
    REMOVE,
    ROLLING,
    SWAP,
    Event,
    assistant,
    clear,
    event,
    note,
    redact,
    reply,
    result,
    rewind,
    summary,
    to,
)

from turnlog.cli import main
from turnlog.projections import Explained, explain, history
from turnlog.store import InvalidEvent, NotFound, Store

FILTER = {"type": "userAndAssistantMessages"}


def explained(*events: Event, version: int, at: int | None = None) -> list[str]:
    """What became of an event's things: its origin and scope, its place or what hid it, and what it passed."""
    with Store(":memory:") as store:
        store.append("c", events)
        return [short(found) for found in explain(store, "c", version, at)]


def short(found: Explained) -> str:
    fate = f"at {found.place}" if found.place is not None else f"{found.rule} by {found.by}"
    calls = "".join(f", {call} {rule} by {by}" for call, rule, by in found.calls)
    passed = "".join(f", past {each.what} of {each.version}" for each in found.passed)
    return f"{found.origin} of {found.scope}: {fate}{calls}{passed}"


TALK = [assistant("a", "A", first_message="Hello."), said("one"), reply("two", "t1"), result("t1"), note("n")]


class TestFates:
    @pytest.mark.parametrize(
        ("version", "fates"),
        [
            (1, ["prompt of chat: at 0", "first_message of chat: at 1"]),
            (2, ["message of chat: at 2"]),
            (3, ["message of chat: at 3"]),
            (4, ["message of chat: at 4"]),
            (5, ["message of chat: at 5"]),
        ],
    )
    def test_visible(self, version: int, fates: list[str]) -> None:
        """What is visible is told by its place among the messages, each thing of an event by itself."""
        assert sorted(explained(*TALK, version=version)) == sorted(fates)

    @pytest.mark.parametrize(
        ("later", "version", "fate"),
        [
            ([to("b", DELETE)], 2, f"message of chat: transfer:{DELETE} by 6"),
            ([to("b", SWAP, "B")], 1, f"prompt of chat: transfer:{SWAP} by 6"),
            ([to("b", context={"type": "none"})], 2, "message of chat: context:none by 6"),
            ([to("b", context=FILTER)], 5, f"message of chat: context:{FILTER['type']} by 6"),
            ([to("b", context=FILTER)], 4, f"message of chat: context:{FILTER['type']} by 6"),
            ([summary("s", 2, 4)], 3, "message of chat: summary by 6"),
            ([clear()], 5, "message of chat: clear by 6"),
            ([rewind(2)], 3, "message of chat: rewind by 6"),
            ([assistant("a", "new")], 1, "prompt of chat: assistant by 6"),
            ([summary("s", 5, 5)], 6, "summary of chat: summary-covers-nothing-visible by 6"),
        ],
        ids=str,
    )
    def test_hidden(self, later: list[Event], version: int, fate: str) -> None:
        """What is hidden is told by the rule and the event that hid it first."""
        assert fate in explained(*TALK, *later, clear(), version=version)

    @pytest.mark.parametrize(("call", "rule"), [("t9", "orphan-result"), ("t1", "duplicate-result")])
    def test_hidden_by_itself(self, call: str, rule: str) -> None:
        """A result that answers no call of the view is told to hide itself."""
        assert explained(*TALK, result(call), version=6) == [f"message of chat: {rule} by 6"]

    def test_a_transfer_s_own(self) -> None:
        """A transfer's destination message, prompt and first message are each told."""
        transfer = to("b", SWAP, "B", message="over", first_message="Hi.")
        assert sorted(explained(*TALK, transfer, clear(), version=6)) == [
            "destination_message of chat: clear by 7",
            "first_message of chat: clear by 7",
            "prompt of chat: at 0",
        ]

    def test_a_prompt_that_was_known_before(self) -> None:
        """An assistant that was only declared has nothing to be seen; the transfer to it placed what it said."""
        known = assistant("b", "B", first_message="Hi.")
        assert explained(*TALK, known, to("b", SWAP), version=6) == []
        assert sorted(explained(*TALK, known, to("b", SWAP), version=7)) == [
            "first_message of chat: at 6",
            "prompt of chat: at 0",
        ]

    def test_calls_that_were_removed(self) -> None:
        """A message that stays tells which of its calls were removed, each with the rule and the event."""
        events = [reply("hm", "t1", "t2"), result("t1"), result("t2"), to("b", REMOVE, tool_call_id="t2"), to("c")]
        gone = f"t2 transfer:{REMOVE} by 4"
        passed = f"past {REMOVE} of 4, past {ROLLING} of 5"
        assert explained(*events, version=1) == [f"message of chat: at 0, {gone}, {passed}"]
        assert explained(*events, version=3) == [f"message of chat: transfer:{REMOVE} by 4"]

    def test_a_redacted_one(self) -> None:
        """A redaction hides nothing: what it erased is told as before."""
        assert explained(*TALK, redact(2), version=2) == ["message of chat: at 2"]

    @pytest.mark.parametrize(
        "nothing",
        [clear(), rewind(1), event("describe", title="t"), event("request", at=1), redact(1), event("x:mark")],
    )
    def test_what_places_nothing(self, nothing: Event) -> None:
        """An event that places nothing to be seen has nothing to be told of."""
        assert explained(*TALK, nothing, version=6) == []


class TestPassed:
    def test_transfers_and_summaries(self) -> None:
        """What is visible tells every transfer, by its mode, and every summary that it outlived, in order."""
        later = [to("b"), said("x"), summary("s", 7, 7), to("c", SWAP), to("d")]
        passed = f"past {ROLLING} of 6, past summary of 8, past {SWAP} of 9, past {ROLLING} of 10"
        assert explained(*TALK, *later, version=2) == [f"message of chat: at 1, {passed}"]
        assert explained(*TALK, *later, version=8) == [f"summary of chat: at 5, past {SWAP} of 9, past {ROLLING} of 10"]

    def test_up_to_what_hid_it(self) -> None:
        """What is hidden tells what it outlived before that, not what hid it and not what came later."""
        later = [to("b"), clear(), to("c"), summary("s", 1, 2)]
        assert explained(*TALK, *later, version=2) == [f"message of chat: clear by 7, past {ROLLING} of 6"]
        assert (
            explained(*TALK, *later, version=1)[0]
            == f"prompt of chat: at 0, past {ROLLING} of 6, past {ROLLING} of 8, past summary of 9"
        )

    def test_only_its_own_path(self) -> None:
        """Transfers and summaries of other scopes, and those that a rewind abandoned, are not passed."""
        later = [to("z", scope="coder"), summary("s", 1, 1, scope="agent"), to("b"), rewind(5), to("c")]
        assert explained(*TALK, *later, version=2) == [f"message of chat: at 2, past {ROLLING} of 10"]


class TestScopesAndPoints:
    def test_shared_memory_is_told_for_each_scope(self) -> None:
        """What is in shared memory is told for every scope that shows it, described ones too, by its place there."""
        events = [event("describe", scopes=["lab"]), said("one"), said("s", scope="shared_memory"), to("b", DELETE)]
        assert explained(*events, version=3) == [
            "message of chat: at 0",
            "message of agent: at 0",
            "message of coder: at 0",
            "message of shared_memory: at 0",
            "message of lab: at 0",
        ]
        assert explained(*events, version=3, at=3)[0] == "message of chat: at 1"

    def test_at_an_earlier_point(self) -> None:
        """At a version or a time it is told what was so then."""
        later = [summary("s", 2, 3), clear()]
        fates = [explained(*TALK, *later, version=2, at=at) for at in (2, 5, 6, 7)]
        assert fates == [["message of chat: at 2"]] * 2 + [["message of chat: summary by 6"]] * 2

    def test_at_a_time(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A time means the last version recorded by then."""
        with Store(":memory:") as store:
            for year, events in ((2090, TALK), (2095, [clear()])):
                now = int(datetime(year, 1, 1, tzinfo=UTC).timestamp()) * 10**9
                monkeypatch.setattr("time.time_ns", lambda now=now: now)
                store.append("c", events)
            before, after = (datetime(year, 6, 1, tzinfo=UTC) for year in (2090, 2095))
            assert [short(found) for found in explain(store, "c", 2, before)] == ["message of chat: at 2"]
            assert [short(found) for found in explain(store, "c", 2, after)] == ["message of chat: clear by 6"]

    def test_in_a_fork(self) -> None:
        """What a fork shares is told as the fork shows it."""
        with Store(":memory:") as store:
            store.append("c", TALK)
            store.fork("c", 4, "f")
            store.append("f", [to("b", DELETE)])
            assert [short(found) for found in explain(store, "f", 2)] == [f"message of chat: transfer:{DELETE} by 6"]
            assert [short(found) for found in explain(store, "c", 2)] == ["message of chat: at 2"]

    @pytest.mark.parametrize(
        ("conversation", "version", "at", "kind", "value"),
        [
            ("d", 1, None, "conversation", "d"),
            ("c", 6, None, "version", 6),
            ("c", 0, None, "version", 0),
            ("c", 1, 6, "version", 6),
            ("c", 1, -1, "version", -1),
        ],
    )
    def test_what_does_not_exist(
        self, conversation: str, version: int, at: int | None, kind: str, value: object
    ) -> None:
        """A conversation, version or point that does not exist is the caller's error and says so."""
        with Store(":memory:") as store:
            store.append("c", TALK)
            with pytest.raises(NotFound) as missing:
                explain(store, conversation, version, at)
            assert (missing.value.kind, missing.value.value) == (kind, value)

    def test_a_time_without_a_zone(self) -> None:
        """A time that says no zone is refused."""
        with Store(":memory:") as store:
            store.append("c", TALK)
            with pytest.raises(InvalidEvent) as refused:
                explain(store, "c", 1, datetime(2090, 1, 1))
            assert refused.value.field == "at"


@settings(max_examples=60, deadline=None)
@given(log=logs(max_size=14), at=st.integers(0, 15), scope=st.sampled_from(SCOPES))
def test_it_says_what_the_history_says(log: list[dict[str, Any]], at: int, scope: str) -> None:
    """Of any log, what is explained visible stands at that place in the history, and what hidden is hidden so there."""
    with Store(":memory:") as store:
        store.append("c", log)
        point = min(at, len(log))
        view = history(store, "c", scope, point)
        everything = [
            (version, found) for version in range(1, len(log) + 1) for found in explain(store, "c", version, point)
        ]
        here = [(version, found) for version, found in everything if found.scope == scope]
        placed = {found.place: (version, found.origin) for version, found in here if found.place is not None}
        assert [placed[place] for place in range(len(placed))] == [
            (message.version, message.origin) for message in view
        ]
        gone: list[Any] = [(version, found.origin, found.rule, found.by, None) for version, found in here if found.rule]
        gone += [(version, found.origin, rule, by, call) for version, found in here for call, rule, by in found.calls]
        hidden = [(each.version, each.origin, each.rule, each.by, each.call) for each in view.hidden]
        assert sorted(gone, key=str) == sorted(hidden, key=str)


class TestCommand:
    @pytest.fixture
    def path(self, tmp_path: Path) -> Path:
        with Store(tmp_path / "s.db") as store:
            store.append("c", [*TALK, to("b", SWAP, "B", tool_call_id="t1"), clear()])
        return tmp_path / "s.db"

    @staticmethod
    def run(path: Path, *arguments: str) -> Result:
        return CliRunner().invoke(main, [f"--db={path}", "explain", *arguments], catch_exceptions=False)

    def test_for_people(self, path: Path) -> None:
        """`explain` tells each thing's fate on a line, its places counted from 1, and what it outlived."""
        told = self.run(path, "c", "2", "--at=6").stdout.splitlines()
        assert [line.strip() for line in told] == ["chat message: visible, message 3", f"outlived 6 {SWAP}"]
        assert self.run(path, "c", "2").stdout.startswith("chat message: hidden by clear, version 7\n")
        assert self.run(path, "c", "7").stdout == "version 7 places nothing to be seen\n"

    def test_for_programs(self, path: Path) -> None:
        """`explain --json` gives a list of objects."""
        passed = [{"version": 6, "what": SWAP}]
        (told,) = json.loads(self.run(path, "c", "2", "--at=6", "--json").stdout)
        assert told == {"scope": "chat", "origin": "message", "passed": passed, "place": 2}
        (told,) = json.loads(self.run(path, "c", "2", "--json").stdout)
        assert told == {"scope": "chat", "origin": "message", "passed": passed, "rule": "clear", "by": 7}

    @pytest.mark.parametrize("arguments", [["c", "9"], ["d", "1"], ["c", "1", "--at=99"]], ids=str)
    def test_refusals(self, path: Path, arguments: list[str]) -> None:
        """What does not exist is refused in one line."""
        done = self.run(path, *arguments)
        assert (done.exit_code, done.stdout, len(done.stderr.splitlines())) == (1, "", 1)
