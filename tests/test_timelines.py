"""Timelines give what the rules give, however they came to be: the oracle compared with what is stored."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
from logs import MODES, SCOPES, random_log
from oracle import every_version
from views import assistant, to, user

from turnlog.projections import Timeline, VisibleMessage, differences, handoffs, timeline
from turnlog.projections.timelines.catch_up import Lines
from turnlog.store import Store
from turnlog.store.spans import Spans
from turnlog.store.spans.rows import TABLES

Json = dict[str, Any]


def what_ifs(pick: random.Random, size: int) -> list[Json]:
    """Return no what-if, one for every transfer, and one for some."""
    some = {pick.randint(1, size): pick.choice(MODES) for _ in range(3)}
    return [{}, {"mode": pick.choice(MODES)}, {"modes": some}]


def of_message(message: VisibleMessage) -> Json:
    """Return a visible message as the oracle writes it."""
    found: Json = {name: getattr(message, name) for name in ("role", "version", "origin", "assistant", "content")}
    found["source"] = message.version if message.source is None else message.source
    calls = [{"id": call.id, "name": call.name, "arguments": call.arguments} for call in message.tool_calls]
    found |= {"tool_calls": calls} if calls else {}
    return found | ({} if message.tool_call_id is None else {"tool_call_id": message.tool_call_id})


def without_form(message: Json) -> Json:
    return {key: value for key, value in message.items() if key != "text_only"}


def check_view(line: Timeline, at: int, expected: Json) -> None:
    """Compare a view, what is hidden and what is held with what the oracle says."""
    view = line.at(at)
    assert view.assistant == expected["assistant"]
    assert list(map(of_message, view.messages)) == list(map(without_form, expected["messages"]))
    hidden = [(each.version, each.origin, each.rule, each.by, each.call or "") for each in line.hidden(at)]
    keys = ("version", "origin", "rule", "by", "call")
    assert hidden == [tuple(entry[key] or "" for key in keys) for entry in expected["hidden"]]
    assert [(message.version, message.origin) for message in line.held(at)] == expected["held"]
    assert view.total == len(expected["messages"])


def in_steps(line: Timeline, size: int, pick: random.Random) -> Iterator[int]:
    """Catch a timeline up in steps of any size, and say how far it has come."""
    at = 0
    while at < size:
        at = min(size, at + pick.choice((1, 1, 1, 2, 5, 30)))
        line.line(at)
        yield at


@pytest.mark.parametrize("seed", range(60))
def test_every_version(seed: int) -> None:
    """At every version, in every scope and under any modes, a view is what the oracle says, caught up in any steps."""
    pick = random.Random(seed)
    log = random_log(pick, 14 + seed % 17)
    with Store(":memory:") as store:
        store.append("c", log)
        for scope in SCOPES:
            for what_if in what_ifs(pick, len(log)):
                line = timeline(store, "c", scope, **what_if)
                for _ in in_steps(line, len(log), pick):
                    if pick.random() < 0.1:
                        Lines.of(store).forget()
                for at, expected in enumerate(every_version(log, scope, **what_if)):
                    check_view(line, at, expected)
        assert list(differences(store)) == []


@pytest.mark.parametrize("seed", range(100, 112))
def test_longer_logs(seed: int) -> None:
    """The same holds for logs of 80 events, whose results are paired across many uses of an id."""
    pick = random.Random(seed)
    log = random_log(pick, 80)
    with Store(":memory:") as store:
        store.append("c", log)
        line = timeline(store, "c")
        for _ in in_steps(line, len(log), pick):
            pass
        for at, expected in enumerate(every_version(log, "chat")):
            if at % 3 == 0 or at > 70:
                check_view(line, at, expected)


@pytest.mark.parametrize(("seed", "scope"), [(50129, "chat"), (50776, "coder")])
def test_results_that_change_their_calls(seed: int, scope: str) -> None:
    """A rewind of one scope pairs the other's results again: no call that is off the path waits for one, and a result
    that comes to another call replaces the interim results of that."""
    log = random_log(random.Random(seed), 40)
    with Store(":memory:") as store:
        store.append("c", log)
        line = timeline(store, "c", scope)
        for at, expected in enumerate(every_version(log, scope)):
            check_view(line, at, expected)


@pytest.mark.parametrize("seed", range(200, 230))
def test_pages(seed: int) -> None:
    """Pages of a view and of what is hidden, put together, are the whole, from either end."""
    pick = random.Random(seed)
    log = random_log(pick, 40)
    with Store(":memory:") as store:
        store.append("c", log)
        line = timeline(store, "c", **pick.choice(what_ifs(pick, 40)))
        for at in (len(log), pick.randint(0, len(log))):
            whole, size = line.at(at).messages, pick.randint(1, 5)
            assert [
                each for first in range(0, len(whole) + 1, size) for each in line.at(at, first=first, count=size)
            ] == whole
            assert line.at(at, last=size).messages == whole[max(0, len(whole) - size) :]
            hidden = line.hidden(at)
            assert [
                each for first in range(0, len(hidden) + 1, size) for each in line.hidden(at, first, size)
            ] == hidden
            middle = pick.randint(0, len(log))
            assert line.hidden(at, after=middle) == [each for each in hidden if each.version > middle]


@pytest.mark.parametrize("seed", range(300, 330))
def test_forks(seed: int) -> None:
    """A fork's view is that of a log of its own with the same events, also of a fork of a fork."""
    pick = random.Random(seed)
    log = random_log(pick, 24)
    cuts = sorted(pick.sample(range(1, len(log) - 1), 2))
    with Store(":memory:") as store:
        store.append("c", log[: cuts[0] + 3])
        store.fork("c", cuts[0], "child")
        plain = [*log[: cuts[0]], {"type": "fork", "parent": "0", "at": 0}]
        own = [event for event in log[cuts[0] :] if event["type"] in ("message", "transfer", "assistant", "clear")]
        if own:
            store.append("child", own)
        plain += own
        store.fork("child", len(plain) - 1, "grandchild")
        for name, events in (("child", plain), ("grandchild", [*plain[:-1], {"type": "fork", "parent": "0", "at": 0}])):
            for scope in SCOPES:
                line = timeline(store, name, scope)
                for at, expected in enumerate(every_version(events, scope)):
                    if at in (cuts[0] - 1, cuts[0], len(events) - 2, len(events)):
                        check_view(line, at, expected)
        assert list(differences(store)) == []


def test_a_fork_knows_the_names_of_its_own_path(store: Store) -> None:
    """A fork's timeline is what its log gives, though its parent's knows assistants who came after the fork."""
    store.append("c", [assistant("a", "You are a."), user("x"), to("b", system="You are b.")])
    timeline(store, "c").at()
    store.fork("c", 2, "child")
    store.append("child", [to("d", system="You are d.")])
    assert [message.assistant for message in timeline(store, "child").at().messages] == ["a", "a", "d"]
    assert list(differences(store)) == []


@pytest.mark.parametrize("table", TABLES)
def test_garbage(table: str, tmp_path: Path) -> None:
    """Pages of a timeline that are garbage cost time alone, whatever is asked."""
    path = tmp_path / "a.db"
    log = random_log(random.Random(5), 30)
    with Store(path) as store:
        store.append("c", log)
        expected = handoffs(store, "c")
        supposed = handoffs(store, "c", mode="delete-history")
        assert expected != supposed
    with closing(sqlite3.connect(path)) as plain:
        size = plain.execute("PRAGMA page_size").fetchone()[0]
        (root,) = plain.execute("SELECT rootpage FROM sqlite_schema WHERE name = ?", (table,)).fetchone()
        plain.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    data = bytearray(path.read_bytes())
    data[(root - 1) * size : root * size] = b"\xa5" * size
    path.write_bytes(bytes(data))
    for read_only in (True, False):
        with Store(path, read_only=read_only) as store:
            assert handoffs(store, "c", mode="delete-history") == supposed
            assert handoffs(store, "c") == expected
            check_view(timeline(store, "c"), len(log), list(every_version(log, "chat"))[len(log)])


@pytest.mark.parametrize("seed", range(400, 415))
def test_tables_are_dropped(seed: int, tmp_path: Path) -> None:
    """Tables that are dropped at any moment, by whatever connection, cost time alone."""
    pick = random.Random(seed)
    log = random_log(pick, 20)
    expected = list(every_version(log, "chat"))
    with Store(tmp_path / "a.db", durability="normal") as store, Store(tmp_path / "a.db") as other:
        store.append("c", log)
        line = timeline(store, "c")
        for at in (*in_steps(line, len(log), pick), len(log)):
            for table in pick.sample(TABLES, pick.choice((0, 1, 3, len(TABLES)))):
                with other.db.transaction():
                    other.db.rows(f"DROP TABLE IF EXISTS {table}")
            check_view(line, at, expected[at])


@pytest.mark.parametrize("seed", range(500, 515))
def test_rolled_back(seed: int) -> None:
    """What a transaction that is undone had caught up is undone with it."""
    pick = random.Random(seed)
    log = random_log(pick, 24)
    half = pick.randint(2, len(log) - 1)
    expected = list(every_version(log, "chat"))
    with Store(":memory:") as store:
        store.append("c", log[:half])
        line = timeline(store, "c")
        check_view(line, half, expected[half])
        with suppress(ZeroDivisionError), store.transaction():
            store.append("c", log[half:])
            check_view(line, len(log), expected[len(log)])
            raise ZeroDivisionError
        check_view(line, half, expected[half])
        store.append("c", [{"type": "message", "role": "user", "content": "other"}])
        assert line.at().messages[-1].content == "other"
        assert list(differences(store)) == []


def test_a_kept_timeline_goes_on() -> None:
    """A timeline that is kept sees what is appended after it was made."""
    with Store(":memory:") as store:
        call = store.conversation("c")
        call.user("one")
        line = timeline(store, "c")
        assert [message.content for message in line.at()] == ["one"]
        call.user("two")
        assert [message.content for message in line.at()] == ["one", "two"]


def test_read_only(tmp_path: Path) -> None:
    """A store that is opened read-only uses what is stored, goes on from there in memory, and writes nothing."""
    log = random_log(random.Random(1), 30)
    expected = list(every_version(log, "chat"))
    path = tmp_path / "a.db"
    with Store(path) as store:
        store.append("c", log[:20])
        timeline(store, "c").at()
        store.append("c", log[20:])
    before = path.read_bytes()
    with Store(path, read_only=True) as store:
        line = timeline(store, "c")
        assert line.line(20).is_stored
        for at in (20, len(log)):
            check_view(line, at, expected[at])
        assert not line.line(len(log)).is_stored
    assert path.read_bytes() == before


def test_lock_is_not_had(tmp_path: Path) -> None:
    """While another connection holds the write lock, a view is answered in memory, and stored once it is free."""
    log = random_log(random.Random(2), 30)
    expected = list(every_version(log, "chat"))
    with Store(tmp_path / "a.db") as store, Store(tmp_path / "a.db") as other:
        store.append("c", log)
        line = timeline(store, "c")
        with other.transaction():
            check_view(line, len(log), expected[len(log)])
            assert not line.line(len(log)).is_stored
        assert line.line(len(log)).is_stored
        check_view(line, len(log), expected[len(log)])


def test_tampered_rows_are_named(store: Store) -> None:
    """A stored timeline whose rows were changed is named, and is right again once it is rebuilt."""
    store.append("c", random_log(random.Random(3), 30))
    timeline(store, "c").at()
    assert list(differences(store)) == []
    store.db.rows("UPDATE main.spans SET since = since + 1 WHERE since = (SELECT max(since) FROM main.spans)")
    assert len(list(differences(store))) == 1
    with store.db.transaction():
        Spans(store.db, "main").create()
    store.db.derived.clear()
    assert list(differences(store)) == []
