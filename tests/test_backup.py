"""Backups of a live store, and the views that people read with plain SQLite."""

from __future__ import annotations

import json
import os
import sqlite3
import stat
from pathlib import Path
from typing import Any

import pytest
from test_append import recorded, said

from turnlog.store import InvalidArgument, Store, StoreUnusable
from turnlog.store.file import Connection


class TestBackup:
    @pytest.mark.parametrize("read_only", [False, True], ids=["writing", "read-only"])
    def test_the_copy_is_equal(self, tmp_path: Path, read_only: bool) -> None:
        """A backup opens as a store and holds the same, the redacted and the WAL's part too."""
        with Store(tmp_path / "s.db") as writer, Store(tmp_path / "s.db", read_only=read_only) as store:
            writer.append("one", [said("é", id="i"), {"type": "x:mark", "n": 2**200}])
            writer.append("two", [said(), {"type": "redaction", "target": 1, "reason": "r"}])
            store.backup(tmp_path / "copy.db")
            before = recorded(writer)
        with Store(tmp_path / "copy.db") as copy:
            assert recorded(copy) == before
            assert copy.append("one", [said()]).first == 3

    def test_of_a_store_in_memory(self, tmp_path: Path) -> None:
        """A store in memory is saved to a file by a backup, and goes on."""
        with Store(":memory:") as store:
            store.append("c", [said()])
            store.backup(tmp_path / "copy.db")
            before = recorded(store)
            store.append("c", [said()])
        with Store(tmp_path / "copy.db") as copy:
            assert recorded(copy) == before

    def test_while_others_write(self, tmp_path: Path) -> None:
        """A backup is the store at one moment, whatever is appended while it runs."""
        with Store(tmp_path / "s.db", durability="normal") as store, Store(tmp_path / "s.db") as other:
            store.append("c", [said("x" * 10_000)] * 1000)
            before = recorded(store)
            steps: list[tuple[int, int]] = []

            def heard(left: int, total: int) -> None:
                steps.append((left, total))
                store.append("c", [said("meanwhile")])
                other.append("d", [said("meanwhile")])

            store.backup(tmp_path / "copy.db", heard)
            assert len(recorded(store)) == 1000 + 2 * len(steps)
        assert len(steps) > 1
        assert steps[-1][0] == 0
        assert all(left < total for left, total in steps)
        with Store(tmp_path / "copy.db") as copy:
            assert recorded(copy) == before

    def test_an_existing_target_is_refused(self, tmp_path: Path) -> None:
        """A backup never goes over a file that is there, least of all the store itself."""
        with Store(tmp_path / "s.db") as store:
            store.append("c", [said()])
            (tmp_path / "there").write_text("kept")
            (tmp_path / "folder").mkdir()
            for name in ("there", "folder", "s.db"):
                with pytest.raises(StoreUnusable) as refused:
                    store.backup(tmp_path / name)
                assert refused.value.path == str(tmp_path / name)
            assert (tmp_path / "there").read_text() == "kept"
            assert store.version("c") == 1

    def test_a_target_that_cannot_be_written(self, tmp_path: Path) -> None:
        """A target in a folder that is not there is refused, and the store goes on."""
        with Store(tmp_path / "s.db") as store:
            store.append("c", [said()])
            with pytest.raises(StoreUnusable) as refused:
                store.backup(tmp_path / "no" / "copy.db")
            assert refused.value.path == str(tmp_path / "no" / "copy.db")
            assert store.append("c", [said()]).last == 2

    def test_a_backup_that_is_given_up_leaves_no_file(self, tmp_path: Path) -> None:
        """A backup that is interrupted half way takes its unfinished copy away."""

        def interrupt(left: int, total: int) -> None:
            raise KeyboardInterrupt

        with Store(tmp_path / "s.db") as store:
            store.append("c", [said()])
            with pytest.raises(KeyboardInterrupt):
                store.backup(tmp_path / "copy.db", interrupt)
            assert not (tmp_path / "copy.db").exists()
            assert store.append("c", [said()]).last == 2

    @pytest.mark.parametrize("where", ["file", "memory", "read-only"])
    def test_a_closed_store(self, tmp_path: Path, where: str) -> None:
        """A store that is closed cannot be copied any more, and no file is made."""
        with Store(tmp_path / "s.db") as store:
            store.append("c", [said()])
        store = Store(":memory:" if where == "memory" else tmp_path / "s.db", read_only=where == "read-only")
        store.close()
        with pytest.raises(StoreUnusable, match="is closed"):
            store.backup(tmp_path / "copy.db")
        assert not (tmp_path / "copy.db").exists()

    def test_the_copy_is_checked(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """A copy that does not have all that the store has is taken away, and said to be none."""
        monkeypatch.setattr(Connection, "backup", lambda source, target, **_: target.execute("VACUUM"), raising=False)
        with Store(tmp_path / "s.db") as store:
            store.append("c", [said()])
            with pytest.raises(StoreUnusable) as refused:
                store.backup(tmp_path / "copy.db")
            assert refused.value.path == str(tmp_path / "copy.db")
        assert sorted(each.name for each in tmp_path.iterdir()) == ["s.db"]

    def test_the_copy_of_a_private_store_is_private(self, tmp_path: Path) -> None:
        """Nobody can read a copy who cannot read the store."""
        with Store(tmp_path / "s.db") as store:
            store.append("c", [said()])
            os.chmod(tmp_path / "s.db", 0o600)
            store.backup(tmp_path / "copy.db")
        assert stat.S_IMODE((tmp_path / "copy.db").stat().st_mode) == 0o600

    def test_a_link_that_leads_nowhere(self, tmp_path: Path) -> None:
        """A target that is a link to nothing is a name that is taken."""
        (tmp_path / "copy.db").symlink_to(tmp_path / "nowhere.db")
        with Store(tmp_path / "s.db") as store, pytest.raises(StoreUnusable, match="exists already"):
            store.backup(tmp_path / "copy.db")
        assert not (tmp_path / "nowhere.db").exists()

    def test_memory_inside_a_transaction(self, tmp_path: Path) -> None:
        """A store in memory is not copied while it has what may be undone."""
        with Store(":memory:") as store, store.transaction():
            store.append("c", [said()])
            with pytest.raises(StoreUnusable, match="transaction"):
                store.backup(tmp_path / "copy.db")
        assert not (tmp_path / "copy.db").exists()

    @pytest.mark.parametrize("target", [None, 5, "", "a\0b"], ids=ascii)
    def test_what_is_no_path(self, store: Store, target: Any) -> None:
        """The target is the path of a file."""
        with pytest.raises(InvalidArgument) as refused:
            store.backup(target)
        assert (refused.value.field, refused.value.value) == ("target", target)


@pytest.fixture
def plain(tmp_path: Path) -> Any:
    """A plain read-only connection to a store with everything the views show."""
    with Store(tmp_path / "s.db") as store:
        store.append(
            "call",
            [
                {"type": "assistant", "assistant": "greeter", "system": "You greet."},
                said("hello", occurred_at="2026-01-01T00:00:00Z"),
                {"type": "message", "role": "assistant", "assistant": "greeter", "content": [{"type": "own"}]}
                | {"tool_calls": [{"id": "t", "name": "transfer_to_billing", "arguments": "{}"}]},
                {"type": "message", "role": "tool", "tool_call_id": "t", "content": "ok"},
                {"type": "transfer", "to": "billing", "tool_call_id": "t", "reason": "money", "inferred": True},
                {"type": "transfer", "to": "greeter", "mode": "delete-history", "context": {"type": "none"}},
                {"type": "transfer", "to": "x", "from": "y", "scope": "coder"},
                {"type": "summary", "text": "in short", "summary_of": 3, "role": "assistant"},
                {"type": "request", "at": 8},
                {"type": "response", "request": 9, "status": "completed", "response": "bye"},
                {"type": "response", "request": 9, "status": "error", "message": "down"},
                said("secret"),
                {"type": "redaction", "target": 12, "reason": "r"},
            ],
        )
        store.append("nameless", [{"type": "transfer", "to": "a"}])
        store.rename("nameless", None)
        identity = store.conversations()[1].uuid
    connection = sqlite3.connect(f"{(tmp_path / 's.db').as_uri()}?mode=ro", uri=True)
    connection.row_factory = sqlite3.Row
    yield connection, identity
    connection.close()


def test_the_view_of_messages(plain: tuple[sqlite3.Connection, str]) -> None:
    """`messages` has a row for each message, summary and completed response, in words that people can read."""
    connection, _ = plain
    rows = [dict(row) for row in connection.execute("SELECT * FROM messages ORDER BY version")]
    told = [(row["version"], row["scope"], row["type"], row["role"], row["content"]) for row in rows]
    assert told == [
        (2, "chat", "message", "user", "hello"),
        (3, "chat", "message", "assistant", '[{"type":"own"}]'),
        (4, "chat", "message", "tool", "ok"),
        (8, "chat", "summary", "assistant", "in short"),
        (10, "chat", "response", "assistant", "bye"),
        (12, "chat", "message", "user", "[redacted]"),
    ]
    assert {row["conversation"] for row in rows} == {"call"}
    assert json.loads(rows[1]["tool_calls"]) == [{"id": "t", "name": "transfer_to_billing", "arguments": "{}"}]
    assert [row["tool_call_id"] for row in rows] == [None, None, "t", None, None, None]
    assert [row["assistant"] for row in rows] == [None, "greeter", None, None, None, None]


def test_the_view_of_handoffs(plain: tuple[sqlite3.Connection, str]) -> None:
    """`handoffs` has a row for each transfer: from whom to whom, how, why, and by which call."""
    connection, identity = plain
    columns = (
        "conversation, version, scope, from_assistant, to_assistant, mode, context, tool_call_id, inferred, reason"
    )
    rows = [tuple(row) for row in connection.execute(f"SELECT {columns} FROM handoffs ORDER BY conversation = 'call'")]
    assert rows == [
        (identity, 1, "chat", None, "a", "rolling-history", "all", None, 0, None),
        ("call", 5, "chat", "greeter", "billing", "rolling-history", "all", "t", 1, "money"),
        ("call", 6, "chat", "billing", "greeter", "delete-history", "none", None, 0, None),
        ("call", 7, "coder", "y", "x", "rolling-history", "all", None, 0, None),
    ]


def test_the_times_in_the_views(tmp_path: Path, plain: tuple[sqlite3.Connection, str]) -> None:
    """Both views give `recorded_at` as the export does, to the microsecond."""
    connection, _ = plain
    with Store(tmp_path / "s.db", read_only=True) as store:
        exact = {event.version: event.to_dict()["recorded_at"] for event in store.events("call")}
    for view in ("messages", "handoffs"):
        times = connection.execute(f"SELECT version, recorded_at FROM {view} WHERE conversation = 'call'").fetchall()
        assert {row["version"]: row["recorded_at"] for row in times}.items() <= exact.items()
        assert len(times) > 2


def test_a_backup_of_memory_that_fails_leaves_the_store_usable(tmp_path: Path) -> None:
    """What begins for the copy ends with it, so that appends are on their own again and another backup works."""

    def interrupted(left: int, total: int) -> None:
        raise KeyboardInterrupt

    with Store(":memory:") as store:
        store.append("c", [{"type": "clear"}])
        with pytest.raises(KeyboardInterrupt):
            store.backup(tmp_path / "a.db", progress=interrupted)
        assert not store.db.in_transaction
        store.append("c", [{"type": "clear"}])
        store.backup(tmp_path / "b.db")
