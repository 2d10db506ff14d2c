"""How erasing goes on until nothing is left in any file, whoever ends, reads or damages the store meanwhile."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import pytest
from click.testing import CliRunner
from test_append import said
from test_redaction import SECRET, files_with

from turnlog.cli import main
from turnlog.projections import history, search
from turnlog.store import Store, erasure
from turnlog.store.erasure import Erasure, State


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where a store is made that tells the secret in two conversations."""
    path = tmp_path / "s.db"
    with Store(path, durability="normal") as store:
        store.append("one", [said("so far"), said(SECRET), said("and on")])
        store.append("two", [said(SECRET), said("filler " * 2000)])
    return path


def number_of(path: Path) -> int:
    with closing(sqlite3.connect(path)) as plain:
        return int(plain.execute("PRAGMA user_version").fetchone()[0])


def state_of(path: Path) -> State:
    """What the file says of itself."""
    return State(number_of(path) % 4)


@contextmanager
def ending(path: Path, monkeypatch: pytest.MonkeyPatch, before: str = "Erasure._advance") -> Iterator[Store]:
    """A store whose process ends before it takes a step of the erasing."""

    def ends(*_: object) -> None:
        raise SystemExit

    with Store(path) as store:
        with monkeypatch.context() as patched:
            patched.setattr(f"turnlog.store.erasure.{before}", ends)
            yield store
        store.close()


def redact(store: Store, conversation: str = "one", version: int = 2) -> None:
    """Redact an event in a process that ends in the course of it."""
    with pytest.raises(SystemExit):
        store.redact(conversation, [version], reason="asked for")


@contextmanager
def reader(path: Path, mode: str = "rw") -> Iterator[sqlite3.Connection]:
    """A connection that goes on reading."""
    with closing(sqlite3.connect(f"{path.as_uri()}?mode={mode}", uri=True, isolation_level=None)) as plain:
        plain.execute("BEGIN")
        assert plain.execute("SELECT count(*) FROM events").fetchone()[0]
        yield plain


class TestAnother:
    """What is left of the erasing when the process that redacts has ended in the course of it."""

    @pytest.mark.parametrize("before", ["Erasure._advance", "_write_anew", "_move"])
    def test_the_next_one_to_open_it_finishes_it(
        self, path: Path, monkeypatch: pytest.MonkeyPatch, before: str
    ) -> None:
        """Whatever step was not taken, the file says so, reading changes nothing, and opening for writing finishes."""
        with ending(path, monkeypatch, before) as store:
            redact(store)
        assert state_of(path) is State.ERASED
        with Store(path, read_only=True) as store:
            assert store.event("one", 2).redacted
            assert "opens the store for writing" in str(store.erasure_due())
        assert state_of(path) is State.ERASED
        with Store(path) as store:
            assert files_with(path, SECRET) == [f"{SECRET} in s.db"]  # Conversation `two` says it still.
            assert store.erasure_due() is None
            assert store.redact("two", [1], reason="asked for").left_every_file
            assert files_with(path, SECRET) == []
        assert state_of(path) is State.CLEAN

    def test_the_log_is_emptied_too(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Where the file was written anew and only the log was not emptied, that alone is done."""
        advance = Erasure._advance

        def but_once(self: Erasure) -> None:
            with reader(path):
                advance(self)

        with Store(path) as store:
            store.redact("two", [1], reason="asked for")
            with monkeypatch.context() as patched:
                patched.setattr(Erasure, "_advance", but_once)
                patched.setattr("turnlog.store.erasure._PATIENCE", 0.0)
                assert not store.redact("one", [2], reason="asked for").left_every_file
            with reader(path, "ro"):
                store.close()
        assert state_of(path) is State.REWRITTEN
        with monkeypatch.context() as patched:
            patched.delattr(erasure, "_write_anew")
            with Store(path) as store:
                assert store.erasure_due() is None
                assert files_with(path, SECRET) == []
        assert state_of(path) is State.CLEAN

    def test_after_a_part_that_was_undone(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """What a part of a transaction erased and took back does not hide what another part erased."""
        with ending(path, monkeypatch) as store, suppress(SystemExit):
            with store.transaction():
                with suppress(KeyError), store.transaction():
                    store.redact("one", [2], reason="asked for")
                    raise KeyError
                assert store.event("one", 2).body_text is not None
                store.redact("one", [1], reason="asked for")
            pytest.fail("the process did not end")
        assert state_of(path) is State.ERASED

    def test_a_transaction_that_was_undone(self, path: Path) -> None:
        """Where all that was erased is taken back nothing is due."""
        before = number_of(path)
        with Store(path) as store:
            with suppress(KeyError), store.transaction():
                done = store.redact("one", [2], reason="asked for")
                assert "has not ended" in str(done.held_up_by)
                raise KeyError
            assert store.erasure_due() is None
            store.append("one", [said()])
        assert number_of(path) == before

    def test_what_another_did_not_come_to_is_seen_to(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """A redaction or erasure by a store that was open all the while does what a process that ended left undone."""
        with Store(path) as store:
            assert store.version("one") == 3
            owner = store.stream("two").uuid
            assert store.erase("two").left_every_file
            with ending(path, monkeypatch) as other:
                redact(other)
            assert store.erase(owner).left_every_file
            assert files_with(path, SECRET) == []
            with ending(path, monkeypatch) as other:
                redact(other, version=3)
            assert store.redact("one", [3], reason="again").left_every_file

    def test_another_s_redaction_is_not_taken_for_one_s_own(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """What another process erases between the rewrite and the mark's going is erased from every file, too."""
        move, moves = erasure._move, []

        def late(connection: sqlite3.Connection, number: int, state: State) -> int:
            moves.append(state)
            if len(moves) == 1:
                with closing(sqlite3.connect(path)) as other:
                    other.execute(f"PRAGMA user_version = {(number // 4 + 1) * 4 + State.ERASED}")
            return move(connection, number, state)

        with Store(path) as store, monkeypatch.context() as patched:
            patched.setattr(erasure, "_move", late)
            assert store.redact("one", [2], reason="asked for").left_every_file
        assert moves == [State.REWRITTEN, State.REWRITTEN, State.CLEAN]

    @pytest.mark.parametrize("number", [1, 2, 3, 7, 4711, 2**31 - 9])
    def test_a_number_that_somebody_else_set(self, path: Path, number: int) -> None:
        """Whatever `user_version` says, the file is clean after it was opened, and after the next redaction."""
        with closing(sqlite3.connect(path)) as other:
            other.execute(f"PRAGMA user_version = {number}")
        with Store(path) as store:
            assert store.erasure_due() is None
            assert store.redact("one", [2], reason="asked for").left_every_file
        assert state_of(path) is State.CLEAN


class TestReaders:
    """A reader that holds an old state of the store keeps its bytes in the log; whoever looks is told."""

    @pytest.fixture
    def store(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
        monkeypatch.setattr("turnlog.store.erasure._PATIENCE", 0.0)
        with Store(path) as store:
            store.redact("two", [1], reason="asked for")
            yield store

    def test_while_it_reads_and_after(self, path: Path, store: Store) -> None:
        """What a reader holds up is told, is erased for everybody at once, and is gone once the reader is."""
        with reader(path) as plain:
            done = store.redact("one", [2], reason="asked for")
            assert not done.left_every_file
            assert "a reader" in str(done.held_up_by)
            assert history(store, "one").messages[1].content == "[redacted]"
            assert search(store, SECRET) == []
            assert files_with(path, SECRET)
            plain.execute("COMMIT")
        store.append("one", [said("the next write")])
        assert files_with(path, SECRET) == []
        assert store.erasure_due() is None

    def test_a_reader_that_closes_first(self, path: Path, store: Store) -> None:
        """Once the reader and the store are closed, the words are gone."""
        with reader(path, "ro"):
            assert not store.redact("one", [2], reason="asked for").left_every_file
        store.close()
        assert files_with(path, SECRET) == []

    def test_a_reader_that_closes_last(self, path: Path, store: Store) -> None:
        """Once the store and then the reader are closed, the words are gone, and nobody says that they may be left."""
        with reader(path):
            assert not store.redact("one", [2], reason="asked for").left_every_file
            store.close()
        assert files_with(path, SECRET) == []
        with Store(path, read_only=True) as again:
            assert again.erasure_due() is None

    def test_a_reader_that_may_not_write_and_closes_last(self, path: Path, store: Store) -> None:
        """A reader that may not write cannot end the log when it closes last; the store that is opened next does."""
        with reader(path, "ro"):
            assert not store.redact("one", [2], reason="asked for").left_every_file
            store.close()
        with Store(path):
            assert files_with(path, SECRET) == []

    def test_what_it_costs_meanwhile(self, path: Path, store: Store) -> None:
        """While a reader holds the bytes, neither writing nor opening the store writes it anew each time."""
        store.append("large", [said("filler " * 100)] * 1000)
        with reader(path):
            assert not store.redact("one", [2], reason="asked for").left_every_file
            log = path.with_name(path.name + "-wal")
            before = log.stat().st_size
            size = path.stat().st_size
            for _ in range(5):
                store.append("small", [said("x")])
                with Store(path) as other:
                    assert "a reader" in str(other.erasure_due())
            assert log.stat().st_size - before < size

    def test_a_reader_that_came_later(self, path: Path, store: Store) -> None:
        """A reader of the erased state, or one that does not read just then, holds nothing up."""
        with closing(sqlite3.connect(path)) as idle:
            assert idle.execute("SELECT count(*) FROM events").fetchone()
            assert store.redact("one", [2], reason="asked for").left_every_file
        assert files_with(path, SECRET) == []

    def test_who_it_is(self, path: Path, store: Store) -> None:
        """Where the system tells, the process that reads is named, to those that only read the store as well."""
        code = (
            "import sqlite3, sys; plain = sqlite3.connect(sys.argv[1], isolation_level=None); plain.execute('BEGIN');"
            " plain.execute('SELECT count(*) FROM events').fetchone(); print(flush=True); input()"
        )
        with subprocess.Popen(
            [sys.executable, "-c", code, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as other:
            assert other.stdout is not None
            other.stdout.readline()
            done = store.redact("one", [2], reason="asked for")
            with Store(path, read_only=True) as third:
                told = [done.held_up_by, third.erasure_due()]
            other.communicate(b"\n")
        who = f"process {other.pid}" if os.path.exists("/proc/locks") else ""
        assert all(who in str(each) for each in told)

    @pytest.mark.parametrize("command", ["redact one 2 --reason=r", "list", "list --json", "verify", "verify --json"])
    def test_on_the_command_line(self, path: Path, store: Store, command: str) -> None:
        """`redact`, `list` and `verify` say on standard error that a reader keeps the bytes, and end as always."""
        with reader(path):
            store.redact("one", [1], reason="asked for")
            told = CliRunner().invoke(main, [f"--db={path}", *command.split()])
        assert told.exit_code == 0
        assert "a reader" in told.stderr
        assert len(told.stderr.splitlines()) == 1


class TestFaults:
    """What keeps the file from being written anew is told, and is no error of the redaction, which is done."""

    @pytest.mark.parametrize(
        ("code", "why"),
        [
            (sqlite3.SQLITE_FULL, "no space left"),
            (sqlite3.SQLITE_IOERR, "disk I/O error"),
            (sqlite3.SQLITE_READONLY, "cannot be written"),
            (sqlite3.SQLITE_BUSY, "another process is writing"),
        ],
    )
    def test_told(self, path: Path, monkeypatch: pytest.MonkeyPatch, code: int, why: str) -> None:
        """The reason is told with the redaction; the next write finishes it once the reason is gone."""

        def fails(_: sqlite3.Connection) -> None:
            error = sqlite3.OperationalError("disk I/O error")
            error.sqlite_errorcode = code
            raise error

        monkeypatch.setattr("turnlog.store.erasure._PATIENCE", 0.0)
        with Store(path) as store:
            with monkeypatch.context() as patched:
                patched.setattr(erasure, "_write_anew", fails)
                done = store.redact("one", [2], reason="asked for")
                assert why in str(done.held_up_by)
                assert store.event("one", 2).redacted
                with Store(path) as other:
                    assert why in str(other.erasure_due())
            store.append("one", [said()])
            assert store.erasure_due() is None

    def test_a_lock_that_is_not_had_for_the_mark(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """What was committed is no error because the mark could not be changed: that is left to the next write."""
        move = erasure._move

        def locked_out(connection: sqlite3.Connection, number: int, state: State) -> int:
            with closing(sqlite3.connect(path, isolation_level=None)) as other:
                other.execute("BEGIN IMMEDIATE")
                return move(connection, number, state)

        monkeypatch.setattr("turnlog.store.erasure._PATIENCE", 0.0)
        with Store(path) as store:
            with monkeypatch.context() as patched:
                patched.setattr(erasure, "_move", locked_out)
                assert "another process" in str(store.redact("one", [2], reason="asked for").held_up_by)
            assert state_of(path) is State.ERASED
            store.append("one", [said()])
        assert state_of(path) is State.CLEAN

    def test_a_disk_that_is_full(self, path: Path) -> None:
        """A redaction for which there is no room to write the file anew is done, and says what is not."""
        pages = 200
        with Store(path, durability="normal") as store:
            store.append("large", [said("filler " * 500)] * pages)
        code = (
            "import os, resource, sys; from turnlog.store import Store\n"
            "with Store(sys.argv[1]) as store:\n"
            "    resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, -1))\n"
            "    print(store.redact('one', [2], reason='r').held_up_by)\n"
        )
        done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")
        assert "in the file" in done.stdout
        with Store(path) as store:
            assert store.event("one", 2).redacted
            assert store.erasure_due() is None


@pytest.mark.parametrize("before", ["Erasure._advance", "_write_anew", "_move"])
def test_a_backup_meanwhile(path: Path, monkeypatch: pytest.MonkeyPatch, before: str) -> None:
    """What holds the erasing up in a store does not put what was erased into a backup of it."""
    with Store(path) as store:
        store.append("three", [said("x")] * 20)
    with ending(path, monkeypatch, before) as store:
        redact(store)
    target = path.with_name("copy")
    with Store(path, read_only=True) as store:
        assert store.erasure_due() is not None
        store.backup(target)
    assert state_of(target) is State.CLEAN
    with Store(target) as copy:
        assert copy.verify().faults == []
        assert copy.redact("two", [1], reason="asked for").left_every_file
    assert files_with(target, SECRET) == []


def each_step() -> list[Callable[[Store], object]]:
    return [
        lambda store: store.redact("one", [2], reason="r"),
        lambda store: store.erase("one"),
        lambda store: store.append("one", [{"type": "redaction", "target": 2, "reason": "r"}]),
    ]


@pytest.mark.parametrize("step", each_step())
def test_the_number_only_grows(path: Path, step: Callable[[Store], object]) -> None:
    """The number by which the file tells its state never comes again, so that no two erasures have the same."""
    with Store(path) as store:
        before = number_of(path)
        step(store)
        assert number_of(path) > before
