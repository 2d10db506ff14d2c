"""The costs of handoffs are kept beside the timeline: never needed for an answer, and gone with what they tell of."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st
from logs import logs
from views import DELETE, REMOVE, ROLLING, SWAP, assistant, event, reply, result, summary, to, user

from turnlog.cli import main
from turnlog.costs import Cost, cost_differences, costs
from turnlog.costs.kept import REVISION
from turnlog.costs.requests import Requests
from turnlog.projections import differences, handoffs, rebuild
from turnlog.store import Store

TOOLS = [{"name": "f"}]
SECRET = "a secret whose length nobody is to learn"
LOG = [
    assistant("a", "You are a.", tools=TOOLS),
    user(SECRET),
    reply("one", "t1"),
    result("t1"),
    to("b", REMOVE, "You are b.", tool_call_id="t1"),
    user("two"),
    to("c", ROLLING, "You are c."),
    to("d", DELETE, "You are d.", message="Bye."),
]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where a store is that has the log as `c`, two forks of it one after the other, and another conversation."""
    path = tmp_path / "s.db"
    with Store(path, durability="normal") as store:
        store.append("c", LOG)
        store.fork("c", 5, "child")
        store.append("child", [user("three"), to("e", SWAP)])
        store.fork("child", 8, "grandchild")
        store.append("grandchild", [to("f", SWAP)])
        store.append("other", LOG)
    return path


NAMES = ("c", "child", "grandchild", "other")


def asked(store: Store, name: str = "c", compare: bool = True, **options: Any) -> list[list[Cost]]:
    return list(costs(store, handoffs(store, name), compare=compare, **options))


def asked_everywhere(store: Store) -> dict[str, list[list[Cost]]]:
    return {name: asked(store, name) for name in NAMES}


def kept(store: Store) -> dict[str, int]:
    """Return how many costs are kept in the file, by conversation."""
    rows = store.db.rows(
        "SELECT conversations.name, count(*) FROM main.costs JOIN main.timelines USING (line)"
        " JOIN conversations ON conversations.key = timelines.conversation GROUP BY 1"
    )
    assert sum(count for _, count in rows) == (store.db.row("SELECT count(*) FROM main.costs") or (0,))[0]
    return dict(rows)


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The versions whose costs are counted, not read."""
    versions: list[int] = []
    go_on = Requests.go_on

    def noted(self: Requests, *arguments: Any, **options: Any) -> Cost:
        versions.append(self._view.version + 1)
        return go_on(self, *arguments, **options)

    monkeypatch.setattr(Requests, "go_on", noted)
    return versions


def test_asking_twice_counts_once(path: Path, counted: list[int]) -> None:
    """What was counted once is read from then on, by other stores of the file too, where nothing may be written too."""
    with Store(path) as store:
        right = asked(store)
        assert sorted(counted) == [version for version in (5, 7, 8) for _ in range(4)]
        counted.clear()
        assert asked(store) == right
        assert asked(store, compare=False) == [[each[number]] for each, number in zip(right, (2, 0, 3), strict=True)]
    for read_only in (False, True):
        with Store(path, read_only=read_only) as store:
            assert asked(store) == right
    assert counted == []


def test_what_is_kept_is_of_its_question(path: Path, counted: list[int]) -> None:
    """Costs of other modes, of a what-if and in counted tokens are not those that are kept."""
    with Store(path) as store:
        asked(store, compare=False)
        counted.clear()
        assert asked(store, compare=False, tokens=len) == asked(store, compare=False, tokens=len)
        assert len(counted) == 6
        counted.clear()
        what_if: Any = (SWAP, {})
        found = handoffs(store, "c", mode=SWAP)
        assert list(costs(store, found, what_if)) == list(costs(store, found, what_if)) != asked(store, compare=False)
        assert len(counted) == 3
        counted.clear()
        asked(store)
        assert len(counted) == 9


def test_nothing_is_written_where_nothing_can(path: Path, counted: list[int]) -> None:
    """A store that is opened read-only keeps costs in memory."""
    before = path.read_bytes()
    with Store(path, read_only=True) as store:
        right = asked(store)
        counted.clear()
        assert asked(store) == right
        assert counted == []
    assert path.read_bytes() == before


def test_a_lock_that_is_not_had(path: Path, counted: list[int]) -> None:
    """Where another process writes, costs are answered all the same, and kept in memory."""
    with Store(path) as store, closing(sqlite3.connect(path, isolation_level=None)) as other:
        handoffs(store, "c")
        other.execute("BEGIN IMMEDIATE")
        right = asked(store)
        counted.clear()
        assert asked(store) == right
        assert counted == []
        other.execute("ROLLBACK")
        assert kept(store) == {}


ERASING: dict[str, Callable[[Store], object]] = {
    "redact": lambda store: store.redact("c", [2], reason="asked"),
    "append": lambda store: store.append("c", [{"type": "redaction", "target": 2, "reason": "asked"}]),
    "erase": lambda store: store.erase("c"),
    "in a fork": lambda store: store.redact("child", [2], reason="asked"),
    "another replacement": lambda store: store.redact("c", [2], reason="asked", replacement="longer " * 9),
}


@pytest.mark.parametrize("erases", ERASING)
def test_a_redaction_deletes_them(path: Path, erases: str) -> None:
    """A redaction deletes, in its own transaction, the costs of the conversation and of all its forks, whoever asked
    for it; those of others stay. What is asked then is counted without the text."""
    with Store(path) as store:
        if erases == "another replacement":
            store.redact("c", [2], reason="asked", replacement="short")
        before = asked_everywhere(store)
        assert kept(store).keys() == {*NAMES}
        with contextlib.suppress(ZeroDivisionError), store.transaction():
            ERASING[erases](store)
            assert kept(store).keys() == {"other"}
            raise ZeroDivisionError
        assert kept(store).keys() == {*NAMES}
        ERASING[erases](store)
        assert kept(store).keys() == {"other"}
        for name in NAMES[1:]:
            again = asked(store, name)
            assert (again == before[name]) == (name == "other")
            rebuild(store)
            assert asked(store, name) == again


def test_a_redaction_of_a_fork_alone(path: Path) -> None:
    """What a fork said is in no view of its parent, whose costs stay."""
    with Store(path) as store:
        asked_everywhere(store)
        store.redact("child", [7], reason="asked")
        assert kept(store).keys() == {"c", "other"}


def test_a_redaction_before_they_are_written(path: Path) -> None:
    """Costs that were counted before another process redacts, and would be written after it, are not kept."""
    with Store(path) as store, Store(path) as other:
        giver = costs(store, handoffs(store, "c"), compare=True)
        first = next(giver)
        other.redact("c", [2], reason="asked")
        rest = list(giver)
        assert [first, *rest] != asked(store)
        assert rest == asked(store)[1:]
        store.db.rows("DELETE FROM main.costs")
        giver = costs(store, handoffs(store, "c"), compare=True)
        next(giver)
        other.redact("c", [6], reason="asked")
        giver.close()  # type: ignore[attr-defined]
        assert kept(store) == {}


def test_what_was_undone(path: Path) -> None:
    """What a transaction appended and counted is gone when it is undone, and never read for what comes instead."""
    with Store(path) as store:
        right = asked(store)
        with contextlib.suppress(ZeroDivisionError), store.transaction():
            store.append("c", [user("to be undone"), to("x", SWAP, "a prompt")])
            assert len(asked(store)) == 4
            raise ZeroDivisionError
        store.append("c", [user("instead"), to("y", DELETE, "another prompt")])
        now = asked(store)
        assert now[:3] == right
        rebuild(store)
        assert asked(store) == now


def test_dropping(path: Path) -> None:
    """Costs go with their timeline, and with `rebuild`."""
    with Store(path) as store:
        right = asked_everywhere(store)
        rebuild(store)
        assert kept(store) == {}
        assert asked_everywhere(store) == right
        assert kept(store).keys() == {*NAMES}


@pytest.mark.parametrize("tables", ["costs", "timelines"])
@pytest.mark.parametrize("harm", ["garbage", "missing"])
def test_damage(path: Path, tables: str, harm: str) -> None:
    """A table of costs, or of timelines, that is damaged or missing costs time: no answer and no erasure."""
    with Store(path) as store:
        right = asked_everywhere(store)
    with closing(sqlite3.connect(path)) as plain:
        if harm == "missing":
            plain.execute(f"DROP TABLE {tables}")
        else:
            size = plain.execute("PRAGMA page_size").fetchone()[0]
            roots = plain.execute("SELECT rootpage FROM sqlite_schema WHERE tbl_name = ?", (tables,)).fetchall()
            plain.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    if harm == "garbage":
        data = bytearray(path.read_bytes())
        for (root,) in roots:
            data[(root - 1) * size : root * size] = b"\xa5" * size
        path.write_bytes(bytes(data))
    with Store(path) as store:
        assert asked_everywhere(store)["c"] == right["c"]
    if harm == "garbage":
        path.write_bytes(bytes(data))
    with Store(path) as store:
        assert store.redact("c", [2], reason="asked").left_every_file
        assert asked(store, "other") == right["other"]
        after = asked(store)
        assert after != right["c"]
        rebuild(store)
        assert asked(store) == after
        assert store.verify().faults == []


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE costs SET kept = kept + 1 WHERE version = 7",
        "UPDATE costs SET by = 4 WHERE version = 5 AND wire = 'openai'",
        "DELETE FROM costs WHERE version = 7 AND wire = 'openai'",
        "UPDATE costs SET version = 6 WHERE version = 7",
        "UPDATE costs SET version = 99 WHERE version = 7",
        "UPDATE costs SET point = 'x' WHERE version = 8",
        "UPDATE costs SET mode = 'x' WHERE version = 8 AND mode = 'delete-history'",
    ],
)
def test_verify_compares_them(path: Path, change: str) -> None:
    """`verify` counts what is kept again from the log and names what differs, unless it is to be quick."""
    with Store(path) as store:
        asked_everywhere(store)
        assert [*differences(store), *cost_differences(store)] == []
    with closing(sqlite3.connect(path)) as plain:
        plain.execute(change)
        plain.commit()
    with Store(path) as store:
        told = list(cost_differences(store))
        assert told
        assert all(line.startswith("costs of ") and line.endswith("are not what the log gives") for line in told)
    outputs = [CliRunner().invoke(main, ["--db", str(path), "verify", *quick]) for quick in ([], ["--quick"])]
    assert [output.exit_code for output in outputs] == [1, 0]
    assert [told[0] in output.output for output in outputs] == [True, False]


@settings(max_examples=60, deadline=None)
@given(logs(max_size=25), st.data())
def test_any_log(events: list[dict[str, Any]], data: st.DataObject) -> None:
    """Whatever is redacted when, what is kept is what would be counted, and differs from the log in nothing."""
    with Store(":memory:") as store:
        store.append("c", events)
        fork = data.draw(st.integers(1, len(events)))
        store.fork("c", fork, "fork")
        for _ in range(2):
            for name in ("c", "fork"):
                asked(store, name)
            name = data.draw(st.sampled_from(("c", "fork")))
            target = data.draw(st.integers(1, len(events) if name == "c" else fork))
            store.redact(name, [target], reason="r", replacement=data.draw(st.sampled_from((None, "", "text"))))
        found = {name: asked(store, name) for name in ("c", "fork")}
        assert list(cost_differences(store)) == []
        with store.db.transaction():
            store.db.rows("DELETE FROM main.costs")
        store.db.derived.clear()
        assert found == {name: asked(store, name) for name in ("c", "fork")}


def test_the_revision() -> None:
    """Whoever changes what any handoff costs raises REVISION, so that kept costs are not taken for new ones."""
    with Store(":memory:") as store:
        odd = [
            assistant("a", "You are a.", tools=[{"name": "f.g"}, {"name": "f_g", "parameters": {"type": "object"}}]),
            user("x", name="N N"),
            event(
                "message",
                role="user",
                content=[{"type": "image", "url": "https://a/b.png"}, {"type": "text", "text": "y"}],
            ),
            reply([{"type": "reasoning", "text": "hm"}, {"type": "text", "text": "z "}], "t1", "t 1", "t1"),
            result("t1", "r", interim=True),
            to("b", SWAP, "You are b.", context={"type": "lastNMessages", "maxMessages": 2}),
            result("t1"),
            summary("s", 2, 4, keep=[4]),
            to("a", REMOVE, tool_call_id="t1", message="One moment."),
        ]
        store.append("c", [*LOG, *odd])
        figures = [[cost.to_dict() for cost in each] for each in asked(store)]
    digest = sha256(msgspec.json.encode(figures)).hexdigest()[:16]
    assert (REVISION, digest) == (1, "c97a667e71765ce5")
