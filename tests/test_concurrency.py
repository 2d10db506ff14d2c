"""Threads, processes and crashes: nothing acknowledged is lost, nothing is half-written, nobody waits for ever."""

from __future__ import annotations

import random
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from itertools import pairwise
from pathlib import Path
from typing import IO

import pytest
from test_append import recorded, said
from test_chain import claimed, export, recomputed

from turnlog.store import Store, StoreBusy, StoreReadOnly, VersionConflict

GUARD = 120  # Seconds after which a process that hangs is killed, so that the test fails instead of hanging, too.

APPENDER = """
import sys
from turnlog.store import Store
path, name, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
with Store(path, durability="normal") as store:
    print("ready", flush=True)
    sys.stdin.readline()
    for number in range(count):
        event = {"type": "message", "role": "user", "content": f"{name} {number}", "id": f"{name}-{number}"}
        receipt = store.append("c", [event])
        assert receipt.first == receipt.last
"""
READER = """
import sys
from turnlog.store import NotFound, Store
path, goal = sys.argv[1], int(sys.argv[3])
with Store(path, read_only=True) as store:
    print("ready", flush=True)
    sys.stdin.readline()
    seen = 0
    while seen < goal:
        versions = [event.version for event in store.events("c", first=seen + 1)]
        assert versions == list(range(seen + 1, seen + 1 + len(versions)))
        seen += len(versions)
        newest = next(store.events("c", backwards=True))
        assert newest.version >= seen and newest.body["content"] == str(newest.version)
    assert len(list(store.follow())) == goal
"""
CRASHER = """
import sys
from turnlog.store import Store
path, size = sys.argv[1], int(sys.argv[3])
with Store(path, durability=sys.argv[2]) as store:
    first = store.version("c") + 1
    while True:
        batch = [{"type": "message", "role": "user", "content": str(first + index)} for index in range(size)]
        receipt = store.append("c", batch)
        print(receipt.last, receipt.digest, flush=True)
        first = receipt.last + 1
"""

# Put before a script: the process kills itself in its third transaction, before a statement of some kind runs.
DYING = """
import os, signal, sqlite3, sys
connect, begun, seen = sqlite3.connect, 0, 0
def traced(*arguments, **options):
    def look(sql):
        global begun, seen
        begun += sql.startswith("BEGIN")
        seen += begun == 3 and sql.startswith(sys.argv[4])
        if seen == int(sys.argv[5]):
            os.kill(os.getpid(), signal.SIGKILL)
    connection = connect(*arguments, **options)
    connection.set_trace_callback(look)
    return connection
sqlite3.connect = traced
"""


@contextmanager
def process(script: str, path: Path | str, *arguments: object) -> Iterator[subprocess.Popen[str]]:
    """A process of its own that runs a script on a store."""
    command = [sys.executable, "-c", script, str(path), *map(str, arguments)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as running:
        try:
            yield running
        finally:
            running.kill()


def line(stream: IO[str] | None) -> str:
    assert stream is not None
    return stream.readline().rstrip("\n")


def start(running: list[subprocess.Popen[str]]) -> None:
    """Let processes go at once, when all of them are ready."""
    for each in running:
        assert line(each.stdout) == "ready"
    for each in running:
        assert each.stdin is not None
        each.stdin.write("\n")
        each.stdin.flush()


def finish(running: list[subprocess.Popen[str]]) -> None:
    """Wait for processes; none of them failed."""
    assert [each.communicate(timeout=GUARD)[1] for each in running] == [""] * len(running)
    assert [each.returncode for each in running] == [0] * len(running)


def whole(path: Path) -> list[str]:
    """The contents of conversation c of a store that is sound: versions without a gap, each digest right."""
    with Store(path, read_only=True) as store:
        events = list(store.events("c"))
        lines = export(store, "c")
        assert store.db.row("PRAGMA integrity_check") == ("ok",)
    assert [event.version for event in events] == list(range(1, len(events) + 1))
    assert claimed(lines) == recomputed(lines)
    return [str(event.body["content"]) for event in events]


def in_threads(*tasks: Callable[[], object]) -> None:
    """Run tasks at once, each in a thread of its own; what one of them raises is raised."""
    errors: list[BaseException] = []
    ready = threading.Barrier(len(tasks))

    def run(task: Callable[[], object]) -> None:
        ready.wait(GUARD)
        try:
            task()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(task,)) for task in tasks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []


class TestThreads:
    def test_two_threads_on_one_store(self, tmp_path: Path) -> None:
        """A store object may be shared between threads: each append gets a version of its own."""
        versions: list[int] = []
        with Store(tmp_path / "s.db", durability="normal") as store:
            store.append("c", [said("first")])

            def appends(name: str) -> None:
                versions.extend(store.append("c", [said(f"{name} {number}")]).last for number in range(400))

            def reads() -> None:
                for _ in range(20):
                    seen = [event.version for event in store.events("c")]
                    assert seen == list(range(1, len(seen) + 1))

            in_threads(lambda: appends("a"), lambda: appends("b"), reads)
        contents = whole(tmp_path / "s.db")
        assert sorted(versions) == list(range(2, 802))
        for name in ("a", "b"):
            assert [said for said in contents if said.startswith(name)] == [f"{name} {n}" for n in range(400)]

    def test_one_threads_transaction_is_its_own(self, tmp_path: Path) -> None:
        """Nothing of another thread lands inside a thread's transaction, nor is it undone with it."""
        with Store(tmp_path / "s.db", durability="normal") as store:

            def kept() -> None:
                for number in range(100):
                    with store.transaction():
                        store.append("c", [said(f"pair {number}")])
                        store.append("c", [said(f"pair {number}")])

            def broken() -> None:
                with store.transaction():
                    store.append("c", [said("undone")])
                    store.append("c", [said("undone")], expected=0)

            def undone() -> None:
                for _ in range(100):
                    with pytest.raises(VersionConflict):
                        broken()

            def single() -> None:
                for number in range(100):
                    store.append("c", [said(f"single {number}")])

            in_threads(kept, undone, single)
        contents = whole(tmp_path / "s.db")
        assert len(contents) == 300
        pairs = [(one, two) for one, two in pairwise(contents) if one == two]
        assert pairs == [(f"pair {number}", f"pair {number}") for number in range(100)]

    def test_of_writers_that_expect_one_version_one_wins(self, tmp_path: Path) -> None:
        """Two writers that expect the same version never both append, on one connection or on two."""
        with Store(tmp_path / "s.db", durability="normal") as one, Store(tmp_path / "s.db") as two:
            wins: list[int] = []
            one.append("c", [said("1")])

            def climb(store: Store) -> None:
                for version in range(1, 200):
                    with suppress(VersionConflict):
                        wins.append(store.append("c", [said(str(version + 1))], expected=version).last)

            in_threads(lambda: climb(one), lambda: climb(one), lambda: climb(two))
        assert sorted(wins) == list(range(2, 201))
        assert whole(tmp_path / "s.db") == [str(version) for version in range(1, 201)]


class TestProcesses:
    def test_four_processes_append(self, tmp_path: Path) -> None:
        """Four processes append 2,500 events each to one conversation: none lost, none twice, no gap, chain whole."""
        with ExitStack() as stack:
            names = "abcd"
            running = [stack.enter_context(process(APPENDER, tmp_path / "s.db", name, 2500)) for name in names]
            start(running)
            finish(running)
        contents = whole(tmp_path / "s.db")
        assert len(contents) == 10_000
        for name in names:
            assert [said for said in contents if said.startswith(name)] == [f"{name} {n}" for n in range(2500)]

    def test_many_readers_while_one_writes(self, tmp_path: Path) -> None:
        """Read-only processes and connections see a growing, gapless log while another process's events land."""
        goal, connections = 3000, 10
        chance = random.Random(7)
        with Store(tmp_path / "s.db", durability="normal") as store, ExitStack() as stack:
            store.append("c", [said("1")])
            running = [stack.enter_context(process(READER, tmp_path / "s.db", "", goal)) for _ in range(2)]
            readers = [stack.enter_context(Store(tmp_path / "s.db", read_only=True)) for _ in range(connections)]
            start(running)
            version = 1
            while version < goal:
                size = min(chance.choice((1, 1, 1, 7, 60)), goal - version)
                store.append("c", [said(str(version + 1 + index)) for index in range(size)])
                version += size
                assert {reader.version("c") for reader in chance.sample(readers, 2)} == {version}
            finish(running)
            for reader in readers:
                assert [event.version for event in reader.events("c")] == list(range(1, goal + 1))
                with pytest.raises(StoreReadOnly):
                    reader.append("c", [said()])


def after_a_crash(path: Path, size: int, told: list[str]) -> None:
    """Everything acknowledged is there as it was, in whole batches after the first event, and the log goes on."""
    acknowledged = {int(last): digest for last, digest in map(str.split, told)}
    contents = whole(path)
    assert contents == [str(version) for version in range(1, len(contents) + 1)]
    assert (len(contents) - 1) % size == 0
    assert len(contents) >= max(acknowledged, default=1)
    with Store(path) as store:
        digests = {event.version: event.digest.hex() for event in store.events("c")}
        assert acknowledged.items() <= digests.items()


@pytest.mark.parametrize("durability", ["full", "normal"])
@pytest.mark.parametrize(("size", "batches"), [(1, 60), (2, 40), (7, 20), (100, 6), (1500, 1)])
def test_a_killed_writer(tmp_path: Path, size: int, batches: int, durability: str) -> None:
    """A writer killed at any instant loses nothing it acknowledged and leaves no part of a batch."""
    chance = random.Random(size)
    with Store(tmp_path / "s.db") as store:
        store.append("c", [said("1")])
    for _ in range(2):
        with process(CRASHER, tmp_path / "s.db", durability, size) as writer:
            told = [line(writer.stdout) for _ in range(batches)]
            threading.Event().wait(chance.uniform(0, 0.02))  # So that the kill may land anywhere in an append.
            writer.send_signal(signal.SIGKILL)
            # Not communicate(), which would lose what the stream has read ahead.
            assert writer.stdout is not None
            rest = writer.stdout.read()
            errors = writer.communicate(timeout=GUARD)[1]
        assert (writer.returncode, errors) == (-signal.SIGKILL, "")
        after_a_crash(tmp_path / "s.db", size, told + rest[: rest.rfind("\n") + 1].splitlines())


@pytest.mark.parametrize(
    ("statement", "number"), [("BEGIN", 1), ("INSERT INTO events", 1), ("INSERT INTO events", 5), ("COMMIT", 1)]
)
def test_a_writer_that_dies_in_a_transaction(tmp_path: Path, statement: str, number: int) -> None:
    """A writer that dies anywhere in its third append leaves nothing of it, and keeps the two before."""
    with Store(tmp_path / "s.db") as store:
        store.append("c", [said("1")])
    with process(DYING + CRASHER, tmp_path / "s.db", "full", 9, statement, number) as writer:
        output, errors = writer.communicate(timeout=GUARD)
    assert (writer.returncode, errors) == (-signal.SIGKILL, "")
    assert len(output.splitlines()) == 2
    after_a_crash(tmp_path / "s.db", 9, output.splitlines())
    assert len(whole(tmp_path / "s.db")) == 1 + 2 * 9


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Another program's connection has the write lock."""
    other = sqlite3.connect(path, isolation_level=None)
    try:
        other.execute("BEGIN IMMEDIATE")
        yield
    finally:
        other.close()


class TestBusy:
    @pytest.mark.parametrize("timeout", [0, 0.05])
    def test_a_lock_not_had_in_time(self, tmp_path: Path, timeout: float) -> None:
        """A lock not had in time is `StoreBusy` with the path and the seconds; afterwards the same append works."""
        with Store(tmp_path / "s.db", timeout=timeout) as store:
            store.append("c", [said(id="i")])
            before = recorded(store)
            with locked(tmp_path / "s.db"):
                for write in (
                    lambda: store.append("c", [said()]),
                    lambda: store.append("c", [said(id="i")]),
                    lambda: store.append("new", [said()]),
                    lambda: store.rename("c", "d"),
                    lambda: store.restore([]),
                    lambda: store.transaction().__enter__(),
                ):
                    with pytest.raises(StoreBusy) as busy:
                        write()
                    assert (busy.value.path, busy.value.seconds) == (str(tmp_path / "s.db"), timeout)
                assert recorded(store) == before
            assert store.append("c", [said()]).first == 2

    def test_a_lock_had_in_time(self, tmp_path: Path) -> None:
        """A writer that is held up waits, and appends when the lock is free."""
        with Store(tmp_path / "s.db") as store:
            store.append("c", [said()])
            held, done = threading.Event(), threading.Event()

            def hold() -> None:
                with locked(tmp_path / "s.db"):
                    held.set()
                    done.wait(0.2)

            def write() -> None:
                held.wait(GUARD)
                store.append("c", [said()])

            in_threads(hold, write)
            assert store.version("c") == 2

    def test_a_lock_holds_up_neither_readers_nor_opening(self, tmp_path: Path) -> None:
        """While another has the lock, stores are opened and read, for writing and read-only, and backed up."""
        with Store(tmp_path / "s.db") as store:
            store.append("c", [said()])
            before = recorded(store)
            with locked(tmp_path / "s.db"):
                for read_only in (False, True):
                    with Store(tmp_path / "s.db", read_only=read_only, timeout=0) as another:
                        assert recorded(another) == before
                        another.backup(tmp_path / f"copy{read_only}.db")
                assert recorded(store) == before
