"""The search index is not trusted: missing, damaged or changed by others, it changes no answer, stops no erasure."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest
from click.testing import CliRunner
from test_append import recorded, said

from turnlog.cli import main
from turnlog.projections import search
from turnlog.store import Store
from turnlog.store.words import words_of

EVENTS = 40
# What makes an index useless, and what makes it another one that FTS5 has no reason to complain of.
DAMAGE = [
    "DELETE FROM search_idx",
    "DELETE FROM search_data",
    "DELETE FROM search_data WHERE id > 10",
    "DELETE FROM search_data WHERE id = 10",
    "DELETE FROM search_data WHERE id = 1",
    "UPDATE search_data SET block = zeroblob(length(block))",
    "UPDATE search_data SET block = x''",
    "UPDATE search_data SET block = 'text'",
    "UPDATE search_data SET block = randomblob(length(block))",
    "DELETE FROM search_docsize",
    "DELETE FROM search_docsize WHERE id = 1",
    "INSERT INTO search_docsize VALUES (9999, x'01')",
    "DROP TABLE search_idx",
    "DROP TABLE search_data",
    "DROP TABLE search_docsize",
    "DROP TABLE search_config",
    "UPDATE search_config SET v = 99",
    "DROP TABLE search",
    "DROP TABLE search_checkpoint",
    "DELETE FROM search_checkpoint",
    "UPDATE search_checkpoint SET position = 2",
    "UPDATE search_checkpoint SET position = 9999",
    "UPDATE search_checkpoint SET rules = 9999",
    "DROP TABLE search; CREATE TABLE search (text)",
    "DROP TABLE search; CREATE VIEW search AS SELECT 1 AS text",
    "DROP TABLE search; CREATE INDEX search ON events (id)",
    "CREATE TRIGGER changed BEFORE INSERT ON search_checkpoint BEGIN SELECT RAISE(ABORT, 'no'); END",
    "INSERT INTO search (search) VALUES ('delete-all')",
    "INSERT INTO search (search, rowid, text) VALUES ('delete', 1, 'needle 0')",
    "INSERT INTO search (rowid, text) VALUES (2, 'unicorn')",
    "INSERT INTO search (rowid, text) VALUES (9999, 'unicorn')",
]


def searched(path: Path, damage: str | None = None) -> None:
    """Make a store of forty events with an index of them all, and damage that as somebody else would."""
    with Store(path) as store:
        store.append("c", [said(f"needle {number}") for number in range(EVENTS)])
        store.index.catch_up()
        assert search(store, "needle 7")
    if damage is not None:
        with closing(sqlite3.connect(path)) as plain:
            plain.executescript(damage)


def versions(store: Store, query: str) -> list[int]:
    return sorted(found.version for found in search(store, query, limit=1000))


@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("read_only", [False, True], ids=["", "read-only"])
def test_the_answers(tmp_path: Path, damage: str, read_only: bool) -> None:
    """Whatever was done to the index, all is found and nothing else, again after an append; the log is as it was."""
    path = tmp_path / "s.db"
    searched(path, damage)
    with Store(path, read_only=read_only) as store:
        before = recorded(store)
        assert versions(store, "needle") == list(range(1, EVENTS + 1))
        assert versions(store, "unicorn") == []
        with Store(path) as other:
            other.append("c", [said("needle more")])
        assert versions(store, "needle more") == [EVENTS + 1]
        assert recorded(store)[:EVENTS] == before


@pytest.mark.parametrize("damage", DAMAGE)
def test_an_erasure(tmp_path: Path, damage: str) -> None:
    """Whatever was done to the index, an event is erased from every file, and the rest is found."""
    path = tmp_path / "s.db"
    searched(path)
    with Store(path) as store:
        store.append("c", [said("needle unicornis")])
        store.index.catch_up()
    with closing(sqlite3.connect(path)) as plain:
        plain.executescript(damage)
    with Store(path) as store:
        assert store.redact("c", [EVENTS + 1], reason="asked for").left_every_file
        assert not any(b"unicornis" in file.read_bytes() for file in tmp_path.glob("s.db*"))
        assert versions(store, "needle") == list(range(1, EVENTS + 1))
        assert store.verify().faults == []
        assert store.db.row("PRAGMA integrity_check") == ("ok",)


def test_pages_that_are_garbage(tmp_path: Path) -> None:
    """An index whose pages hold garbage is dropped by an erasure, though SQLite cannot read its tables any more."""
    path = tmp_path / "s.db"
    searched(path)
    with closing(sqlite3.connect(path)) as plain:
        size = plain.execute("PRAGMA page_size").fetchone()[0]
        roots = plain.execute(
            "SELECT rootpage FROM sqlite_schema WHERE name LIKE 'search%' AND rootpage > 0"
        ).fetchall()
        plain.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    content = bytearray(path.read_bytes())
    for (root,) in roots:
        content[(root - 1) * size : root * size] = b"\xa5" * size
    path.write_bytes(bytes(content))
    with Store(path, read_only=True) as store:
        assert versions(store, "needle") == list(range(1, EVENTS + 1))
        assert store.index.differences() != []
    with Store(path) as store:
        assert store.redact("c", [3], reason="asked for").left_every_file
        assert versions(store, "needle") == [n for n in range(1, EVENTS + 1) if n != 3]
        assert store.db.row("PRAGMA integrity_check") == ("ok",)
        assert store.verify().derived == []


class TestDifferences:
    """What `verify` says of an index that does not agree with the log."""

    @pytest.fixture
    def path(self, tmp_path: Path) -> Path:
        searched(tmp_path / "s.db")
        return tmp_path / "s.db"

    @staticmethod
    def differences(path: Path, change: Callable[[sqlite3.Connection], object]) -> list[str]:
        """Return what differs once the index was changed by somebody who knows how to cover it up."""
        with closing(sqlite3.connect(path, isolation_level=None)) as plain:
            change(plain)
            plain.execute("UPDATE search_checkpoint SET seal = NULL")
        with Store(path, read_only=True) as store:
            found = store.index.differences()
            assert store.verify().derived == found
            assert store.verify().faults == []
        with Store(path) as store:
            assert store.verify().derived == found
        return [each.removeprefix("search index: ") for each in found]

    def test_an_index_that_agrees(self, path: Path) -> None:
        """An index that agrees with the log, is behind it, or is not there, has no differences."""
        with Store(path) as store:
            store.append("c", [said("more"), {"type": "clear"}])
            assert store.index.differences() == []
            store.index.catch_up()
            store.append("c", [said("東京 e\u0301cole \0 x")])
            store.index.catch_up()
            assert store.index.differences() == []
            store.redact("c", [2], reason="r")
            assert store.verify().derived == []
            assert search(store, "needle")
            assert store.verify().derived == []
            assert store.db.rows("SELECT name FROM temp.sqlite_schema WHERE name LIKE '%search%'") == []

    def test_in_memory(self) -> None:
        """A store in memory is compared too, also inside of a transaction."""
        with Store(":memory:") as store:
            store.append("c", [said("needle")])
            store.index.catch_up()
            assert store.index.differences() == []
            with store.transaction():
                store.append("c", [said("needle")])
                store.index.catch_up()
                assert store.index.differences() == []
            store.db.write("INSERT INTO search (rowid, text) VALUES (2, 'unicorn')")
            assert store.index.differences() != []

    def test_a_missing_row(self, path: Path) -> None:
        """An event that the index has not is named by its position."""
        delete = "INSERT INTO search (search, rowid, text) VALUES ('delete', 3, 'needle 2')"
        assert self.differences(path, lambda plain: plain.execute(delete)) == ["the event of position 3 is missing"]

    def test_an_extra_row(self, path: Path) -> None:
        """A row of an event that says nothing is named by its position."""
        with Store(path) as store:
            store.append("c", [{"type": "clear"}, said("needle")])
            store.index.catch_up()
        insert = f"INSERT INTO search (rowid, text) VALUES ({EVENTS + 1}, 'unicorn')"
        found = self.differences(path, lambda plain: plain.execute(insert))
        assert found == [f"the event of position {EVENTS + 1} is in it, and says nothing"]

    def test_other_words(self, path: Path) -> None:
        """Words in another number are named by their event; others in the same number are noticed."""

        def change(plain: sqlite3.Connection, text: str) -> None:
            plain.execute("INSERT INTO search (search, rowid, text) VALUES ('delete', 3, 'needle 2')")
            plain.execute("INSERT INTO search (rowid, text) VALUES (3, ?)", (text,))

        found = self.differences(path, lambda plain: change(plain, "needle 2 unicorn"))
        assert found == ["the event of position 3 has another number of words"]

    def test_a_word_in_the_place_of_another(self, path: Path) -> None:
        """A word that takes the place of another is noticed, and so are two events that change places."""

        def change(plain: sqlite3.Connection, texts: dict[int, str]) -> None:
            for position, text in texts.items():
                old = f"needle {position - 1}"
                plain.execute("INSERT INTO search (search, rowid, text) VALUES ('delete', ?, ?)", (position, old))
                plain.execute("INSERT INTO search (rowid, text) VALUES (?, ?)", (position, text))

        for texts in ({3: "needle 3"}, {3: "needle 3", 4: "needle 2"}, {3: "2 needle"}):
            found = self.differences(path, partial(change, texts=texts))
            assert found == ["its words are not those of the log"]
            with Store(path) as store:
                store.index.rebuild(lambda done, total: None)

    def test_many(self, path: Path) -> None:
        """Of many differences the first ten are named, and the others are counted."""

        def change(plain: sqlite3.Connection) -> None:
            for position in range(1, 31):
                text = f"needle {position - 1}"
                plain.execute("INSERT INTO search (search, rowid, text) VALUES ('delete', ?, ?)", (position, text))

        found = self.differences(path, change)
        assert (len(found), found[9], found[10]) == (11, "the event of position 10 is missing", "and 20 more")

    @pytest.mark.parametrize("damage", ["UPDATE search_data SET block = randomblob(9)", "DROP TABLE search_docsize"])
    def test_an_index_that_cannot_be_read(self, path: Path, damage: str) -> None:
        """A damaged index is a note of one line, and never an error."""
        with closing(sqlite3.connect(path)) as plain:
            plain.executescript(damage)
        with Store(path) as store:
            (note,) = store.verify().derived
            assert note.startswith("search index: ")
            assert "\n" not in note

    def test_the_command(self, path: Path) -> None:
        """`verify` prints what differs on a line that begins with `derived: `, says so, and ends with 1."""
        with closing(sqlite3.connect(path)) as plain:
            plain.executescript("INSERT INTO search (rowid, text) VALUES (2, 'unicorn')")
        done = CliRunner().invoke(main, [f"--db={path}", "verify"], catch_exceptions=False)
        assert done.exit_code == 1
        first, last = done.stdout.splitlines()
        assert first == "derived: search index: is damaged or another build's, and is made again when it is used"
        differs = "what is derived from it differs (`turnlog rebuild` makes it again)"
        assert last == f"{EVENTS} events of 1 conversation: no fault in the log, but {differs}"


def test_words_of_a_damaged_body() -> None:
    """A body that is no JSON, or no object, says nothing; one that is nested too deeply is taken as it is."""
    assert words_of("{") == words_of("[]") == words_of('{"content": 5}') == ""
    deep = '{"content":' + "[" * 5000
    assert words_of(deep) in ("", deep)
