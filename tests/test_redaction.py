"""Redaction and erasure to the byte: what was said is in none of the store's files any more (DESIGN section 7)."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from test_append import recorded, said

from turnlog.cli import main
from turnlog.projections import search
from turnlog.store import Store, line_of, read_line

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
