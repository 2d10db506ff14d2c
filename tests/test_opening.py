"""Opening a store while others make, open, lock and close it: whatever they do between any two of our statements."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
from test_append import said

from turnlog.store import Store, StoreBusy, StoreUnusable, TurnlogError

MOST = 200  # More statements than an opening has.


def open_with(
    monkeypatch: pytest.MonkeyPatch, path: Path, number: int, meanwhile: Callable[[], None], **options: Any
) -> tuple[bool, type[TurnlogError] | None]:
    """Open a store; `meanwhile` is done before its statement of that number runs. Whether it was, and what came."""
    connect = sqlite3.connect
    statements = 0

    def look(sql: str) -> None:
        nonlocal statements
        statements += 1
        if statements == number:
            meanwhile()

    def traced(*arguments: Any, **more: Any) -> sqlite3.Connection:
        connection: sqlite3.Connection = connect(*arguments, **more)
        monkeypatch.setattr(sqlite3, "connect", connect)
        connection.set_trace_callback(look)
        return connection

    monkeypatch.setattr(sqlite3, "connect", traced)
    try:
        with Store(path, timeout=0, durability="normal", **options):
            pass
    except TurnlogError as error:
        return statements >= number, type(error)
    return statements >= number, None


def outcomes(
    monkeypatch: pytest.MonkeyPatch, make: Callable[[int], tuple[Path, Callable[[], None]]], **options: Any
) -> dict[int, type[TurnlogError] | None]:
    """What came of an opening for each of its statements that `make`'s deed is done before, by its number."""
    found: dict[int, type[TurnlogError] | None] = {}
    for number in range(1, MOST):
        path, meanwhile = make(number)
        reached, outcome = open_with(monkeypatch, path, number, meanwhile, **options)
        if not reached:
            return found
        found[number] = outcome
    raise AssertionError("an opening has more statements than that")


def test_another_process_makes_the_store_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever is second to make a store opens the one that is there, at whatever moment it came."""

    def make(number: int) -> tuple[Path, Callable[[], None]]:
        path = tmp_path / f"{number}.db"

        def another() -> None:
            # Held up by us if we are the first; then it is for us to make it.
            with suppress(StoreBusy), Store(path, timeout=0, durability="normal") as store:
                store.append("c", [said()])

        return path, another

    found = outcomes(monkeypatch, make)
    assert {number: outcome for number, outcome in found.items() if outcome is not None} == {}
    assert len(found) > 10
    for number in found:
        with Store(tmp_path / f"{number}.db", durability="normal") as store:
            assert store.append("c", [said()]).last in (1, 2)


@pytest.mark.parametrize("read_only", [False, True], ids=["writing", "read-only"])
@pytest.mark.parametrize("new", [False, True], ids=["there", "new"])
def test_another_process_has_the_file_to_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, new: bool, read_only: bool
) -> None:
    """A file that is locked, as it is while a store is made or its last user closes it, is busy and not unusable."""
    held: list[sqlite3.Connection] = []

    def make(number: int) -> tuple[Path, Callable[[], None]]:
        while held:
            held.pop().close()
        path = tmp_path / f"{number}.db"
        path.touch()
        if not new:
            Store(path, durability="normal").close()

        def lock() -> None:
            held.append(sqlite3.connect(path, timeout=0, isolation_level=None))
            held[-1].execute("PRAGMA locking_mode = EXCLUSIVE")
            with suppress(sqlite3.OperationalError):
                held[-1].execute("BEGIN EXCLUSIVE")

        return path, lock

    try:
        found = outcomes(monkeypatch, make, read_only=read_only)
    finally:
        while held:
            held.pop().close()
    allowed = {None, StoreBusy} | ({StoreUnusable} if new and read_only else set())
    assert {number: outcome for number, outcome in found.items() if outcome not in allowed} == {}
    assert StoreBusy in found.values()


def test_a_store_is_made_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that dies at any statement of making a store leaves a file that the next one can open."""

    def make(number: int) -> tuple[Path, Callable[[], None]]:
        path = tmp_path / f"{number}.db"

        def copy() -> None:
            # What the disk holds at this moment is what a process that dies now leaves behind.
            for file in tmp_path.glob(f"{number}.db*"):
                suffix = file.name.removeprefix(f"{number}.db")
                (tmp_path / f"left{number}.db{suffix}").write_bytes(file.read_bytes())

        return path, copy

    found = outcomes(monkeypatch, make)
    assert set(found.values()) == {None}
    left = list(tmp_path.glob("left*.db"))
    assert len(left) == len(found)
    for path in left:
        with Store(path, durability="normal") as store:
            assert store.append("c", [said()]).last == 1
        with closing(sqlite3.connect(path)) as plain:
            assert plain.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
