"""Transactions as people use them: by whom they are kept open, what ends them, and what that leaves."""

from __future__ import annotations

import sqlite3
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from interrupts import said

from turnlog.store import Store, StoreUnusable
from turnlog.store import turns as module

WAIT = 20.0  # Seconds after which a thread that hangs makes the test fail.


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where a store with one message is."""
    with Store(tmp_path / "s.db", durability="normal") as store:
        store.append("c", [said("first")])
    return tmp_path / "s.db"


def contents(path: Path) -> list[str]:
    """Return what another connection reads."""
    with Store(path, read_only=True) as other:
        return [event.body["content"] for event in other.events("c")]


def is_free(path: Path) -> bool:
    """Return whether another connection can write."""
    with closing(sqlite3.connect(path, isolation_level=None, timeout=0)) as other:
        try:
            other.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError:
            return False
        return True


def test_in_an_exit_stack(path: Path) -> None:
    """A transaction that an ExitStack keeps is committed when that ends, and undone after an error."""
    with Store(path) as store:
        with ExitStack() as stack:
            stack.enter_context(store.transaction())
            store.append("c", [said("second")])
            assert contents(path) == ["first"]
        with suppress(KeyError), ExitStack() as stack:
            stack.enter_context(store.transaction())
            store.append("c", [said("undone")])
            raise KeyError
        assert contents(path) == ["first", "second"]


def test_a_generator_that_nobody_goes_on_with(path: Path) -> None:
    """A transaction in a suspended generator is undone when the generator is dropped, by whichever thread."""
    with Store(path) as store:

        def appended() -> Iterator[None]:
            with store.transaction():
                store.append("c", [said("undone")])
                yield

        def drop(generators: list[Iterator[None]]) -> None:
            generators.clear()

        for thread in (False, True):
            kept = [appended()]
            next(kept[0])
            assert not is_free(path)
            if thread:
                dropper = threading.Thread(target=drop, args=(kept,))
                dropper.start()
                dropper.join(WAIT)
            drop(kept)
            assert is_free(path)
            store.append("c", [said("kept")])
        assert contents(path) == ["first", "kept", "kept"]


def first_of(function: str) -> Any:
    """Return a tracer that raises before the first instruction of a function of the module, once."""

    def enter(frame: FrameType, event: str, argument: object) -> None:
        if frame.f_code.co_name == function and frame.f_code.co_filename == module.__file__:
            raise KeyboardInterrupt

    return enter


@pytest.mark.parametrize("error", [None, KeyError], ids=["ends", "raises"])
def test_interrupted_before_it_can_end(path: Path, error: type[Exception] | None) -> None:
    """An interrupt before the first instruction of what ends a transaction undoes it, before anybody handles it.

    What is appended by the one who handles it is no part of what was undone.
    """
    with Store(path) as store:
        before = sys.gettrace()
        try:
            with store.transaction():
                store.append("c", [said("undone")])
                sys.settrace(first_of("_leave"))
                if error is not None:
                    raise error
        except KeyboardInterrupt:
            sys.settrace(before)
            assert is_free(path)
            store.append("c", [said("kept")])
        assert contents(path) == ["first", "kept"]


def test_a_part_interrupted_before_it_can_end(path: Path) -> None:
    """An interrupt of what ends an inner part undoes that part, also if the outer one goes on."""
    with Store(path) as store:
        before = sys.gettrace()
        with store.transaction():
            store.append("c", [said("outer")])
            with suppress(KeyboardInterrupt), store.transaction():
                store.append("c", [said("undone")])
                sys.settrace(first_of("_leave"))
            sys.settrace(before)
            store.append("c", [said("late")])
        assert contents(path) == ["first", "outer", "late"]


def test_rolled_back_by_sqlite(path: Path) -> None:
    """After an error for which SQLite rolls back all of a transaction nothing more is taken, nor said to be kept."""
    with Store(path) as store:

        def appends(*batch: str) -> None:
            with store.transaction():
                store.append("c", [said("undone")])
                store.db.rows("ROLLBACK")
                for text in batch:
                    store.append("c", [said(text)])

        with pytest.raises(StoreUnusable, match="rolled back"):
            appends("not taken")
        with pytest.raises(StoreUnusable, match="no transaction is active"):
            appends()
        store.append("c", [said("second")])
    assert contents(path) == ["first", "second"]


def test_closed_within(path: Path) -> None:
    """Closing a store within a transaction ends it without anything of it, and says so."""
    store = Store(path)

    def closes() -> None:
        with store.transaction():
            store.append("c", [said("undone")])
            store.close()

    with pytest.raises(StoreUnusable, match="is closed"):
        closes()
    assert contents(path) == ["first"]
    assert is_free(path)


def test_closed_by_another_thread(path: Path) -> None:
    """Closing waits for the transaction of another thread, which loses nothing by it."""
    store = Store(path)
    closer = threading.Thread(target=store.close)
    with store.transaction():
        closer.start()
        closer.join(0.1)
        store.append("c", [said("second")])
        assert closer.is_alive()
    closer.join(WAIT)
    with pytest.raises(StoreUnusable, match="is closed"):
        store.append("c", [said("late")])
    assert contents(path) == ["first", "second"]


def test_other_threads_wait(path: Path) -> None:
    """While one thread has a transaction no other reads or writes through the store; then it does, and sees all."""
    seen: list[int] = []
    with Store(path) as store:
        others = [threading.Thread(target=lambda: seen.append(store.version("c"))) for _ in range(5)]
        with store.transaction():
            for other in others:
                other.start()
            store.append("c", [said("second")])
            others[0].join(0.1)
            assert seen == []
            store.append("c", [said("third")])
        for other in others:
            other.join(WAIT)
    assert seen == [3] * 5


def test_entered_again(path: Path) -> None:
    """A transaction that has ended can be begun again, and is another one then."""
    with Store(path) as store:
        transaction = store.transaction()
        for text in ("second", "third"):
            with transaction:
                store.append("c", [said(text)])
        with suppress(KeyError), transaction:
            store.append("c", [said("undone")])
            raise KeyError
    assert contents(path) == ["first", "second", "third"]


def test_errors_of_others_are_theirs(path: Path) -> None:
    """An error that another program's database raises within a transaction undoes it, and stays what it is."""
    with Store(path) as store, closing(sqlite3.connect(":memory:")) as other:

        def appends() -> None:
            with store.transaction():
                store.append("c", [said("undone")])
                other.execute("SELECT 1 FROM missing")

        with pytest.raises(sqlite3.OperationalError, match="no such table"):
            appends()
    assert contents(path) == ["first"]
