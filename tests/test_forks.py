"""Forks: a conversation that shares another's events up to a version, at the price of one event (DESIGN section 7)."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from hypothesis import given, settings
from hypothesis import strategies as st
from logs import SCOPES, event_at, logs
from test_append import recorded, said
from views import assistant, clear, event, note, reply, result, rewind, seen, summary, to, told

from turnlog.cli import main
from turnlog.projections import describe, handoffs
from turnlog.store import DuplicateEvent, InvalidArgument, NameTaken, NotFound, Store, VersionConflict


def texts(store: Store, conversation: str, at: int | None = None, scope: str = "chat") -> list[Any]:
    return [message.content for message in seen(store, conversation, scope, at)]


def stretch(number: int) -> list[dict[str, Any]]:
    """Two hundred events of a long conversation: talk in two scopes, calls, a handoff, a summary, at times a rewind."""
    before = 200 * number
    talk = [said(str(before + n), scope="coder" if n % 5 == 0 else "chat") for n in range(190)]
    calls = [reply("", "t1"), result("t1")]
    turns = [assistant("a", "A"), to("b", system="B", message="m"), to("a", "swap-system-message-in-history")]
    last = [clear(scope="coder")] if number % 10 else [rewind(before + 3)]
    return [*turns, *talk, *calls, summary("s", before + 5, before + 90), note("n"), reply("r"), reply("r"), *last]


@pytest.fixture(scope="module")
def long() -> Any:
    """A conversation of 20,000 events and its fork at 10,000."""
    with Store(":memory:") as store:
        for number in range(100):
            store.append("long", stretch(number))
        count = len(list(store.follow()))
        assert count == store.version("long") == 20_000
        store.fork("long", 10_000, "fork")
        yield store


class TestLongConversations:
    """20,000 events of every kind, because views at many versions of 100,000 would take minutes; and 100,000 once."""

    def test_it_costs_one_event(self, long: Store) -> None:
        """A fork of a long conversation is one event in the store."""
        assert len(list(long.follow(20_000))) == 1
        assert (long.version("fork"), long.version("long")) == (10_001, 20_000)

    def test_it_reads_as_its_parent(self, long: Store) -> None:
        """Every event up to the fork is the parent's own, by range, by type and scope, forwards and backwards."""
        queries: list[dict[str, Any]] = [{}, {"backwards": True}, {"types": ("transfer",)}, {"scopes": ("coder", None)}]
        for query in [*queries, {"first": 777, "scopes": ("chat",), "backwards": True}]:
            pair = [long.events(name, last=10_000, **query) for name in ("long", "fork")]
            one, two = ([(event.position, event.version, event.digest) for event in events] for events in pair)
            assert one == two
            assert len(one) >= 100

    @pytest.mark.parametrize("at", [0, 1, 199, 3_531, 10_000])
    @pytest.mark.parametrize("scope", ["chat", "coder"])
    def test_its_views_are_its_parent_s(self, long: Store, at: int, scope: str) -> None:
        """At any version up to the fork a view of the fork is the parent's."""
        assert told(seen(long, "fork", scope, at)) == told(seen(long, "long", scope, at))

    def test_a_hundred_thousand_events(self) -> None:
        """A fork of 100,000 events is one event and is read as they are."""
        with Store(":memory:") as store:
            store.append("long", [said("x")] * 100_000)
            receipt = store.fork("long", name="fork")
            assert (receipt.first, receipt.last, receipt.position) == (100_001, 100_001, 100_001)
            pairs = zip(store.events("long"), store.events("fork", last=100_000), strict=True)
            assert all(one.digest == two.digest for one, two in pairs)


@st.composite
def trees(draw: st.DrawFn) -> list[tuple[int, int, list[dict[str, Any]]]]:
    """Forks one after another: of which conversation, at which version, and what then is appended to it."""
    lengths = [draw(st.integers(1, 8))]
    found = []
    for _ in range(draw(st.integers(1, 5))):
        parent = draw(st.integers(0, len(lengths) - 1))
        at = draw(st.integers(1, lengths[parent]))
        first = at + 2
        kinds = event_at(first).filter(lambda event: event["type"] not in ("redaction", "response"))
        more = draw(st.lists(kinds, max_size=3))
        lengths.append(at + 1 + len(more))
        found.append((parent, at, more))
    return found


@settings(max_examples=60, deadline=None)
@given(log=logs(max_size=7), tree=trees(), scope=st.sampled_from(SCOPES))
def test_forks_of_forks(
    log: list[dict[str, Any]], tree: list[tuple[int, int, list[dict[str, Any]]]], scope: str
) -> None:
    """A fork of a fork, at any version, shares what its parent showed there, at every version up to the fork."""
    with Store(":memory:") as store:
        store.append("0", [*log, *(said("more") for _ in range(8 - len(log)))])
        shared = {"0": 0}
        for number, (parent, at, more) in enumerate(tree, 1):
            before = [(event.digest, event.version) for event in store.events(str(parent), last=at)]
            store.fork(str(parent), at, str(number))
            if more:
                store.append(str(number), more)
            assert [(event.digest, event.version) for event in store.events(str(number), last=at)] == before
            shared[str(number)] = at
        for number, (parent, at, _) in enumerate(tree, 1):
            assert [event.version for event in store.events(str(number))] == list(
                range(1, store.version(str(number)) + 1)
            )
            for version in range(at + 1):
                mine, parents = (seen(store, str(name), scope, version) for name in (number, parent))
                assert told(mine) == told(parents)
        assert store.verify().faults == []


class TestApart:
    """What happens after a fork, on either side, is never seen on the other."""

    @pytest.fixture
    def store(self) -> Any:
        with Store(":memory:") as store:
            store.append("c", [event("describe", title="old", metadata={"k": 1}), assistant("a", "A"), said("one")])
            store.append("c", [said("two", id="two"), said("three")])
            store.fork("c", 4, "f")
            yield store

    @pytest.mark.parametrize("name", ["c", "f"])
    @pytest.mark.parametrize(
        "later",
        [
            [said("later"), reply("later", "t1"), result("t1")],
            [to("b", "delete-history", "B", message="bye")],
            [clear()],
            [summary("s", 3, 4)],
            [rewind(2), said("again")],
            [rewind(0, scope="chat")],
            [event("describe", title="new", metadata={"k": 2, "l": 3}, scopes=["lab"]), said("x", scope="lab")],
            [{"type": "request", "at": 3}, said("shared", scope="shared_memory")],
        ],
        ids=lambda events: str(events[0]["type"]),
    )
    def test_neither_sees_the_other(self, store: Store, name: str, later: list[dict[str, Any]]) -> None:
        """Talk, handoffs, clears, summaries, rewinds and descriptions on one side change no view of the other."""
        other = {"c": "f", "f": "c"}[name]

        def everything() -> Any:
            views = [told(seen(store, other, scope)) for scope in ("chat", "shared_memory")]
            about = (describe(store, other), store.scopes(other), store.scopes_in_use(other), store.version(other))
            return views, about, handoffs(store, other), [event.digest for event in store.events(other)]

        before = everything()
        store.append(name, later)
        assert everything() == before
        assert told(seen(store, "c", at=4)) == told(seen(store, "f", at=4))

    def test_a_redaction_is_seen(self, store: Store) -> None:
        """A redaction of what both share is seen on both sides; of what one side added, on that side alone."""
        store.redact("c", [3, 5], reason="r")
        assert texts(store, "c") == ["A", "[redacted]", "two", "[redacted]"]
        assert texts(store, "f") == ["A", "[redacted]", "two"]

    def test_versions_go_on(self, store: Store) -> None:
        """Both go on counting from where they were, and an expected version is each one's own."""
        assert store.append("f", [said("x")], expected=5).last == 6
        assert store.append("c", [said("x")], expected=5).last == 6
        with pytest.raises(VersionConflict) as conflict:
            store.append("f", [said("x")], expected=4)
        assert (conflict.value.expected, conflict.value.found) == (4, 6)

    def test_ids_that_are_shared(self, store: Store) -> None:
        """A retry of an event that both share gives its first receipt on either side; another event is refused it."""
        first = store.append("c", [said("two", id="two")])
        again = store.append("f", [said("two", id="two")])
        assert (
            (again.first, again.last, again.digest) == (first.first, first.last, first.digest) == (4, 4, first.digest)
        )
        before = recorded(store)
        with pytest.raises(DuplicateEvent) as taken:
            store.append("f", [said("else", id="two")])
        assert taken.value.ids == ["two"]
        assert recorded(store) == before

    def test_ids_that_are_not(self, store: Store) -> None:
        """An id that one side used after the fork is free on the other."""
        assert store.append("c", [said("x", id="i")]).last == 6
        assert store.append("f", [said("y", id="i")]).last == 6
        assert store.append("f", [said("z", id="j")]).last == 7
        assert store.append("c", [said("x", id="j")]).last == 7

    def test_a_rewind_into_what_is_shared(self, store: Store) -> None:
        """A fork can be rewound into its parent's part, which the parent goes on from as it was."""
        store.append("f", [said("away"), rewind(3), said("again")])
        assert texts(store, "f") == ["A", "one", "again"]
        assert texts(store, "c") == ["A", "one", "two", "three"]

    def test_times(self, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
        """A time means the last version of each side that was recorded by then."""
        monkeypatch.setattr("time.time_ns", lambda: 4_000_000_000 * 10**9)
        store.append("f", [said("late")])
        soon = datetime(2096, 1, 1, tzinfo=UTC)
        assert (store.version_at("f", soon), store.version_at("c", soon)) == (5, 5)
        assert store.version_at("f", datetime(2097, 1, 1, tzinfo=UTC)) == 6


class TestTheEvent:
    def test_what_it_says(self) -> None:
        """A fork begins with an event that names its parent and the version, and is listed with both."""
        with Store(":memory:") as store:
            parent = store.append("c", [said("a"), said("b")]).conversation
            receipt = store.fork("c", 1, "f")
            event = store.event("f", 2)
            assert (event.type, event.scope, event.body) == ("fork", None, {"parent": parent, "at": 1})
            assert (receipt.conversation, receipt.first, receipt.last) == (store.stream("f").uuid, 2, 2)
            assert receipt.digest == event.digest.hex()
            c, f = store.conversations()
            assert (c.parent, c.forked_at) == (None, None)
            assert (f.conversation, f.parent, f.forked_at, f.version) == ("f", parent, 1, 2)

    def test_the_latest_if_none_is_given(self) -> None:
        """Without a version a fork shares all there is; without a name it has none and is found by its uuid."""
        with Store(":memory:") as store:
            store.append("c", [said("a"), said("b")])
            fork = store.fork("c")
            assert fork.first == 3
            assert texts(store, fork.conversation) == ["a", "b"]
            assert store.stream(fork.conversation).name is None
            assert store.fork(fork.conversation, name="of a uuid").first == 4

    @pytest.mark.parametrize("at", [0, -1, 3, 10**30])
    def test_a_version_that_is_not_there(self, at: int) -> None:
        """A fork at a version that does not exist, 0 included, is refused, and nothing is written."""
        with Store(":memory:") as store:
            store.append("c", [said("a"), said("b")])
            before = recorded(store)
            with pytest.raises(NotFound) as missing:
                store.fork("c", at, "f")
            assert (missing.value.kind, missing.value.value) == ("version", at)
            assert recorded(store) == before

    def test_a_conversation_that_is_not_there(self) -> None:
        """A fork of a conversation that does not exist is refused, and nothing is written."""
        with Store(":memory:") as store:
            with pytest.raises(NotFound) as missing:
                store.fork("c", 1, "f")
            assert (missing.value.kind, missing.value.value) == ("conversation", "c")
            assert store.conversations() == []

    def test_a_name_that_is_taken(self) -> None:
        """A name or uuid that another conversation has is refused, the parent's too; nothing is written."""
        with Store(":memory:") as store:
            parent = store.append("c", [said("a")]).conversation
            store.append("d", [said("b")])
            before = recorded(store)
            for name in ("c", "d", parent):
                with pytest.raises(NameTaken) as taken:
                    store.fork("c", 1, name)
                assert taken.value.name == name
            for name in ("", "line\nfeed", "n" * 201):
                with pytest.raises(InvalidArgument) as refused:
                    store.fork("c", 1, name)
                assert refused.value.field == "conversation"
            assert recorded(store) == before


class TestCommand:
    @pytest.fixture
    def path(self, tmp_path: Path) -> Path:
        with Store(tmp_path / "s.db") as store:
            store.append("c", [said("a"), said("b")])
        return tmp_path / "s.db"

    @staticmethod
    def run(path: Path, *arguments: str) -> Result:
        return CliRunner().invoke(main, [f"--db={path}", *arguments], catch_exceptions=False)

    def test_fork(self, path: Path) -> None:
        """`fork CONVERSATION NAME --at VERSION` begins NAME there; `--json` gives the receipt."""
        done = self.run(path, "fork", "c", "f", "--at=1")
        assert (done.exit_code, done.stdout) == (0, "f goes on from version 1\n")
        receipt = json.loads(self.run(path, "fork", "c", "--json").stdout)
        assert (receipt["first"], receipt["last"]) == (3, 3)
        with Store(path) as store:
            assert texts(store, "f") == ["a"]
            assert texts(store, receipt["conversation"]) == ["a", "b"]

    @pytest.mark.parametrize("arguments", [["c", "f", "--at=3"], ["x", "f"], ["c", "c"], ["c", ""]], ids=str)
    def test_refusals(self, path: Path, arguments: list[str]) -> None:
        """A version or conversation that is not there and a name that is taken are refused in one line."""
        done = self.run(path, "fork", *arguments)
        assert (done.exit_code, done.stdout, len(done.stderr.splitlines())) == (1, "", 1)
        with Store(path) as store:
            assert len(store.conversations()) == 1
