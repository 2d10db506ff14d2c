"""Erasing depends on nothing that is derived from the log, whatever state that is in and however often it is done."""

from __future__ import annotations

import random
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from test_append import said
from test_redaction import SECRET, files_with

from turnlog.projections import differences, history, search
from turnlog.store import Store, Verified


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where a store is made that tells the secret in two conversations."""
    path = tmp_path / "s.db"
    with Store(path, durability="normal") as store:
        store.append("one", [said("so far"), said(SECRET), said("and on")])
        store.append("two", [said(SECRET), said("filler " * 2000)])
    return path


def damaged(path: Path, tables: str) -> None:
    """Fill the pages where tables and their indexes begin with garbage."""
    with closing(sqlite3.connect(path)) as plain:
        size = plain.execute("PRAGMA page_size").fetchone()[0]
        roots = plain.execute("SELECT rootpage FROM sqlite_schema WHERE tbl_name LIKE ? AND rootpage > 0", (tables,))
        content = [root for (root,) in roots.fetchall()]
        plain.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    data = bytearray(path.read_bytes())
    assert content
    for root in content:
        data[(root - 1) * size : root * size] = b"\xa5" * size
    path.write_bytes(bytes(data))


class TestDamage:
    """Erasing depends on nothing that is derived from the log."""

    @pytest.mark.parametrize("tables", ["spans", "timelines", "blocks", "search_data", "search_docsize"])
    @pytest.mark.parametrize("erases", ["redact", "erase", "redaction"])
    def test_garbage_in_what_is_derived(self, path: Path, tables: str, erases: str) -> None:
        """Timelines and an index whose pages are garbage are thrown away, and made again when they are used."""
        with Store(path) as store:
            store.redact("two", [1], reason="asked for")
            store.index.catch_up()
            before = [message.content for message in history(store, "two").messages]
        damaged(path, tables)
        with Store(path) as store:
            if erases == "redact":
                assert store.redact("one", [2], reason="asked for").left_every_file
            elif erases == "erase":
                assert store.erase("one").left_every_file
            else:
                store.append("one", [{"type": "redaction", "target": 2, "reason": "asked for"}])
                assert store.erasure_due() is None
            assert files_with(path, SECRET) == []
            assert store.db.row("PRAGMA integrity_check") == ("ok",)
            assert [message.content for message in history(store, "two").messages] == before
            assert [found.version for found in search(store, "filler")] == [2]
            assert store.verify().faults == []
            assert list(differences(store)) == []

    @pytest.mark.parametrize("tables", ["spans", "timelines", "counts", "search", "search_checkpoint"])
    def test_what_is_derived_is_missing(self, path: Path, tables: str) -> None:
        """A store without a table of timelines or of the index can be redacted in."""
        with Store(path) as store:
            store.redact("two", [1], reason="asked for")
            store.index.catch_up()
            assert history(store, "one")
        with closing(sqlite3.connect(path)) as plain:
            plain.execute(f"DROP TABLE {tables}")
        with Store(path) as store:
            assert store.redact("one", [2], reason="asked for").left_every_file
            assert files_with(path, SECRET) == []
            assert [message.content for message in history(store, "one").messages][1] == "[redacted]"
            assert [found.version for found in search(store, "filler")] == [2]

    def test_garbage_in_the_log(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Where pages of the log itself are garbage, the redaction says that the file cannot be written anew."""
        monkeypatch.setattr("turnlog.store.erasure._PATIENCE", 0.0)
        with Store(path, durability="normal") as store:
            store.append("large", [said(f"filler {number} " * 200) for number in range(200)])
        with closing(sqlite3.connect(path)) as plain:
            size = plain.execute("PRAGMA page_size").fetchone()[0]
            plain.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        data = bytearray(path.read_bytes())
        at = data.index(b"filler 150 ") // size * size
        data[at : at + size] = b"\xa5" * size
        path.write_bytes(bytes(data))
        with Store(path) as store:
            done = store.redact("one", [2], reason="asked for")
            assert "the file is damaged" in str(done.held_up_by)
            assert store.event("one", 2).redacted


def test_beside_timelines_in_memory(path: Path) -> None:
    """Timelines that a connection has in memory, those of what-ifs, do not keep the file from being written anew."""
    with Store(path) as store:
        store.append("two", [{"type": "transfer", "to": "b"}, said("further")])
        assert history(store, "two", mode="delete-history").messages
        assert [store.redact("two", [1], reason="r").held_up_by, store.erase("one").held_up_by] == [None, None]
        assert len(history(store, "two", mode="delete-history").messages) == 1
        assert files_with(path, SECRET) == []


def test_a_copy_of_a_store_in_memory(tmp_path: Path) -> None:
    """A store in memory has no file to be written anew; a backup of it has nothing of what was erased."""
    with Store(":memory:") as store:
        store.append("c", [said(f"{SECRET}{number} " + "filler " * number) for number in range(100)])
        store.rename("c", SECRET)
        assert store.erase(SECRET).left_every_file
        assert store.erasure_due() is None
        store.backup(tmp_path / "copy")
    assert files_with(tmp_path / "copy", SECRET) == []
    with Store(tmp_path / "copy", read_only=True) as copy:
        assert copy.erasure_due() is None
        assert copy.verify().faults == []


def test_many_single_redactions(tmp_path: Path) -> None:
    """A store that is searched and read between one redaction and the next goes on to be sound, and does not grow."""
    path, count = tmp_path / "s.db", 120
    with Store(path, durability="normal") as store:
        store.append("c", [said(f"needle word{number}z " + "filler " * (number % 40)) for number in range(count)])
        assert len(search(store, "needle", limit=count)) == len(history(store, "c").messages) == count
        size = sum(file.stat().st_size for file in tmp_path.iterdir())
        for number in random.Random(0).sample(range(count), count):
            assert store.redact("c", [number + 1], reason="r").left_every_file
            assert sum(file.stat().st_size for file in tmp_path.iterdir()) <= size
            assert search(store, f"word{number}z") == []
            assert history(store, "c").messages[number].content == "[redacted]"
        assert files_with(path, *(f"word{number}z" for number in range(count))) == []
        assert store.verify(derived=lambda: differences(store)) == Verified(1, 2 * count)
        assert store.db.row("PRAGMA integrity_check") == ("ok",)
