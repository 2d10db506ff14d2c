"""Search: what is found and how it is marked, its filters, and its index with a checkpoint of its own."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from test_append import recorded
from test_search import names
from views import DELETE, SHARED, SWAP, assistant, clear, event, note, reply, result, rewind, summary, to, user

from turnlog.cli import main
from turnlog.projections import search
from turnlog.store import NotFound, Store, StoreReadOnly


class TestEverythingSaid:
    @pytest.mark.parametrize(
        "saying",
        [
            event("describe", title="needle"),
            assistant("a", "needle"),
            assistant("a", first_message="needle"),
            user("needle"),
            note("needle"),
            reply([{"type": "text", "text": "x"}, {"type": "text", "text": "needle"}]),
            event("message", role="assistant", tool_calls=[{"id": "t", "name": "needle", "arguments": "{}"}]),
            event("message", role="assistant", tool_calls=[{"id": "t", "name": "f", "arguments": '{"q":"needle"}'}]),
            result("t", "needle"),
            result("t", '{"q":"n\\u0065edle"}'),
            reply([{"type": "tool_call", "id": "t", "name": "f", "arguments": '{"q":"n\\u0065edle"}'}]),
            reply([{"type": "toolCall", "toolCallId": "t", "toolName": "needle", "args": {}}]),
            reply([{"type": "toolCall", "id": "t", "name": "f", "args": {"q": ["needle"]}}]),
            reply([{"type": "tool_use", "id": "t", "name": "f", "input": {"needle": 1}}]),
            reply([{"type": "refusal", "refusal": "needle"}]),
            reply([{"type": "input_audio", "input_audio": {"transcript": "needle"}}]),
            reply([{"type": "thinking", "thinking": "needle"}]),
            to("b", message="needle"),
            to("b", system="needle"),
            to("b", first_message="needle"),
            to("b", reason="needle"),
            summary("needle"),
            event("response", request=1, status="completed", response="needle"),
            event("response", request=1, status="error", message="needle"),
            event("redaction", target=1, reason="r", replacement="needle"),
        ],
        ids=lambda saying: "-".join(key for key in saying if "edle" in json.dumps(saying[key])) or saying["type"],
    )
    def test_of_each_type(self, saying: dict[str, Any]) -> None:
        """Whatever an event says is found, with its conversation, version, scope, type and time."""
        with Store(":memory:") as store:
            store.append("c", [event("request", at=0), saying])
            (found,) = search(store, "needle")
            recorded = store.event("c", 2)
            assert (found.conversation, found.version, found.type) == ("c", 2, saying["type"])
            assert (found.scope, found.recorded_at) == (recorded.scope, recorded.recorded_at)

    @pytest.mark.parametrize(
        ("later", "hidden_by"),
        [
            ([], None),
            ([to("b", DELETE)], (f"transfer:{DELETE}", 2)),
            ([summary("s", 1, 1)], ("summary", 2)),
            ([clear()], ("clear", 2)),
            ([rewind(0)], ("rewind", 2)),
            ([to("b", context={"type": "none"}), clear()], ("context:none", 2)),
        ],
        ids=str,
    )
    def test_hidden_ones_are_marked(self, later: list[Any], hidden_by: tuple[str, int] | None) -> None:
        """What is not visible now is found and marked, with what hid it first."""
        with Store(":memory:") as store:
            store.append("c", [user("needle"), *later])
            (found,) = search(store, "needle")
            assert (found.visible, found.hidden_by) == (hidden_by is None, hidden_by)

    def test_of_several_things_the_one_that_says_it(self) -> None:
        """Of a transfer that says several things, the one in which the words are is told visible or hidden."""
        with Store(":memory:") as store:
            store.append("c", [to("b", system="needle", message="thread"), to("c", SWAP)])
            assert [(found.visible, found.role) for found in search(store, "thread")] == [(True, "assistant")]
            assert [(found.visible, found.role) for found in search(store, "needle")] == [(False, "system")]

    def test_a_prompt_that_a_later_transfer_placed(self) -> None:
        """What an assistant was declared with is visible once a transfer has placed it, and not before."""
        with Store(":memory:") as store:
            store.append("c", [assistant("a", "A"), assistant("b", "needle")])
            assert [found.visible for found in search(store, "needle")] == [False]
            store.append("c", [to("b", SWAP)])
            assert [found.visible for found in search(store, "needle")] == [True]


class TestFilters:
    @pytest.fixture
    def store(self, monkeypatch: pytest.MonkeyPatch) -> Any:
        """Seven events that say it, an hour apart."""
        log = [
            ("c", assistant("a", "needle")),
            ("c", user("needle")),
            ("c", reply("needle", assistant="a")),
            ("c", user("needle", scope="coder")),
            ("c", note("needle")),
            ("d", user("needle", **SHARED)),
            ("d", to("b", message="needle")),
        ]
        with Store(":memory:") as store:
            for hour, (conversation, event) in enumerate(log):
                monkeypatch.setattr("time.time_ns", lambda hour=hour: (4_000_000_000 + hour * 3600) * 10**9)
                store.append(conversation, [event])
            yield store

    @pytest.mark.parametrize(
        ("filters", "found"),
        [
            ({}, ["c1", "c2", "c3", "c4", "c5", "d1", "d2"]),
            ({"conversation": "c"}, ["c1", "c2", "c3", "c4", "c5"]),
            ({"scope": "coder"}, ["c4"]),
            ({"scope": "shared_memory"}, ["d1"]),
            ({"scope": "novel"}, []),
            ({"role": "user"}, ["c2", "c4", "d1"]),
            ({"role": "system"}, ["c1", "c5"]),
            ({"role": "assistant", "conversation": "d"}, ["d2"]),
            ({"assistant": "a"}, ["c1", "c2", "c3", "c5"]),
            ({"assistant": "a", "role": "user"}, ["c2"]),
            ({"assistant": "novel"}, []),
            ({"since": 3}, ["c4", "c5", "d1", "d2"]),
            ({"until": 3}, ["c1", "c2", "c3"]),
            ({"since": 1, "until": 2}, ["c2"]),
            ({"since": 9}, []),
        ],
        ids=str,
    )
    def test_each(self, store: Store, filters: dict[str, Any], found: list[str]) -> None:
        """Results are filtered by conversation, scope, role, assistant and time, the end of which is excluded."""
        start = datetime.fromtimestamp(4_000_000_000, UTC)
        times = {key: start + timedelta(hours=filters[key]) for key in ("since", "until") if key in filters}
        options: dict[str, Any] = filters | times
        hits = search(store, "needle", **options)
        assert sorted(f"{each.conversation}{each.version}" for each in hits) == found

    def test_the_time_of_an_event(self) -> None:
        """`since` and `until` go by when an event occurred or, where nobody said so, by when it was recorded."""
        with Store(":memory:") as store:
            store.append("c", [user("needle", occurred_at="2001-01-01T00:00:00Z"), user("needle")])
            middle = datetime(2010, 1, 1, tzinfo=UTC)
            assert [found.version for found in search(store, "needle", until=middle)] == [1]
            assert [found.version for found in search(store, "needle", since=middle)] == [2]
            exact = datetime(2001, 1, 1, tzinfo=UTC)
            assert [found.version for found in search(store, "needle", since=exact, until=middle)] == [1]
            assert search(store, "needle", until=exact) == []

    def test_a_limit(self, store: Store) -> None:
        """No more than `limit` are given, the first ones, counted after the filters."""
        everything = search(store, "needle")
        assert search(store, "needle", limit=3) == everything[:3]
        assert len(search(store, "needle", limit=2, role="user")) == 2

    def test_best_first(self) -> None:
        """What says the words more densely comes first."""
        with Store(":memory:") as store:
            store.append("c", [user("needle " + "hay " * 50), user("needle needle"), user("needle hay hay")])
            assert [found.version for found in search(store, "needle")] == [2, 3, 1]

    def test_a_conversation_that_does_not_exist(self, store: Store) -> None:
        """A conversation that does not exist is the caller's error and says so."""
        with pytest.raises(NotFound) as missing:
            search(store, "needle", conversation="x")
        assert (missing.value.kind, missing.value.value) == ("conversation", "x")


class TestIndex:
    def test_it_catches_up_when_it_is_used(self) -> None:
        """What was appended since is found, and nothing is taken in twice."""
        with Store(":memory:") as store:
            for count in range(1, 4):
                store.append("c", [user("needle"), clear()])
                assert len(search(store, "needle")) == count
            assert store.index.catch_up() == 0
            assert store.db.row("SELECT count(*) FROM search") == (3,)

    def test_progress_and_pages(self) -> None:
        """A long catch-up goes in steps, counts its events, and says how far it is."""
        heard: list[tuple[int, int]] = []
        with Store(":memory:") as store:
            store.append("c", [user(f"needle{n}") for n in range(2500)])
            assert store.index.catch_up(lambda done, total: heard.append((done, total))) == 2500
            assert (heard, heard[-1]) == (sorted(set(heard)), (2500, 2500))
            assert {total for _, total in heard} == {2500}
            assert [found.version for found in search(store, "needle1999")] == [2000]

    def test_a_rebuild(self) -> None:
        """An index that is made again holds the same, with the events that are redacted counted among the rest."""
        with Store(":memory:") as store:
            store.append("c", [user("needle"), user("thread")])
            store.redact("c", [2], reason="r")
            before = search(store, "needle")
            assert store.index.rebuild() == 3
            assert search(store, "needle") == before
            assert search(store, "thread") == []

    def test_a_rebuild_of_a_read_only_store(self, tmp_path: Path) -> None:
        """A store that was opened read-only refuses a rebuild, and says why."""
        with Store(tmp_path / "s.db") as store:
            store.append("c", [user("needle")])
        with Store(tmp_path / "s.db", read_only=True) as store, pytest.raises(StoreReadOnly):
            store.index.rebuild()

    def test_redacted_text(self) -> None:
        """What was redacted is found no more, before and after the index has it; the replacement and the rest are."""
        with Store(":memory:") as store:
            store.append("c", [user("needle one"), user("needle two"), user("needle three")])
            store.redact("c", [1], reason="r")
            assert [found.version for found in search(store, "needle")] == [2, 3]
            store.redact("c", [2], reason="r", replacement="thread")
            assert [found.version for found in search(store, "needle")] == [3]
            assert [found.version for found in search(store, "thread")] == [5]
            store.erase("c")
            assert search(store, "needle") == search(store, "thread") == []

    def test_restored_and_forked(self) -> None:
        """What was restored is found; what a fork shares is found once, where it is owned."""
        with Store(":memory:") as store:
            store.append("c", [user("needle")])
            store.fork("c", name="f")
            store.append("f", [user("needle too")])
            assert names(store, "needle") == ["c", "f"]

    def test_in_a_fork(self) -> None:
        """In a fork, what it shares is found too, as the fork shows it; what its parent said later is not."""
        with Store(":memory:") as store:
            store.append("c", [user("needle"), user("a needle more")])
            store.fork("c", at=1, name="f")
            store.append("f", [clear(), user("needle too")])
            in_fork = search(store, "needle", conversation="f")
            assert [(found.conversation, found.version, found.visible) for found in in_fork] == [
                ("f", 1, False),
                ("f", 4, True),
            ]
            assert [found.version for found in search(store, "needle", conversation="c")] == [1, 2]


class TestCommand:
    @pytest.fixture
    def path(self, tmp_path: Path) -> Path:
        with Store(tmp_path / "s.db") as store:
            store.append("c", [assistant("a", "A"), user("needle and thread"), clear(), user("needle again")])
        return tmp_path / "s.db"

    @staticmethod
    def run(path: Path, *arguments: str) -> Result:
        return CliRunner().invoke(main, [f"--db={path}", "search", *arguments], catch_exceptions=False)

    def test_for_people(self, path: Path) -> None:
        """`search` shows what it found with the words marked, and marks what is hidden."""
        done = self.run(path, "thread", "needle")
        assert done.stdout.splitlines() == [
            "c 2 chat user a · hidden by clear, version 3",
            "      «needle» and «thread»",
        ]
        assert self.run(path, "unicorn").stdout == "nothing found\n"

    def test_for_programs(self, path: Path) -> None:
        """`search --json` gives a list of objects; options filter it."""
        found = json.loads(self.run(path, "needle", "--json").stdout)
        assert {each["version"]: (each["visible"], each["hidden_by"]) for each in found} == {
            2: (False, ["clear", 3]),
            4: (True, None),
        }
        assert len(json.loads(self.run(path, "needle", "--limit=1", "--json").stdout)) == 1
        assert json.loads(self.run(path, "needle", "--scope=coder", "--json").stdout) == []
        assert json.loads(self.run(path, "needle", "--until=2001-01-01", "--json").stdout) == []

    @pytest.mark.parametrize("query", ['"', "a:b OR (", "NEAR(", "*", "^", "--", "-- -x", "x' OR '1'='1"])
    def test_whatever_is_typed(self, path: Path, query: str) -> None:
        """Nothing that is typed is a syntax error."""
        done = self.run(path, "--", query)
        assert (done.exit_code, done.stderr) == (0, "")

    def test_rebuild(self, path: Path) -> None:
        """`rebuild` makes the index again, and changes nothing of the log nor of what is found."""
        with Store(path) as store:
            before = recorded(store)
        found = self.run(path, "needle").stdout
        done = CliRunner().invoke(main, [f"--db={path}", "rebuild"], catch_exceptions=False)
        assert (done.exit_code, self.run(path, "needle").stdout) == (0, found)
        with Store(path) as store:
            assert recorded(store) == before

    def test_nothing_to_search_for(self, path: Path) -> None:
        """`search` without a word is wrong usage."""
        assert self.run(path).exit_code == 2
