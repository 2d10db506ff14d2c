"""A timeline that is kept open: it sees what this and other connections append, and nothing that was undone."""

from __future__ import annotations

import random
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from logs import random_log
from views import Seen, clear, foretold, redact, told, user

from turnlog.projections import Timeline, timeline
from turnlog.projections.timelines.catch_up import Lines
from turnlog.store import Store

Json = dict[str, Any]


def contents(line: Timeline) -> list[Any]:
    return [message.content for message in line.at()]


def view_of(line: Timeline) -> Json:
    return told(Seen(line, line.at()))


@pytest.mark.parametrize("seed", range(600, 610))
def test_it_sees_what_other_connections_append(seed: int, tmp_path: Path) -> None:
    """What counts is the file: whichever connection appends, the next view has it, in the order of the log.

    Redactions are left out, since they rewrite the file.
    """
    pick = random.Random(seed)
    log = [event if event["type"] != "redaction" else clear() for event in random_log(pick, 24)]
    path = tmp_path / "a.db"
    with Store(path, durability="normal") as store, Store(path, durability="normal") as other:
        store.append("c", log[:1])
        kept = [timeline(store, "c"), timeline(other, "c")]
        for number, event in enumerate(log[1:], 2):
            pick.choice((store, other)).append("c", [event])
            line = pick.choice(kept)
            assert view_of(line) == foretold(log[:number])
        assert [view_of(line) for line in kept] == [foretold(log)] * 2


def test_what_a_transaction_took_back_is_gone(tmp_path: Path) -> None:
    """A timeline that was asked inside of a transaction shows nothing that was undone with it, and misses nothing.

    Also where another connection appends other events under the same versions.
    """
    path = tmp_path / "a.db"
    with Store(path) as store, Store(path) as other:
        store.append("c", [user("one")])
        line, others = timeline(store, "c"), timeline(other, "c")
        assert contents(line) == contents(others) == ["one"]
        with suppress(ZeroDivisionError), store.transaction():
            store.append("c", [user("undone"), clear()])
            assert contents(line) == []
            assert line.hidden() != []
            raise ZeroDivisionError
        assert contents(line) == contents(others) == ["one"]
        assert line.hidden() == []
        other.append("c", [user("two"), user("three")])
        assert contents(line) == contents(others) == ["one", "two", "three"]


def test_what_is_not_committed_is_seen_by_its_writer_alone(tmp_path: Path) -> None:
    """Another connection's timeline has an append once it is committed, and not before."""
    path = tmp_path / "a.db"
    with Store(path) as store, Store(path) as other:
        store.append("c", [user("one")])
        line, others = timeline(store, "c"), timeline(other, "c")
        with store.transaction():
            store.append("c", [user("two")])
            assert contents(line) == ["one", "two"]
            assert contents(others) == ["one"]
        assert contents(others) == ["one", "two"]


def test_a_read_only_store_sees_what_is_appended(tmp_path: Path) -> None:
    """A store that is opened read-only goes on in memory with what another connection appends."""
    path = tmp_path / "a.db"
    with Store(path) as store:
        store.append("c", [user("one")])
        with Store(path, read_only=True) as reader:
            line = timeline(reader, "c")
            assert contents(line) == ["one"]
            store.append("c", [user("two")])
            assert contents(line) == ["one", "two"]
            store.append("c", [clear()])
            assert contents(line) == []
            assert [(each.version, each.rule, each.by) for each in line.hidden()] == [(1, "clear", 3), (2, "clear", 3)]


def test_what_if_goes_on(tmp_path: Path) -> None:
    """A what-if that is kept open takes in what is appended, transfers that it changes included (rule 9)."""
    path = tmp_path / "a.db"
    with Store(path) as store, Store(path) as other:
        store.append("c", [user("one")])
        line = timeline(store, "c", mode="delete-history")
        assert contents(line) == ["one"]
        other.append("c", [{"type": "transfer", "to": "b"}, user("two")])
        assert contents(line) == ["two"]
        assert contents(timeline(store, "c")) == ["one", "two"]


def test_a_fork_follows_the_redactions_of_its_parent(store: Store) -> None:
    """What both share is redacted in the parent for the fork, too; the parent's later messages are not the fork's."""
    store.append("c", [user("shared")])
    child = store.fork("c").conversation
    line = timeline(store, child)
    assert contents(line) == ["shared"]
    store.append("c", [user("the parent's"), redact(1, "gone")])
    assert contents(line) == ["gone"]
    store.append(child, [user("the child's")])
    assert contents(line) == ["gone", "the child's"]


def test_an_interrupt_loses_nothing(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """If catching up is interrupted, nothing of it is taken in by halves, and all of it the next time."""
    store.append("c", [user(str(number)) for number in range(5)])
    line = timeline(store, "c")
    assert len(line.at()) == 5
    store.append("c", [user("5"), user("6"), clear(), user("8")])
    read = store.frames

    def frames(*arguments: Any) -> Any:
        found = read(*arguments)
        yield next(found)
        raise KeyboardInterrupt

    monkeypatch.setattr(store, "frames", frames)
    with pytest.raises(KeyboardInterrupt):
        line.at()
    monkeypatch.undo()
    assert contents(line) == ["8"]
    assert [each.by for each in line.hidden()] == [8] * 7


def test_what_is_remembered_of_rows_may_be_forgotten(store: Store) -> None:
    """What a connection remembers beside the rows saves time alone."""
    log = random_log(random.Random(7), 20)
    for number, event in enumerate(log, 1):
        store.append("c", [event])
        Lines.of(store).forget()
        assert view_of(timeline(store, "c")) == foretold(log[:number])
