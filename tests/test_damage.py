"""Random damage: a flipped bit anywhere in the file gives no wrong answer beside `no fault`, no traceback and no hang.

Each page of small stores has a few bits flipped, one at a time, chosen by the page's number; TURNLOG_FLIPS says how
many (2 if it is not set).
"""

from __future__ import annotations

import json
import os
import random
import signal
import sqlite3
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from turnlog.cli import main
from turnlog.projections import search, timeline
from turnlog.store import Store

FLIPS = int(os.environ.get("TURNLOG_FLIPS", "2"))
PATIENCE = 20.0  # Seconds that a command may take, which takes a hundredth of one.
PAGE_SIZES = (512, 4096)  # In small pages more of the bits mean something.
PAGES = {512: 120, 4096: 60}  # At least as many as the stores have.
EVENTS: list[dict[str, Any]] = [
    {"type": "describe", "title": "About one"},
    {"type": "assistant", "assistant": "a", "system": "You are a.", "first_message": "Hello."},
    {"type": "message", "role": "user", "content": "needle one", "id": "m1"},
    {"type": "message", "role": "assistant", "tool_calls": [{"id": "t1", "name": "look", "arguments": "{}"}]},
    {"type": "message", "role": "tool", "tool_call_id": "t1", "content": "result needle"},
    {"type": "request", "at": 5, "model": "m"},
    {
        "type": "response",
        "request": 6,
        "status": "completed",
        "response": "answer",
        "usage": {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7},
    },
    {"type": "transfer", "to": "b", "mode": "swap-system-message-in-history", "system": "You are b.", "message": "So."},
    {"type": "message", "role": "user", "content": "in agent", "scope": "agent", "occurred_at": "2026-01-02T03:04:05Z"},
    {"type": "message", "role": "user", "content": "later"},
    {"type": "rewind", "to": 9},
    {"type": "message", "role": "user", "content": "after the rewind"},
    {"type": "summary", "text": "sum", "summary_of": 2, "first": 3, "last": 5},
    {"type": "message", "role": "assistant", "content": "last"},
]
READS: tuple[tuple[str, ...], ...] = (
    ("list",),
    ("log",),
    ("history", "one"),
    ("history", "four", "--json"),
    ("history", "one", "--scope", "agent"),
    ("check",),
    ("usage",),
    ("search", "needle"),
    ("export", "two", "--format", "events"),
    ("checkpoint",),
    ("query", "SELECT * FROM visible"),
)
WRITES: tuple[tuple[str, ...], ...] = (("redact", "one", "12", "--reason", "r"),)


@contextmanager
def the_same_every_time() -> Iterator[None]:
    """Let identities, salts, secrets and times be the same in every run, so that a flip can be repeated."""
    pick, seconds = random.Random(7), count(1_800_000_000)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(uuid, "uuid4", lambda: uuid.UUID(int=pick.getrandbits(128), version=4))
        patch.setattr(os, "urandom", pick.randbytes)
        patch.setattr(time, "time_ns", lambda: next(seconds) * 10**9)
        yield


def build(path: Path, page_size: int) -> None:
    """Make a store of forks, redactions and rewinds, whose timelines and search index are there."""
    with the_same_every_time(), Store(path, durability="normal") as store:
        store.append("one", EVENTS)
        store.append("two", EVENTS[1:5])
        store.fork("one", 9, "three")
        store.append("three", EVENTS[7:10])
        store.fork("three", 11, "four")
        store.redact("two", [2], reason="r")
        store.redact("one", [4], reason="r")
        assert search(store, "needle")
        for each in store.conversations():
            for scope in store.scopes_in_use(each.uuid):
                timeline(store, each.uuid, scope).at()
    with closing(sqlite3.connect(path, isolation_level=None)) as plain:
        for statement in ("journal_mode = DELETE", f"page_size = {page_size}", "journal_mode = DELETE"):
            plain.execute(f"PRAGMA {statement}")
        plain.execute("VACUUM")
    with Store(path):
        pass  # It is a store with a write-ahead log again.


class Victim:
    """A sound store, what commands print of it, and what they do on a damaged copy."""

    def __init__(self, folder: Path, page_size: int) -> None:
        self.sound = folder / "sound.db"
        build(self.sound, page_size)
        self.content = self.sound.read_bytes()
        self.size = page_size
        assert len(self.content) // page_size <= PAGES[page_size]
        self._file = folder / "damaged.db"
        self.answers = {read: answer(self.run(read, self.content)) for read in READS}
        assert self.run(("verify",), self.content).stdout.endswith(": no fault\n")

    def flips(self, page: int) -> Iterator[tuple[int, int]]:
        """Choose bits of a page, most of them among those of bytes that hold something."""
        pick = random.Random(page)
        places = range(page * self.size, min((page + 1) * self.size, len(self.content)))
        used = [place for place in places if self.content[place]] or list(places)
        for _ in range(FLIPS if places else 0):
            yield (pick.choice(used) if pick.random() < 0.9 else pick.choice(places)), 1 << pick.randrange(8)

    def run(self, command: tuple[str, ...], content: bytes) -> Result:
        """Run a command on a store of this content; a hang is an error of its own."""
        for suffix in ("", "-wal", "-shm"):
            Path(f"{self._file}{suffix}").unlink(missing_ok=True)
        self._file.write_bytes(content)
        with limited():
            return CliRunner().invoke(main, [f"--db={self._file}", *command])


class Hangs(BaseException):
    """A command did not end."""


@contextmanager
def limited() -> Iterator[None]:
    """Interrupt what takes too long."""

    def interrupt(*_: object) -> None:
        raise Hangs

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, PATIENCE)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def answer(result: Result) -> tuple[int, object]:
    """What a command answers; of a checkpoint not when it was made, nor names, which it alone can prove."""
    if result.stdout.startswith('{"turnlog_checkpoint"'):
        marks = json.loads(result.stdout)["conversations"]
        return result.exit_code, [(mark["uuid"], mark["version"], mark["digest"]) for mark in marks]
    return result.exit_code, result.stdout


def is_told(result: Result) -> bool:
    """Return whether a command ended as commands do: by itself and, where it refused something, with one line."""
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        return False
    errors = [line for line in result.stderr.splitlines() if not line.startswith("copies of what was redacted")]
    return result.exit_code == 0 or (result.exit_code == 1 and len(errors) <= 1)


@pytest.fixture(scope="module")
def victims(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], Victim]:
    """The store of a page size, made when it is first asked for."""
    made: dict[int, Victim] = {}

    def of(page_size: int) -> Victim:
        if page_size not in made:
            made[page_size] = Victim(tmp_path_factory.mktemp("damage"), page_size)
        return made[page_size]

    return of


@pytest.mark.parametrize(
    ("page_size", "page"), [(page_size, page) for page_size in PAGE_SIZES for page in range(PAGES[page_size])]
)
def test_a_flipped_bit(victims: Callable[[int], Victim], page_size: int, page: int) -> None:
    """A bit that is flipped in any page lets no command hang or fail with a traceback, and where one answers anything
    else than it did, `verify` does not say that there is no fault."""
    victim = victims(page_size)
    for place, bit in victim.flips(page):
        damaged = bytearray(victim.content)
        damaged[place] ^= bit
        content = bytes(damaged)
        verdict = victim.run(("verify",), content)
        assert is_told(verdict), (place, bit)
        for command in (*READS, *WRITES):
            result = victim.run(command, content)
            assert is_told(result), (place, bit, command, result.output)
            if verdict.exit_code == 0:
                assert command in WRITES or answer(result) == victim.answers[command], (place, bit, command)


@pytest.mark.parametrize("size", [1, 100, 512, 4096, 8192])
def test_a_file_that_was_cut_off(victims: Callable[[int], Victim], size: int) -> None:
    """A file of which only the beginning is left is refused, or is at fault: no command fails with a traceback."""
    victim = victims(4096)
    for command in (("verify",), *READS):
        result = victim.run(command, victim.content[:size])
        assert is_told(result), (size, command)
        assert result.exit_code == 1 or command != ("verify",)
