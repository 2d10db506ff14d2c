"""Verify believes no table, index, trigger or view: what is missing, changed or foreign is named."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner
from test_append import said
from test_verify import fill

from turnlog.cli import main
from turnlog.projections import differences, rebuild, search, timeline
from turnlog.store import Fault, Store, Verified
from turnlog.store.migrations import SCHEMA
from turnlog.store.spans.rows import TABLES

DERIVED = [*TABLES, "search", "search_checkpoint"]


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with forks and redactions, whose timelines and search index are there."""
    path: Path = tmp_path_factory.mktemp("schema") / "template.db"
    with Store(path) as store:
        fill(store)
        store.append("two", [said("needle")])
        assert search(store, "needle")
        assert timeline(store, "one").line(store.version("one")).is_stored
    return path


@pytest.fixture
def path(template: Path, tmp_path: Path) -> Path:
    copy = tmp_path / "s.db"
    copy.write_bytes(template.read_bytes())
    return copy


def verified(path: Path) -> Verified:
    with Store(path, read_only=True) as store:
        return store.verify(derived=lambda: differences(store))


def changed(path: Path, script: str) -> list[str]:
    """What verify finds wrong with the store as a whole once a script was run on its file."""
    with closing(sqlite3.connect(path, isolation_level=None)) as plain:
        plain.executescript(script)
    found = verified(path)
    assert all((fault.conversation, fault.version) == (None, None) for fault in found.faults)
    return [fault.why for fault in found.faults]


def objects() -> list[tuple[str, str, str, str]]:
    """The kind, name, table and text of each object of a new store that has a text of its own."""
    with Store(":memory:") as store:
        rows = store.db.rows("SELECT type, name, tbl_name, sql FROM sqlite_schema WHERE sql IS NOT NULL")
    return [row for row in rows if row[2] != "_sqlite_migrations"]


OBJECTS = {f"{kind} {name}": (kind, name, table, text) for kind, name, table, text in objects()}
DROPPABLE = {key: found for key, found in OBJECTS.items() if found[0] != "table"}


def test_nothing_is_found(path: Path) -> None:
    """A store that was written to, forked, redacted, projected and searched has every object as it was made."""
    assert verified(path) == Verified(conversations=4, events=18)


def test_every_statement_of_the_schema_is_tried() -> None:
    """What follows tries each object that schema.sql makes."""
    statements = [line for line in SCHEMA.read_text(encoding="utf-8").splitlines() if line.startswith("CREATE ")]
    assert len(OBJECTS) == len(statements) > 30


@pytest.mark.parametrize(("kind", "name", "table", "text"), DROPPABLE.values(), ids=list(DROPPABLE))
def test_missing(path: Path, kind: str, name: str, table: str, text: str) -> None:
    """An index, trigger or view that was dropped is named, and nothing else is."""
    assert changed(path, f"DROP {kind} {name}") == [f"the {kind} {name} is missing"]


@pytest.mark.parametrize(("kind", "name", "table", "text"), DROPPABLE.values(), ids=list(DROPPABLE))
def test_changed(path: Path, kind: str, name: str, table: str, text: str) -> None:
    """An index, trigger or view that is made in another way is named, also if only a comment is another."""
    found = changed(path, f"DROP {kind} {name}; {text.replace(f' {name}', f' {name} /**/', 1)}")
    assert found == [f"the {kind} {name} is not as it was made"]


@pytest.mark.parametrize(
    ("kind", "name", "script"),
    [
        ("table", "copies", "CREATE TABLE copies (body)"),
        ("index", "mine", "CREATE INDEX mine ON events (frame)"),
        ("index", "mine", "CREATE INDEX mine ON spans (line)"),
        ("view", "all_events", "CREATE VIEW all_events AS SELECT * FROM events"),
        ("trigger", "z", "CREATE TRIGGER z BEFORE INSERT ON events BEGIN SELECT RAISE(IGNORE); END"),
        ("trigger", "search", "CREATE TRIGGER search BEFORE INSERT ON events BEGIN SELECT RAISE(IGNORE); END"),
        ("trigger", "z", "CREATE TRIGGER z AFTER INSERT ON spans BEGIN DELETE FROM spans; END"),
        ("trigger", "z", "CREATE TRIGGER z AFTER UPDATE ON search_checkpoint BEGIN SELECT 1; END"),
        ("trigger", "z", "CREATE TRIGGER z INSTEAD OF INSERT ON messages BEGIN SELECT 1; END"),
        ("trigger", "z", "CREATE TRIGGER z AFTER INSERT ON _sqlite_migrations BEGIN SELECT 1; END"),
    ],
)
def test_foreign(path: Path, kind: str, name: str, script: str) -> None:
    """A table, index, view or trigger that turnlog does not make is named, whatever it is on."""
    assert changed(path, script) == [f"the {kind} '{name}' is not one of turnlog's"]


@pytest.mark.parametrize(
    ("table", "old", "new"),
    [
        ("conversations", "CHECK ((parent IS NULL) = (forked_at IS NULL))", "CHECK (1)"),
        ("events", "CHECK (position > 0)", ""),
        ("events", ") STRICT", ")"),
        ("spans", "form INTEGER NOT NULL", "form INTEGER"),
    ],
)
def test_a_table_declared_otherwise(path: Path, table: str, old: str, new: str) -> None:
    """A table whose declaration was rewritten in place is named, though its rows are the same."""
    script = (
        "PRAGMA writable_schema = ON;"
        f"UPDATE sqlite_schema SET sql = replace(sql, '{old}', '{new}') WHERE name = '{table}';"
        "PRAGMA writable_schema = RESET"
    )
    assert f"the table {table} is not as it was made" in changed(path, script)


def test_an_index_rebuilt_without_rows(path: Path) -> None:
    """An index made anew without the redactions, its text put back, is found out: each row is looked up in it."""
    with closing(sqlite3.connect(path, isolation_level=None)) as plain:
        (text,) = plain.execute("SELECT sql FROM sqlite_schema WHERE name = 'events_by_type'").fetchone()
        plain.execute("DROP INDEX events_by_type")
        plain.execute(text.replace("WHERE", "WHERE type <> 'redaction' AND (") + ")")
        plain.execute("PRAGMA writable_schema = ON")
        plain.execute("UPDATE sqlite_schema SET sql = ? WHERE name = 'events_by_type'", (text,))
    found = verified(path).faults
    assert found
    assert all("events_by_type" in fault.why for fault in found)


@pytest.mark.parametrize("name", [name for kind, name, *_ in OBJECTS.values() if kind == "index"])
def test_an_index_with_a_damaged_page(path: Path, name: str) -> None:
    """A flipped bit in the entries of an index is named: a row is missing from it, or its page cannot be read."""
    with closing(sqlite3.connect(path)) as plain:
        plain.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        (size,) = plain.execute("PRAGMA page_size").fetchone()
        (root,) = plain.execute("SELECT rootpage FROM sqlite_schema WHERE name = ?", (name,)).fetchone()
    content = bytearray(path.read_bytes())
    page = content[(root - 1) * size : root * size]
    cells, start = int.from_bytes(page[3:5], "big"), int.from_bytes(page[5:7], "big") or size
    if not cells:
        return  # Nothing in this store is in it.
    # The last bytes of the page are those of the first row that was indexed: its number, its keys before it.
    assert start < size
    content[root * size - 1] ^= 1
    path.write_bytes(bytes(content))
    assert any(name in fault.why or "malformed" in fault.why or "page" in fault.why for fault in verified(path).faults)


class TestWhatIsNoFault:
    def test_what_is_derived_was_dropped(self, path: Path) -> None:
        """Timelines and the search index may be dropped, together or one table alone: they are made again."""
        for name in (*DERIVED, None):
            tables = DERIVED if name is None else [name]
            script = "".join(f"DROP TABLE IF EXISTS {table};" for table in tables)
            assert changed(path, script) == []
        with Store(path) as store:
            rebuild(store)
        assert verified(path) == Verified(conversations=4, events=18)

    def test_it_was_analyzed(self, path: Path) -> None:
        """What ANALYZE writes says how to look for rows, never which there are: it is no fault."""
        assert changed(path, "ANALYZE") == []

    def test_rebuilt(self, path: Path) -> None:
        """Tables that `rebuild` made again have the text that a new store's have."""
        with Store(path) as store:
            rebuild(store)
        assert verified(path).faults == []


def test_a_name_that_commands_a_terminal(path: Path) -> None:
    """A foreign object's name is told on one line, and a terminal does not obey it."""
    with closing(sqlite3.connect(path)) as plain:
        plain.execute('CREATE TABLE "\x1b[31m\nred" (a)')
    done = CliRunner().invoke(main, [f"--db={path}", "verify"], catch_exceptions=False)
    assert done.exit_code == 1
    assert len(done.stdout.splitlines()) == 2
    assert "\x1b" not in done.stdout


def test_damage_hides_no_other(path: Path) -> None:
    """What is damaged so that it cannot be read is a fault, and what can be read is verified all the same."""
    with closing(sqlite3.connect(path, isolation_level=None)) as plain:
        plain.execute("DROP VIEW messages")
        plain.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        (size,) = plain.execute("PRAGMA page_size").fetchone()
        (root,) = plain.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'events_by_version'").fetchone()
    content = bytearray(path.read_bytes())
    content[(root - 1) * size : root * size] = b"\xa5" * size
    path.write_bytes(bytes(content))
    faults = verified(path).faults
    assert Fault(None, None, "the view messages is missing") in faults
    assert any("malformed" in fault.why for fault in faults)


class TestCost:
    """What verify costs grows with the store, whatever it is made of: counted in steps of SQLite's machine."""

    @staticmethod
    def steps(path: Path, monkeypatch: pytest.MonkeyPatch) -> int:
        count = 0

        def counting(*arguments: object, **options: object) -> sqlite3.Connection:
            nonlocal count
            connection = connect(*arguments, **options)

            def step() -> int:
                nonlocal count
                count += 1
                return 0

            connection.set_progress_handler(step, 100)
            return connection

        connect: Callable[..., sqlite3.Connection] = sqlite3.connect
        with monkeypatch.context() as patch:
            patch.setattr(sqlite3, "connect", counting)
            assert verified(path).faults == []
        return count

    def test_conversations(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Four times as many conversations, half of them forks, and some redacted, take four times as many steps."""
        counts = []
        for size in (50, 200):
            path = tmp_path / f"{size}.db"
            with Store(path, durability="normal") as store, store.transaction():
                for number in range(size):
                    store.append(f"c{number}", [said("a"), {"type": "transfer", "to": "b"}, said("b")])
                    store.fork(f"c{number}", 2, f"f{number}")
                    store.append(f"f{number}", [said("c")])
                    timeline(store, f"f{number}").at()
                store.redact("c1", [1], reason="r")
            counts.append(self.steps(path, monkeypatch))
        assert counts[1] < 5 * counts[0]

    def test_forks_of_one(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """So do four times as many forks of one conversation."""
        counts = []
        for size in (50, 200):
            path = tmp_path / f"{size}.db"
            with Store(path, durability="normal") as store, store.transaction():
                store.append("c", [said("a"), said("b")])
                for number in range(size):
                    store.fork("c", 2, f"f{number}")
            counts.append(self.steps(path, monkeypatch))
        assert counts[1] < 5 * counts[0]
