"""Verify, beside the events themselves: conversations, triggers, what is no fault, and how it reads."""

from __future__ import annotations

import json
import sqlite3
import tracemalloc
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from logs import logs
from test_append import said
from test_newer_logs import NEWER, chained
from test_verify import NAMES, fill, unguarded

from turnlog.cli import main
from turnlog.projections import differences, timeline
from turnlog.store import Fault, Store, Verified, line_of, read_line
from turnlog.store.chain import digest_of_body


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "s.db"
    with Store(path, durability="normal") as store:
        fill(store)
    return path


def faults(path: Path) -> list[Fault]:
    with Store(path, read_only=True) as store:
        return store.verify().faults


def tampered(path: Path, sql: str, *parameters: Any) -> list[Fault]:
    """What verify finds once a statement has run that nothing held up."""
    with unguarded(path) as plain:
        plain.execute(sql, parameters)
        assert plain.execute("SELECT changes()").fetchone() != (0,)
    return faults(path)


def identity(path: Path, name: str) -> str:
    with Store(path, read_only=True) as store:
        return store.stream(name).uuid


class TestConversations:
    @pytest.mark.parametrize("uuid", ["00000000-0000-4000-8000-000000000000", "", "two", "line\nfeed"])
    @pytest.mark.parametrize("name", ["one", "three"])
    def test_another_uuid(self, path: Path, name: str, uuid: str) -> None:
        """A conversation with another uuid than its events were chained for is named at its first event."""
        first = {"three": 5, "four": 6}.get(name, 1)
        found = tampered(path, "UPDATE conversations SET uuid = ? WHERE name = ?", uuid, name)
        assert (uuid, first) in [(fault.conversation, fault.version) for fault in found]

    @pytest.mark.parametrize("parent", [None, 1, 2, 3, 4, 99])
    @pytest.mark.parametrize("name", NAMES)
    def test_another_parent(self, path: Path, name: str, parent: int | None) -> None:
        """A conversation with another parent, one that is not there, itself or a fork of it, is named."""
        owner = identity(path, name)
        with unguarded(path) as plain:
            plain.execute(
                "UPDATE conversations SET parent = ?, forked_at = coalesce(forked_at, 1) WHERE name = ?"
                " AND parent IS NOT ?",
                (parent, name, parent),
            )
            changed = plain.execute("SELECT changes()").fetchone()[0]
        assert [fault.conversation for fault in faults(path) if fault.conversation == owner] == [owner] * changed

    @pytest.mark.parametrize("at", [None, 0, -1, 1, 2, 3, 5, 6, 7, 100])
    @pytest.mark.parametrize("name", ["three", "four"])
    def test_another_place_to_fork_at(self, path: Path, name: str, at: int | None) -> None:
        """A fork that begins elsewhere than its first event says is named."""
        owner, was = identity(path, name), {"three": 4, "four": 5}[name]
        found = tampered(path, "UPDATE conversations SET forked_at = ? WHERE name = ?", at, name)
        assert [fault.conversation for fault in found if fault.conversation == owner] == [owner] * (at != was)

    @pytest.mark.parametrize("at", [None, 0, -1, 1, 100])
    @pytest.mark.parametrize("name", ["one", "two"])
    def test_a_fork_that_never_was(self, path: Path, name: str, at: int | None) -> None:
        """A conversation that is said to be a fork, and does not begin as one, is named."""
        owner, parent = identity(path, name), {"one": 2, "two": 1}[name]
        found = tampered(path, "UPDATE conversations SET parent = ?, forked_at = ? WHERE name = ?", parent, at, name)
        assert owner in [fault.conversation for fault in found]

    def test_a_fork_made_one_of_a_sibling(self, path: Path) -> None:
        """A fork said to be one of another that shares the same events is named: its first event says of which."""
        with Store(path) as store:
            child = store.fork("one", 2).conversation
        found = tampered(path, "UPDATE conversations SET parent = 4 WHERE uuid = ?", child)
        assert [(fault.conversation, fault.version) for fault in found] == [(child, 3)]

    @pytest.mark.parametrize("name", NAMES)
    def test_a_row_deleted(self, path: Path, name: str) -> None:
        """Events whose conversation is gone are told of, and the forks of it are named."""
        forks = {"one": ["three", "four"], "three": ["four"]}.get(name, [])
        children = [identity(path, fork) for fork in forks]
        found = tampered(path, "DELETE FROM conversations WHERE name = ?", name)
        first = {"three": 5, "four": 6}.get(name, 1)
        assert (None, first) in [(fault.conversation, fault.version) for fault in found]
        assert set(children) <= {fault.conversation for fault in found}

    def test_a_row_of_another_key(self, path: Path) -> None:
        """A conversation that lost its events is named, and so is the first event that belongs to none."""
        owner = identity(path, "two")
        found = tampered(path, "UPDATE conversations SET key = 77 WHERE name = 'two'")
        assert [(fault.conversation, fault.version) for fault in found] == [(None, 1), (owner, None)]

    def test_a_row_without_events(self, path: Path) -> None:
        """A conversation that has no events is named."""
        found = tampered(path, "INSERT INTO conversations (uuid) VALUES ('u')")
        assert [(fault.conversation, fault.version) for fault in found] == [("u", None)]

    @pytest.mark.parametrize("new", ["another", "line\nfeed", "n" * 500])
    def test_names_are_no_faults(self, path: Path, new: str) -> None:
        """A name can change, and no digest of the store covers it: whatever it is, it is no fault."""
        assert tampered(path, "UPDATE conversations SET name = ? WHERE name = 'one'", new) == []

    @pytest.mark.parametrize("change", ["name = NULL", "name_salt = NULL"])
    def test_a_name_without_its_salt(self, path: Path, change: str) -> None:
        """A name without its salt, or the salt of a name that is gone, is named at its conversation."""
        owner = identity(path, "one")
        found = tampered(path, f"UPDATE conversations SET {change} WHERE name = 'one'")
        assert [(fault.conversation, fault.version) for fault in found] == [(owner, None)]

    def test_a_name_hides_nothing(self, path: Path) -> None:
        """A conversation is verified whatever another is called, by its own uuid too."""
        owner = identity(path, "one")
        with unguarded(path) as plain:
            plain.execute("UPDATE events SET body = '{}' WHERE conversation = 1 AND version = 2")
            plain.execute("UPDATE conversations SET name = ? WHERE name = 'two'", (owner,))
        assert [(fault.conversation, fault.version) for fault in faults(path)] == [(owner, 2)]


TRIGGERS = (
    "events_are_appended",
    "events_are_not_deleted",
    "events_are_not_updated",
    "conversations_are_not_deleted",
    "conversations_are_appended",
    "conversations_change_only_their_name",
)


class TestTriggers:
    def test_all_of_them_are_tried(self, path: Path) -> None:
        """What follows tries every trigger that a store has."""
        plain = sqlite3.connect(path)
        names = [name for (name,) in plain.execute("SELECT name FROM sqlite_schema WHERE type = 'trigger'")]
        plain.close()
        assert sorted(names) == sorted(TRIGGERS)

    @pytest.mark.parametrize(
        "change",
        [
            lambda sql: None,
            lambda sql: sql.replace("BEGIN", "BEGIN SELECT 1;"),
            lambda sql: sql.replace("RAISE(ABORT", "RAISE(IGNORE); --").replace("; --, ", "; -- "),
            lambda sql: sql.replace("BEFORE", "AFTER"),
            lambda sql: sql.replace("ON events", "ON conversations") if "ON events" in sql else None,
        ],
        ids=["missing", "does more", "ignores", "too late", "elsewhere"],
    )
    @pytest.mark.parametrize("name", TRIGGERS)
    def test_missing_or_altered(self, path: Path, name: str, change: Callable[[str], str | None]) -> None:
        """A trigger that is missing or not as it was made is told of, by its name, and nothing else is."""
        plain = sqlite3.connect(path, isolation_level=None)
        sql = plain.execute("SELECT sql FROM sqlite_schema WHERE name = ?", (name,)).fetchone()[0]
        plain.execute(f"DROP TRIGGER {name}")
        altered = change(sql)
        if altered is not None:
            assert altered != sql
            plain.execute(altered)
        plain.close()
        (fault,) = faults(path)
        assert (fault.conversation, fault.version) == (None, None)
        assert name in fault.why

    def test_all_at_once(self, path: Path) -> None:
        """Every missing trigger is told of, and hides no bad event."""
        owner = identity(path, "one")
        plain = sqlite3.connect(path, isolation_level=None)
        for name in TRIGGERS:
            plain.execute(f"DROP TRIGGER {name}")
        plain.execute("UPDATE events SET salt = zeroblob(16) WHERE position = 1")
        plain.close()
        found = faults(path)
        assert {name for name in TRIGGERS for fault in found if name in fault.why} == set(TRIGGERS)
        assert [(fault.conversation, fault.version) for fault in found if fault.version] == [(owner, 1)]


class TestNoFault:
    def test_what_was_looked_at(self, path: Path) -> None:
        """Forks of forks and redacted events, appends after them included, are no fault; all events are counted."""
        with Store(path) as store:
            total = len(list(store.follow()))
            assert store.verify() == Verified(conversations=4, events=total)

    def test_an_empty_store(self) -> None:
        """A store without conversations has no fault."""
        with Store(":memory:") as store:
            assert store.verify() == Verified()

    def test_a_restored_store(self, path: Path) -> None:
        """A store restored from exports, in another order and to other positions, has no fault; nor a backup."""
        with Store(path) as store, Store(":memory:") as other:
            other.append("own", [said()])
            for name in ("four", "two", "three", "one"):
                other.restore(read_line(line_of(event)) for event in store.events(name))
            assert other.verify() == Verified(conversations=5, events=1 + len(list(store.follow())))
            store.backup(path.with_name("copy.db"))
        assert faults(path.with_name("copy.db")) == []

    @pytest.mark.parametrize("event", NEWER, ids=lambda event: ascii(event)[:80])
    def test_events_of_a_newer_build(self, event: dict[str, Any]) -> None:
        """Events of a type, version or value that this build does not know are no fault."""
        with Store(":memory:") as store:
            store.restore(map(read_line, chained({}, event, {})))
            assert store.verify() == Verified(conversations=1, events=3)

    @settings(max_examples=40, deadline=None)
    @given(logs())
    def test_any_log(self, events: list[dict[str, Any]]) -> None:
        """Whatever was appended, forked and erased, nothing is at fault."""
        with Store(":memory:") as store:
            store.append("c", events)
            store.fork("c", 1 + len(events) // 2, "d")
            store.append("d", [said()])
            store.erase("c")
            assert store.verify().faults == []


def test_a_body_gone_without_a_redaction(path: Path) -> None:
    """An event whose body was erased, its right digest kept, is named if no redaction says so."""
    owner = identity(path, "one")
    plain = sqlite3.connect(path)
    salt, body = plain.execute("SELECT salt, body FROM events WHERE position = 2").fetchone()
    plain.close()
    erase = "UPDATE events SET body = NULL, salt = NULL, body_digest = ? WHERE position = 2"
    found = tampered(path, erase, digest_of_body(salt, body))
    assert [(fault.conversation, fault.version) for fault in found] == [(owner, 2)]
    with Store(path) as store:
        store.redact("one", [2], reason="said so now")
    assert faults(path) == []


def test_a_redaction_elsewhere_excuses_nothing(path: Path) -> None:
    """A body that is gone is named although a redaction in another conversation names the same version."""
    owner = identity(path, "two")
    plain = sqlite3.connect(path)
    salt, body = plain.execute("SELECT salt, body FROM events WHERE conversation = 2 AND version = 2").fetchone()
    plain.close()
    with Store(path) as store:
        store.redact("one", [2], reason="another's")
    erase = "UPDATE events SET body = NULL, salt = NULL, body_digest = ? WHERE conversation = 2 AND version = 2"
    found = tampered(path, erase, digest_of_body(salt, body))
    assert [(fault.conversation, fault.version) for fault in found] == [(owner, 2)]


class TestReading:
    def test_progress(self) -> None:
        """Progress is heard while events are verified, never past all of them, and rises."""
        heard: list[tuple[int, int]] = []
        with Store(":memory:") as store:
            store.append("c", [said()] * 2500)
            store.append("d", [said()] * 700)
            assert store.verify(progress=lambda done, total: heard.append((done, total))).events == 3200
        assert len(heard) >= 3
        assert heard == sorted(heard)
        assert {total for _, total in heard} == {3200}
        assert all(0 < done <= total for done, total in heard)

    def test_memory_does_not_grow(self, tmp_path: Path) -> None:
        """Verifying takes no more memory for a store that is four times as large, its timelines and index included."""
        peaks = []
        for size in (4000, 16000):
            with Store(tmp_path / f"{size}.db", durability="normal") as store:
                store.append("c", [said("x" * 200)] * size)
                store.index.catch_up()
                assert timeline(store, "c").line(size).is_stored
                tracemalloc.start()
                assert store.verify(derived=partial(differences, store)).events == size
                peaks.append(tracemalloc.get_traced_memory()[1])
                tracemalloc.stop()
        assert peaks[1] < peaks[0] * 1.2, peaks


class TestCommand:
    @pytest.fixture
    def bad(self, path: Path) -> tuple[Path, str]:
        owner = identity(path, "two")
        tampered(path, "UPDATE events SET body = '{}' WHERE conversation = 2 AND version = 2")
        return path, owner

    def test_no_fault(self, path: Path) -> None:
        """`verify` says how much it looked at and ends with 0; `--json` gives an object with no faults."""
        result = CliRunner().invoke(main, [f"--db={path}", "verify"])
        assert (result.exit_code, result.stderr) == (0, "")
        assert result.stdout == "17 events of 4 conversations: no fault\n"
        result = CliRunner().invoke(main, [f"--db={path}", "verify", "--json"])
        assert result.exit_code == 0
        found = json.loads(result.stdout)
        assert found == {
            "conversations": 4,
            "events": 17,
            "faults": [],
            "derived": [],
            "renamed": [],
            "erasure": None,
        }

    def test_a_fault(self, bad: tuple[Path, str]) -> None:
        """`verify` names the conversation and the version of a bad event, and ends with 1, `--json` or not."""
        path, owner = bad
        result = CliRunner().invoke(main, [f"--db={path}", "verify"])
        assert result.exit_code == 1
        assert result.stdout.startswith(f"conversation {owner}, version 2: ")
        result = CliRunner().invoke(main, [f"--db={path}", "verify", "--json"])
        assert result.exit_code == 1
        (fault,) = json.loads(result.stdout)["faults"]
        assert (fault["conversation"], fault["version"]) == (owner, 2)


@pytest.mark.parametrize("version", [999, 1000, 1001])
def test_a_version_that_stands_there_twice(tmp_path: Path, version: int) -> None:
    """A second event of a version is named wherever it stands, also at the end of a page of what is read at once."""
    path = tmp_path / "s.db"
    with Store(path, durability="normal") as store:
        store.append("c", [{"type": "clear"}] * 1100)
        columns = "conversation, version, type, v, scope, recorded_at, frame, body, salt, digest"
        with unguarded(path) as plain:
            plain.execute(f"INSERT INTO events ({columns}) SELECT {columns} FROM events WHERE version = {version}")
        assert [fault.conversation for fault in store.verify().faults] == [store.stream("c").uuid]
