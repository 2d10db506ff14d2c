"""Redaction and erasure to the byte: what was said is in none of the store's files any more (DESIGN section 7)."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from test_append import recorded, said

from turnlog.cli import main
from turnlog.projections import history, search
from turnlog.store import Store, line_of, read_line
from turnlog.store.database import Database

SECRET = "Quecksilberzauber"
PARTS = [{"type": "text", "text": SECRET}, {"type": "image", "url": SECRET}]
CALLS = [{"id": "t1", "name": "f", "arguments": SECRET}]
ASIDE = {"meta": {SECRET: SECRET}, "extra": {"x": [SECRET]}, "actor": SECRET}
TELLING: dict[str, dict[str, Any]] = {
    "describe": {"title": SECRET, "metadata": {SECRET: SECRET}},
    "assistant": {"assistant": "b", "system": SECRET, "tools": [{"name": "f", "about": SECRET}], "model": SECRET},
    "message": {"role": "assistant", "content": PARTS, "tool_calls": CALLS, "name": SECRET},
    "transfer": {"to": "b", "system": SECRET, "message": SECRET, "first_message": SECRET, "reason": SECRET},
    "summary": {"text": SECRET, "summary_of": 1, "method": SECRET},
    "request": {"at": 1, "model": SECRET, "parameters": {"stop": SECRET}},
    "response": {"request": 2, "status": "completed", "response": PARTS, "tool_calls": CALLS, "finish_reason": SECRET},
    "clear": {},
    "rewind": {"to": 1, "note": SECRET},
    "redaction": {"target": 1, "reason": SECRET, "replacement": SECRET},
    "x:mark": {"deep": {"deeper": [SECRET]}},
}


def files_with(path: Path, *words: str) -> list[str]:
    """The words that are in any file of the store, each with the file."""
    found = []
    for file in sorted(path.parent.glob(path.name + "*")):
        data = file.read_bytes()
        found += [f"{word} in {file.name}" for word in words if word.encode() in data]
    return found


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where a store is made that tells the secret in every type of event, each in a conversation of its own."""
    path = tmp_path / "s.db"
    with Store(path, durability="normal") as store:
        for type_, fields in TELLING.items():
            opening = [said("so far"), {"type": "request", "at": 1}]
            store.append(type_, [*opening, {"type": type_} | fields | ASIDE, said("and on")])
    return path


def by_redact(store: Store, conversation: str) -> None:
    assert store.redact(conversation, [3], reason="asked for").left_every_file


def by_append(store: Store, conversation: str) -> None:
    store.append(conversation, [said(), {"type": "redaction", "target": 3, "reason": "asked for"}, said()])


def by_erase(store: Store, conversation: str) -> None:
    assert store.erase(conversation).left_every_file


def by_restore(store: Store, conversation: str) -> None:
    """A copy of the store redacts, and its export is restored here."""
    with Store(":memory:") as other:
        other.restore(read_line(line_of(event)) for event in store.events(conversation))
        other.append(store.stream(conversation).uuid, [{"type": "redaction", "target": 3, "reason": "asked for"}])
        lines = [line_of(event) for event in other.events(store.stream(conversation).uuid)]
    store.restore(map(read_line, lines))


def in_a_transaction(store: Store, conversation: str) -> None:
    with store.transaction():
        store.append("another", [said()])
        store.redact(conversation, [3], reason="asked for")
        store.append("another", [said()])


@pytest.mark.parametrize("indexed", [False, True], ids=["not indexed", "indexed"])
@pytest.mark.parametrize("erases", [by_redact, by_append, by_erase, by_restore, in_a_transaction])
def test_nothing_is_left_in_any_file(path: Path, erases: Callable[[Store, str], None], indexed: bool) -> None:
    """However an event of whatever type is erased, what it said is in no file of the store, open or closed."""
    with Store(path) as store:
        if indexed:
            store.index.catch_up()
            assert search(store, SECRET)
        assert files_with(path, SECRET)
        for conversation in TELLING:
            erases(store, conversation)
        assert files_with(path, SECRET) == []
        assert store.verify().faults == []
        assert search(store, SECRET) == []
        assert store.index.rebuild() > 0
        assert search(store, SECRET) == []
    assert files_with(path, SECRET) == []


def test_indexed_and_redacted_at_once(path: Path) -> None:
    """An event that is taken into the search index and redacted in one transaction leaves nothing in either."""
    with Store(path) as store:
        with store.transaction():
            store.index.catch_up()
            for conversation in TELLING:
                store.redact(conversation, [3], reason="asked for")
        assert files_with(path, SECRET) == []


class TestRewrite:
    """The rewrite of the file that a redaction asks for, where the process that redacts does not come to it."""

    @staticmethod
    def due(path: Path) -> bool:
        with closing(sqlite3.connect(path)) as plain:
            return bool(plain.execute("PRAGMA user_version").fetchone()[0] % 2)

    @staticmethod
    @contextmanager
    def ending(path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
        """A store whose process ends before it rewrites the file."""
        with Store(path) as store, monkeypatch.context() as patched:
            patched.setattr(Database, "_rewrite", lambda self: False)
            yield store

    def test_the_next_one_to_open_it_does_it(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """The file says that it is due; reading changes nothing, and the first write of another process sees to it."""
        with self.ending(path, monkeypatch) as store:
            for conversation in TELLING:
                assert not store.redact(conversation, [3], reason="asked for").left_every_file
        assert self.due(path)
        with Store(path, read_only=True) as store:
            assert store.version("clear") == 5
        assert self.due(path)
        with Store(path) as store:
            store.append("another", [said()])
        assert not self.due(path)
        assert files_with(path, SECRET) == []

    def test_after_a_part_that_was_undone(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """What a part of a transaction erased and took back does not hide what another part erased."""
        with self.ending(path, monkeypatch) as store, store.transaction():
            with suppress(KeyError), store.transaction():
                store.redact("message", [3], reason="asked for")
                raise KeyError
            assert store.event("message", 3).body_text is not None
            store.redact("message", [1], reason="asked for")
        assert self.due(path)

    def test_not_before_the_reader_has_gone(self, path: Path) -> None:
        """While somebody's reading keeps the erased bytes in the WAL, the file says that it is due."""
        with Store(path) as store, closing(sqlite3.connect(path, isolation_level=None)) as reader:
            reader.execute("BEGIN")
            reader.execute("SELECT count(*) FROM events").fetchone()
            assert not store.redact("message", [3], reason="asked for").left_every_file
            assert self.due(path)
            reader.execute("COMMIT")
            store.append("another", [said()])
            assert not self.due(path)

    def test_a_lock_that_is_not_had_for_it(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """What was committed is no error because the mark could not be taken off: that is left to the next write."""
        seen_to = Database._seen_to

        def locked_out(database: Database) -> None:
            with closing(sqlite3.connect(path, isolation_level=None)) as other:
                other.execute("BEGIN IMMEDIATE")
                seen_to(database)

        with Store(path) as store:
            with monkeypatch.context() as patched:
                patched.setattr(Database, "_seen_to", locked_out)
                store.redact("message", [3], reason="asked for")
            assert self.due(path)
            store.append("another", [said()])
            assert not self.due(path)

    def test_what_another_did_not_come_to_is_seen_to(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """A redaction by a store that was open all the while does what a process that has ended left undone."""
        with Store(path) as store:
            assert store.version("message") == 4
            with self.ending(path, monkeypatch) as other:
                for conversation in TELLING:
                    other.redact(conversation, [3], reason="asked for")
            assert store.redact("message", [3], reason="again").left_every_file
            assert files_with(path, SECRET) == []

    def test_another_s_redaction_is_not_taken_for_one_s_own(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """What another process erases between the rewrite and the mark's going stays due."""
        seen_to = Database._seen_to

        def late(database: Database) -> None:
            with self.ending(path, monkeypatch) as other:
                other.redact("transfer", [3], reason="asked for")
            seen_to(database)

        with Store(path) as store:
            with monkeypatch.context() as patched:
                patched.setattr(Database, "_seen_to", late)
                store.redact("message", [3], reason="asked for")
            assert self.due(path)


@pytest.mark.parametrize("size", [1, 300, 30_000])
@pytest.mark.parametrize("indexed", [False, True], ids=["not indexed", "indexed"])
def test_large_bodies(path: Path, size: int, indexed: bool) -> None:
    """Of a body that fills many pages of the file nothing is left, wherever in it the words stood."""
    words = [f"{SECRET}{number}" for number in range(size)]
    with Store(path) as store:
        version = store.append("large", [said(" ".join(words))]).last
        store.append("large", [said("small")])
        if indexed:
            store.index.catch_up()
        assert store.redact("large", [version], reason="asked for").left_every_file
        # Each in turn would be slow: they all begin alike, and nothing else in the store does so after this.
        for conversation in TELLING:
            store.redact(conversation, [3], reason="asked for")
        assert files_with(path, SECRET) == []


@pytest.mark.parametrize("at_once", [True, False], ids=["at once", "ten by ten"])
@pytest.mark.parametrize("indexed", [False, True], ids=["not indexed", "indexed"])
@pytest.mark.parametrize("length", [5, 60])
def test_many_events(tmp_path: Path, length: int, indexed: bool, at_once: bool) -> None:
    """Where rows moved between pages as others went, no copy is left of what was redacted."""
    chance = random.Random(0)
    path = tmp_path / "s.db"
    with Store(path, durability="normal") as store:
        store.append("c", [said(f"word{n}z " + "filler " * chance.randint(0, length)) for n in range(1, 301)])
        if indexed:
            store.index.catch_up()
        versions = sorted(chance.sample(range(1, 301), 270))
        for part in [versions] if at_once else [versions[n : n + 10] for n in range(0, len(versions), 10)]:
            assert store.redact("c", part, reason="asked for").left_every_file
        assert files_with(path, *(f"word{version}z" for version in versions)) == []
        stay = [version for version in range(1, 301) if version not in versions]
        assert [event.version for event in store.events("c", last=300) if not event.redacted] == stay
        assert store.verify().faults == []
    assert files_with(path, *(f"word{version}z" for version in versions)) == []


class TestReaders:
    """A reader that holds an old state of the store keeps its bytes in the WAL; the redaction says so."""

    @pytest.fixture
    def store(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
        monkeypatch.setattr("turnlog.store.database._WAL_PATIENCE", 0.0)
        with Store(path) as store:
            for conversation in TELLING:
                if conversation != "message":
                    store.redact(conversation, [3], reason="asked for")
            yield store

    @staticmethod
    def reader(path: Path, mode: str = "rw") -> closing[sqlite3.Connection]:
        """A connection that goes on reading."""
        plain = sqlite3.connect(f"{path.as_uri()}?mode={mode}", uri=True, isolation_level=None)
        plain.execute("BEGIN")
        assert plain.execute("SELECT count(*) FROM events").fetchone()[0]
        return closing(plain)

    def test_while_it_reads_and_after(self, path: Path, store: Store) -> None:
        """What a reader holds up is told, is erased for everybody at once, and is gone once the reader is."""
        with self.reader(path) as plain:
            assert store.redact("message", [3], reason="asked for").left_every_file is False
            assert history(store, "message").messages[1].content == "[redacted]"
            assert search(store, SECRET) == []
            assert files_with(path, SECRET)
            plain.execute("COMMIT")
        store.append("message", [said("the next write")])
        assert files_with(path, SECRET) == []

    def test_a_reader_that_closes_first(self, path: Path, store: Store) -> None:
        """Once the reader and the store are closed, the words are gone."""
        with self.reader(path, "ro"):
            assert store.redact("message", [3], reason="asked for").left_every_file is False
        store.close()
        assert files_with(path, SECRET) == []

    def test_a_reader_that_closes_last(self, path: Path, store: Store) -> None:
        """Once the store and then the reader are closed, the words are gone."""
        with self.reader(path):
            assert store.redact("message", [3], reason="asked for").left_every_file is False
            store.close()
        assert files_with(path, SECRET) == []

    def test_a_reader_that_may_not_write_and_closes_last(self, path: Path, store: Store) -> None:
        """A reader that may not write cannot end the WAL when it closes last; the store that is opened next does."""
        with self.reader(path, "ro"):
            assert store.redact("message", [3], reason="asked for").left_every_file is False
            store.close()
        with Store(path) as another:
            assert another.verify().faults == []
        assert files_with(path, SECRET) == []

    def test_what_it_costs_meanwhile(self, path: Path, store: Store) -> None:
        """While a reader holds the bytes, further writes do not each write the store anew."""
        store.append("large", [said("filler " * 100)] * 1000)
        with self.reader(path):
            assert store.redact("message", [3], reason="asked for").left_every_file is False
            log = path.with_name(path.name + "-wal")
            before = log.stat().st_size
            size = store.db.rows("SELECT page_count * page_size FROM pragma_page_count, pragma_page_size")[0][0]
            for _ in range(5):
                store.append("small", [said("x")])
            assert log.stat().st_size - before < size

    def test_a_reader_that_came_later(self, path: Path, store: Store) -> None:
        """A reader of the erased state, or one that does not read just then, holds nothing up."""
        with closing(sqlite3.connect(path)) as idle:
            assert idle.execute("SELECT count(*) FROM events").fetchone()
            assert store.redact("message", [3], reason="asked for").left_every_file
        assert files_with(path, SECRET) == []

    def test_on_the_command_line(self, path: Path, store: Store) -> None:
        """`redact` says on standard error that a reader keeps the bytes."""
        with self.reader(path):
            told = CliRunner().invoke(main, [f"--db={path}", "redact", "message", "3", "--reason=asked for"])
        assert told.exit_code == 0
        assert "reader" in told.stderr


class TestErase:
    NAME = "Ottilie Zwickelmann"

    @pytest.mark.parametrize("rest", [[], [{"type": "clear"}], [said(SECRET)]], ids=["nothing", "no text", "text"])
    def test_the_name_leaves_the_files(self, tmp_path: Path, rest: list[dict[str, Any]]) -> None:
        """The name of an erased conversation is in no file, whether or not it had anything else to erase."""
        path = tmp_path / "s.db"
        with Store(path) as store:
            store.append(self.NAME, [{"type": "clear"}, *rest])
            assert files_with(path, self.NAME)
            assert store.erase(self.NAME).left_every_file
            assert files_with(path, self.NAME, SECRET) == []

    def test_an_earlier_name_too(self, tmp_path: Path) -> None:
        """A name that was changed before the conversation was erased is in no file, either."""
        path = tmp_path / "s.db"
        with Store(path) as store:
            owner = store.append(self.NAME, [said(SECRET)]).conversation
            store.rename(self.NAME, "another")
            store.erase(owner)
            assert files_with(path, self.NAME, SECRET, "another") == []

    def test_many_names(self, tmp_path: Path) -> None:
        """Of hundreds of conversations erased, no name is left where the index of names had it."""
        names = [f"{self.NAME} {random.Random(number).random():.9f} {number}" for number in range(200)]
        path = tmp_path / "s.db"
        with Store(path, durability="normal") as store:
            for name in names:
                store.append(name, [said(SECRET)])
            with store.transaction():
                for name in names[:180]:
                    store.erase(name)
            assert files_with(path, *names[:180]) == []
            assert len(store.conversations()) == len(names)


EXPORTS = ("events", "openai", "chatcli")


@pytest.mark.parametrize("form", EXPORTS)
@pytest.mark.parametrize("replacement", [None, "", "someone"])
def test_exports_hold_no_word(path: Path, form: str, replacement: str | None) -> None:
    """No export after a redaction holds what was redacted, and what else was said is in it."""
    with Store(path) as store:
        for conversation in TELLING:
            store.redact(conversation, [3], reason="asked for", replacement=replacement)
        forked = store.fork("message", name="fork").conversation
    for conversation in (*TELLING, forked):
        done = CliRunner().invoke(main, [f"--db={path}", "export", conversation, f"--format={form}"])
        assert (done.exit_code, done.stderr) == (0, "")
        assert SECRET not in done.stdout
        assert "and on" in done.stdout


@pytest.mark.parametrize(
    "command", ["list", "log", "history message", "handoffs transfer", "usage", "check", "search f"]
)
def test_commands_show_no_word(path: Path, command: str) -> None:
    """No command shows what was redacted, to people or to programs."""
    with Store(path) as store:
        for conversation in TELLING:
            store.redact(conversation, [3], reason="asked for")
        before = recorded(store)
    for options in ([], ["--json"]):
        done = CliRunner().invoke(main, [f"--db={path}", *command.split(), *options])
        assert done.exit_code in (0, 1)
        assert SECRET not in done.output
    with Store(path, read_only=True) as store:
        assert recorded(store) == before
