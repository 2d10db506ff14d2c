"""Interrupts at any moment: what a store has acknowledged is compared with what another connection reads.

`Rounds` does something with a store and interrupts it, in one of three ways: by a signal whose handler raises, by an
exception before any one instruction of the package, or by an error of SQLite before or after any one statement. After
each round nothing may be held, nothing may be half-written, and nothing that was acknowledged may be missing.
"""

from __future__ import annotations

import random
import signal
import sqlite3
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from threading import Thread
from time import perf_counter
from types import FrameType
from typing import Any

from turnlog import store as package
from turnlog.projections import differences, history, search
from turnlog.store import Store, StoreUnusable, line_of, read_line
from turnlog.store import file as file_module
from turnlog.store.file import Connection

HELD_UP = 10.0  # Seconds in which another thread has to come to its turn.
PACKAGE = str(Path(package.__file__).parent.parent)
Event = dict[str, Any]


class Interrupted(BaseException):
    """What is raised in the middle of something."""


class BySignal:
    """Raises at a random moment of an action, as the handler of a signal."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._armed = False
        self._times: dict[str, float] = {}

    @contextmanager
    def ready(self, path: Path) -> Iterator[Store]:
        """Give a store whose actions can be interrupted."""
        before = signal.signal(signal.SIGALRM, self._raise)
        try:
            with Store(path, durability="normal", timeout=1) as store:
                yield store
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)

    def run(self, kind: str, action: Callable[[], object]) -> bool:
        """Run an action and return whether it came to its end."""
        done = False
        began = perf_counter()
        try:
            self._armed = True
            signal.setitimer(signal.ITIMER_REAL, max(1e-6, self._chance.random() * self._times.get(kind, 0.0005)))
            action()
            done = True
            self._armed = False
        except Interrupted:
            pass
        finally:
            self._armed = False
            signal.setitimer(signal.ITIMER_REAL, 0)
        # So that about half of the actions come to their end, and the moments are spread over all of one.
        self._times[kind] = self._times.get(kind, perf_counter() - began) * (0.95 if done else 1.05)
        return done

    def _raise(self, _: int, __: FrameType | None) -> None:
        if self._armed:
            self._armed = False
            raise Interrupted


class ByInstruction:
    """Raises before a random instruction that an action runs in the package."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._counts: dict[str, int] = {}
        self._left = self._seen = 0

    @contextmanager
    def ready(self, path: Path) -> Iterator[Store]:
        """Give a store whose actions can be interrupted."""
        with Store(path, durability="normal", timeout=1) as store:
            yield store

    def run(self, kind: str, action: Callable[[], object]) -> bool:
        """Run an action and return whether it came to its end."""
        self._seen = 0
        self._left = self._chance.randint(1, self._counts.get(kind, 500))
        done = False
        traced = sys.gettrace()
        sys.settrace(self._enter)
        try:
            action()
            done = True
        except Interrupted:
            pass
        finally:
            sys.settrace(traced)
        # One that came to its end had fewer instructions than was thought, one that did not had perhaps more.
        self._counts[kind] = self._seen if done else max(self._seen * 2, self._counts.get(kind, 0))
        return done

    def _enter(self, frame: FrameType, event: str, argument: object) -> Any:
        if not frame.f_code.co_filename.startswith(PACKAGE) and "contextlib" not in frame.f_code.co_filename:
            return None
        frame.f_trace_opcodes = True
        self._count()
        return self._step

    def _step(self, frame: FrameType, event: str, argument: object) -> Any:
        if event != "exception":
            self._count()
        return self._step

    def _count(self) -> None:
        self._seen += 1
        if self._seen == self._left:
            raise Interrupted


class ByError:
    """Makes SQLite fail before or after a random statement of an action."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._counts: dict[str, int] = {}
        self.left = self.seen = 0
        self.after = False

    @contextmanager
    def ready(self, path: Path) -> Iterator[Store]:
        """Give a store whose actions can be interrupted."""
        fails = self

        class Failing(Connection):
            def execute(self, *arguments: Any) -> sqlite3.Cursor:
                with fails.statement():
                    return super().execute(*arguments)

            def cursor(self, *_: Any, **__: Any) -> Any:
                return super().cursor(FailingCursor)

        class FailingCursor(sqlite3.Cursor):
            def execute(self, *arguments: Any) -> Any:
                with fails.statement():
                    return super().execute(*arguments)

            def executemany(self, *arguments: Any) -> Any:
                with fails.statement():
                    return super().executemany(*arguments)

        real = file_module.Connection
        file_module.Connection = Failing  # type: ignore[misc]
        try:
            with Store(path, durability="normal", timeout=1) as store:
                yield store
        finally:
            file_module.Connection = real  # type: ignore[misc]

    def run(self, kind: str, action: Callable[[], object]) -> bool:
        """Run an action and return whether it came to its end."""
        self.seen, self.after = 0, self._chance.random() < 0.5
        self.left = self._chance.randint(1, self._counts.get(kind, 10))
        try:
            action()
        except (StoreUnusable, sqlite3.Error):
            self._counts[kind] = max(self.seen * 2, self._counts.get(kind, 0))
            return False
        finally:
            self.left = 0
        self._counts[kind] = self.seen
        return True

    @contextmanager
    def statement(self) -> Iterator[None]:
        """Count a statement, which fails if its time has come."""
        self.seen += 1
        fails = self.seen == self.left
        if fails and not self.after:
            raise failed()
        yield
        if fails:
            raise failed()


def failed() -> sqlite3.OperationalError:
    """Return the error of a disk that cannot be read or written."""
    error = sqlite3.OperationalError("disk I/O error")
    error.sqlite_errorcode = sqlite3.SQLITE_IOERR
    return error


def said(text: str, **fields: Any) -> Event:
    """Return a message."""
    return {"type": "message", "role": "user", "content": text, **fields}


class Rounds:
    """A store that is interrupted again and again, and what it has acknowledged."""

    def __init__(self, path: Path, seed: int, interrupts: type[BySignal] | type[ByInstruction] | type[ByError]) -> None:
        self.path = path
        self.chance = random.Random(seed)
        self.interrupts = interrupts(self.chance)
        self.batches: dict[str, tuple[int, bool | None]] = {}  # Size by name, and whether it has to be there.
        self.pending: set[str] = set()
        self.found: dict[str, list[str]] = {}
        self.position = 0
        self.redacted: dict[int, bool | None] = {}
        self.forks: dict[str, bool | None] = {}
        self.number = 0
        self.interrupted = 0

    def run(self, rounds: int) -> None:
        """Interrupt so many actions, and compare after each of them."""
        kinds = [kind for kind, weight in KINDS.items() for _ in range(weight)]
        with self.interrupts.ready(self.path) as store:
            store.append("c", [said("first"), {"type": "assistant", "assistant": "a", "system": "You are a."}])
            with closing(sqlite3.connect(self.path, isolation_level=None, timeout=0)) as other:
                for number in range(rounds):
                    kind = self.chance.choice(kinds)
                    done = self._act(store, kind)
                    self.interrupted += not done
                    self._check_nothing_held(store, other)
                    self._check_log(other, number % 100 == 99)
                self.pending, self.found, self.position = set(self.batches), {}, 0
                self._check_log(other, True)
            self._check_views(store)

    def _act(self, store: Store, kind: str) -> bool:
        return getattr(self, f"_{kind}")(store)  # type: ignore[no-any-return]

    def _batch(self, size: int) -> tuple[str, list[Event]]:
        self.number += 1
        name = f"batch{self.number}"
        return name, [said(f"{name} {place}/{size}") for place in range(size)]

    def _expect(self, names: dict[str, int], there: bool | None) -> None:
        for name, size in names.items():
            self.batches[name] = size, there
            self.pending.add(name)

    def _append(self, store: Store) -> bool:
        size = self.chance.choice((1, 1, 2, 20))
        name, batch = self._batch(size)
        done = self.interrupts.run(f"append {size}", lambda: store.append("c", batch))
        self._expect({name: size}, done or None)
        return done

    def _transaction(self, store: Store) -> bool:
        batches = dict(self._batch(self.chance.choice((1, 3))) for _ in range(3))

        def act() -> None:
            with store.transaction():
                for batch in batches.values():
                    store.append("c", batch)

        done = self.interrupts.run("transaction", act)
        self._together({name: len(batch) for name, batch in batches.items()}, done)
        return done

    def _together(self, sizes: dict[str, int], done: bool) -> None:
        """Expect batches that are there together or not at all."""
        if done:
            self._expect(sizes, True)
            return
        with closing(sqlite3.connect(self.path)) as plain:
            found = {name: self._count(plain, name) for name in sizes}
        assert found in (sizes, dict.fromkeys(sizes, 0)), found
        self._expect(sizes, found == sizes)

    @staticmethod
    def _count(plain: sqlite3.Connection, name: str) -> int:
        row = plain.execute(
            "SELECT count(*) FROM events WHERE json_extract(body, '$.content') LIKE ?", (f"{name} %",)
        ).fetchone()
        return int(row[0])

    def _caught(self, store: Store) -> bool:
        """Catch the interrupt of an inner part, and go on with the outer one."""
        outer, inner, late = self._batch(2), self._batch(5), self._batch(2)
        outcome: list[bool] = []

        def part() -> None:
            with store.transaction():
                store.append("c", inner[1][:2])
                store.append("c", inner[1][2:])

        with store.transaction():
            store.append("c", outer[1])
            outcome.append(self.interrupts.run("part", part))
            store.append("c", late[1])
        self._expect({outer[0]: 2, late[0]: 2}, True)
        self._expect({inner[0]: 5}, outcome[0] or None)
        return outcome[0]

    def _refused(self, store: Store) -> bool:
        """Interrupt while an error is on its way, so that what it undoes is interrupted."""
        first, second = self._batch(3), self._batch(2)

        def act() -> None:
            with suppress(KeyError), store.transaction():
                store.append("c", first[1])
                with suppress(KeyError), store.transaction():
                    store.append("c", second[1])
                    raise KeyError
                raise KeyError

        done = self.interrupts.run("refused", act)
        self._expect({first[0]: 3, second[0]: 2}, False)
        return done

    def _redact(self, store: Store) -> bool:
        """Redact one of two events, and leave the other to a later round."""
        last = store.append("r", [said("secret"), said("secret")]).last
        version = self.chance.randint(max(1, last - 10), last)

        def act() -> None:
            store.redact("r", [version], reason="asked for")

        done = self.interrupts.run("redact", act)
        self.redacted[version] = True if done or self.redacted.get(version) else None
        return done

    def _fork(self, store: Store) -> bool:
        self.number += 1
        name = f"fork{self.number}"
        done = self.interrupts.run("fork", lambda: store.fork("c", 1, name))
        self.forks[name] = done or None
        return done

    def _restore(self, store: Store) -> bool:
        name, batch = self._batch(7)
        with Store(":memory:") as source:
            source.append(name, batch)
            lines = [line_of(event, name) for event in source.events(name)]
        done = self.interrupts.run("restore", lambda: store.restore(map(read_line, lines)))
        self._expect({name: 7}, done or None)
        return done

    def _history(self, store: Store) -> bool:
        return self.interrupts.run("history", lambda: history(store, "c", last=5))

    def _search(self, store: Store) -> bool:
        return self.interrupts.run("search", lambda: search(store, "first", conversation="c"))

    def _hidden(self, store: Store) -> bool:
        self.number += 1
        store.append("c", [{"type": "transfer", "to": f"a{self.number}", "mode": "swap-system-message-in-history"}])
        return self._history(store)

    # What has to hold after each round

    def _check_nothing_held(self, store: Store, other: sqlite3.Connection) -> None:
        """No transaction is open in this process or in the file, and every other thread comes to its turn."""
        assert not store.db.in_transaction
        other.execute("BEGIN IMMEDIATE")
        other.execute("ROLLBACK")
        found: list[int] = []
        thread = Thread(target=lambda: found.append(store.version("c")), daemon=True)
        thread.start()
        thread.join(HELD_UP)
        assert found == [other.execute("SELECT max(version) FROM events WHERE conversation = 1").fetchone()[0]]

    def _check_log(self, other: sqlite3.Connection, wholly: bool) -> None:
        """Every batch that was acknowledged is there, every other one is there as a whole or not at all."""
        for position, content in other.execute(
            "SELECT position, json_extract(body, '$.content') FROM events WHERE position > ? ORDER BY position",
            (self.position,),
        ).fetchall():
            self.position = position
            name, _, place = (content or "").partition(" ")
            if name.startswith("batch"):
                self.found.setdefault(name, []).append(place)
        for name in self.pending:
            size, there = self.batches[name]
            places = self.found.get(name, [])
            is_whole = places == [f"{place}/{size}" for place in range(size)]
            assert is_whole if there else not places or (is_whole and there is None), (name, there, places)
        self.pending.clear()
        if not wholly:
            return
        busy, pages, copied = other.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        assert (busy, copied) == (0, pages), "a read is still open"
        gone = {
            version
            for (version,) in other.execute(
                "SELECT version FROM events WHERE body IS NULL AND conversation ="
                " (SELECT key FROM conversations WHERE name = 'r')"
            )
        }
        assert {version for version, there in self.redacted.items() if there} <= gone <= self.redacted.keys()
        names = {name for (name,) in other.execute("SELECT name FROM conversations WHERE name LIKE 'fork%'")}
        assert {name for name, there in self.forks.items() if there} <= names <= self.forks.keys()

    def _check_views(self, store: Store) -> None:
        """The chains are whole, and what is derived from the log is what the log gives."""
        verified = store.verify()
        assert verified.faults == []
        assert verified.derived == []
        assert list(differences(store)) == []
        with Store(self.path, read_only=True) as fresh:
            assert [message.content for message in history(store, "c")] == [
                message.content for message in history(fresh, "c")
            ]
            assert [(found.conversation, found.version) for found in search(store, "batch1")] == [
                (found.conversation, found.version) for found in search(fresh, "batch1")
            ]


KINDS = {
    "append": 8,
    "transaction": 4,
    "caught": 4,
    "refused": 3,
    "redact": 1,
    "fork": 2,
    "restore": 1,
    "history": 2,
    "hidden": 1,
    "search": 1,
}
