"""The file of a store: which files are taken for one, and what happens when others write, move or delete it."""

from __future__ import annotations

import os
import shutil
import socket
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from test_append import said

from turnlog.projections import history, query
from turnlog.store import InvalidArgument, QueryRefused, Store, StoreUnusable

SCRIPT = """
import sys
from turnlog.store import Store
for line in sys.stdin:
    exec(line)
    print("done", flush=True)
"""


class Writer:
    """Another process with a store in a folder that it alone may write to; the folder is 0555 whenever it has done."""

    def __init__(self, path: Path) -> None:
        self._folder = path.parent
        self._process = subprocess.Popen(
            [sys.executable, "-c", SCRIPT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.run(f"path = {str(path)!r}")

    def run(self, statement: str) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        who = os.geteuid()
        os.seteuid(os.getuid())
        os.chmod(self._folder, 0o755)
        self._process.stdin.write(statement + "\n")
        self._process.stdin.flush()
        assert self._process.stdout.readline() == "done\n"
        os.chmod(self._folder, 0o555)
        os.seteuid(who)

    def change(self) -> None:
        """Open the store, append 300 events, and close it."""
        self.run("store = Store(path)")
        self.append(300)
        self.run("store.close()")

    def append(self, count: int) -> None:
        self.run(f"store.append('c', [{said('x' * 2000)!r}] * {count})")

    def end(self) -> None:
        self._process.communicate()


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that everybody can reach."""
    made = Path(tempfile.mkdtemp())
    os.chmod(made, 0o755)
    yield made
    os.chmod(made, 0o755)
    shutil.rmtree(made)


@pytest.fixture
def writer(folder: Path) -> Iterator[Writer]:
    """A process that has made a store with one event and closed it."""
    writer = Writer(folder / "s.db")
    writer.run("store = Store(path)")
    writer.append(1)
    writer.run("store.close()")
    yield writer
    writer.end()


@contextmanager
def nobody() -> Iterator[None]:
    """Be a user who may read and not write."""
    if os.getuid():
        yield
        return
    os.setegid(65534)
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)


class TestReadOnlyIsLive:
    def test_while_another_user_writes(self, folder: Path, writer: Writer) -> None:
        """A reader in a folder that only the writer can write to sees all that is appended, redacted and rewritten."""
        with nobody(), Store(folder / "s.db", read_only=True) as reader:
            assert reader.version("c") == 1
            assert len(history(reader, "c")) == 1
            events = reader.events("c", page=1)
            next(events)
            for number in (1, 2, 3):
                writer.run("store = Store(path)")
                writer.append(300)
                assert reader.version("c") == number * 301
                assert len(history(reader, "c")) == number * 300 + 1
                writer.run("store.redact('c', [2], reason='r')")
                assert history(reader, "c")[1].content == "[redacted]"
                writer.run("store.close()")
                assert reader.version("c") == number * 301 + 1
                assert list(query(reader, "SELECT count(*) FROM events")) == [(number * 301 + 1,)]
                assert reader.verify().faults == []
                assert len(list(reader.events("c"))) == len(list(reader.follow())) == number * 301 + 1
            assert [event.version for event in events] == list(range(2, 905))

    def test_a_view_of_one_moment(self, folder: Path, writer: Writer) -> None:
        """What is read in several steps is of one moment; where the file did not stay the same, it is refused."""
        with nobody(), Store(folder / "s.db", read_only=True) as reader:
            with reader.db.snapshot():
                assert reader.version("c") == 1
                writer.change()
                with pytest.raises(StoreUnusable, match="read again"):
                    reader.event("c", 1)
            assert reader.version("c") == 301

    def test_a_statement_that_is_running(self, folder: Path, writer: Writer) -> None:
        """A statement whose rows are read while the file changes is refused, not answered in part from each."""
        writer.change()
        with nobody(), Store(folder / "s.db", read_only=True) as reader:
            rows = iter(query(reader, "SELECT version, body FROM events"))
            next(rows)
            writer.change()
            with pytest.raises(QueryRefused, match="meanwhile"):
                list(rows)
            assert reader.version("c") == 601

    def test_a_backup_that_is_running(self, folder: Path, writer: Writer, tmp_path: Path) -> None:
        """A copy of a file that changed while it was copied is taken away."""
        with nobody(), Store(folder / "s.db", read_only=True) as reader, tempfile.TemporaryDirectory() as target:
            with pytest.raises(StoreUnusable, match="copy it again"):
                reader.backup(f"{target}/copy.db", lambda left, total: writer.change())
            assert os.listdir(target) == []
            reader.backup(f"{target}/copy.db")

    def test_a_log_that_cannot_be_read(self, folder: Path, writer: Writer) -> None:
        """A store whose last events are in a write-ahead log that cannot be read here is refused, not shown without."""
        writer.run("store = Store(path)")
        writer.append(1)
        os.chmod(folder, 0o755)
        copy = folder / "copy"
        copy.mkdir()
        for name in ("s.db", "s.db-wal"):
            shutil.copy(folder / name, copy / name)
        os.chmod(copy, 0o555)
        with nobody(), pytest.raises(StoreUnusable, match=r"s\.db-wal"):
            Store(copy / "s.db", read_only=True)
        os.chmod(copy, 0o755)
        with Store(copy / "s.db", read_only=True) as reader:
            assert reader.version("c") == 2
        writer.run("store.close()")


class TestMoved:
    WRITES: tuple[Callable[[Store], Any], ...] = (
        lambda store: store.append("c", [said()]),
        lambda store: store.append("new", [said()]),
        lambda store: store.rename("c", "d"),
        lambda store: store.fork("c"),
        lambda store: store.redact("c", [1], reason="r"),
        lambda store: store.erase("c"),
        lambda store: store.restore([]),
        lambda store: store.transaction().__enter__(),
    )

    @pytest.mark.parametrize("how", ["moved", "deleted", "replaced", "linked"])
    def test_the_next_write_says_so(self, tmp_path: Path, how: str) -> None:
        """A write to a store whose file was moved, deleted or replaced is refused and goes nowhere."""
        path = tmp_path / "s.db"
        with Store(tmp_path / "other.db") as other:
            other.append("c", [said()])
        if how == "linked":
            (tmp_path / "real.db").touch()
            path.symlink_to(tmp_path / "real.db")
        with Store(path) as store:
            store.append("c", [said()])
            if how == "moved":
                path.rename(tmp_path / "elsewhere.db")
            elif how == "replaced":
                (tmp_path / "other.db").rename(path)
            else:
                path.unlink()
            if how == "linked":
                path.symlink_to(tmp_path / "other.db")
            for write in self.WRITES:
                with pytest.raises(StoreUnusable, match="moved, replaced or deleted") as refused:
                    write(store)
                assert refused.value.path == str(path)
            with pytest.raises(StoreUnusable, match="moved, replaced or deleted"):
                store.backup(tmp_path / "copy.db")
        assert not (tmp_path / "copy.db").exists()
        assert path.exists() == (how in ("replaced", "linked"))
        if path.exists():
            with Store(path) as store:
                assert store.version("c") == 1

    def test_the_next_read_says_so_where_nothing_is_written(self, tmp_path: Path) -> None:
        """A read-only store does not go on showing a file that is no longer the store."""
        path = tmp_path / "s.db"
        with Store(path) as store:
            store.append("c", [said()])
        with Store(path, read_only=True) as reader:
            assert reader.version("c") == 1
            path.rename(tmp_path / "elsewhere.db")
            for read in (lambda: reader.version("c"), lambda: history(reader, "c"), lambda: list(reader.follow())):
                with pytest.raises(StoreUnusable, match="moved, replaced or deleted"):
                    read()

    def test_another_directory(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """A relative path leads to the same file wherever the process goes."""
        (tmp_path / "elsewhere").mkdir()
        monkeypatch.chdir(tmp_path)
        with Store("s.db") as store:
            store.append("c", [said()])
            monkeypatch.chdir(tmp_path / "elsewhere")
            assert store.path == str(tmp_path / "s.db")
            assert store.append("c", [said()]).last == 2
            assert list(query(store, "SELECT count(*) FROM events")) == [(2,)]
            store.backup("copy.db")
        assert [each.name for each in Path().iterdir()] == ["copy.db"]
        with Store("copy.db") as copy:
            assert copy.version("c") == 2


class TestWhatIsNoStore:
    def test_what_is_no_regular_file(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Devices, pipes, sockets and folders are refused before SQLite opens them, and nothing is left beside them."""
        monkeypatch.chdir(tmp_path)
        (tmp_path / "folder").mkdir()
        os.mkfifo(tmp_path / "pipe")
        with socket.socket(socket.AF_UNIX) as made:
            made.bind("socket")
            (tmp_path / "null").symlink_to("/dev/null")
            before = sorted(tmp_path.iterdir())
            for name in ("folder", "pipe", "socket", "null", "/dev/null"):
                for read_only in (False, True):
                    with pytest.raises(StoreUnusable, match=r"is a directory|is not a regular file"):
                        Store(name, read_only=read_only)
        assert sorted(tmp_path.iterdir()) == before
        assert not Path("/dev/null-journal").exists()

    @pytest.mark.parametrize("path", [None, 5, 1.5, "", "a\0b", "\ud800", b"", [], {}], ids=ascii)
    def test_what_is_no_path(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: Any) -> None:
        """What is not the path of a file is refused by name, and no file of that name is made."""
        monkeypatch.chdir(tmp_path)
        with pytest.raises(InvalidArgument) as refused:
            Store(path)
        assert (refused.value.field, refused.value.value) == ("path", path)
        assert list(tmp_path.iterdir()) == []

    @pytest.mark.parametrize(
        ("statements", "why"),
        [
            (["CREATE TABLE notes (x)"], "not a turnlog store"),
            (["CREATE VIEW v AS SELECT 1"], "not a turnlog store"),
            (["CREATE TABLE t (x)", "CREATE VIEW v AS SELECT 1", "DROP TABLE t"], "not a turnlog store"),
            (["PRAGMA application_id = 1196444487"], "another program's"),
            (["PRAGMA application_id = -1"], "another program's"),
            (["PRAGMA user_version = 7"], "not a turnlog store"),
            (["PRAGMA application_id = 0x7475726E", "CREATE TABLE notes (x)"], "not a turnlog store"),
            (["CREATE TABLE _sqlite_migrations (migration_set, name, applied_at)"], "not a turnlog store"),
        ],
        ids=str,
    )
    @pytest.mark.parametrize("read_only", [False, True], ids=["writing", "read-only"])
    def test_other_programs_files(self, tmp_path: Path, statements: list[str], why: str, read_only: bool) -> None:
        """A database with anything of another program in it, an application_id alone too, is refused and left alone."""
        path = tmp_path / "s.db"
        with closing(sqlite3.connect(path)) as plain:
            for statement in statements:
                plain.execute(statement)
            plain.commit()
        before = path.read_bytes()
        with pytest.raises(StoreUnusable, match=why):
            Store(path, read_only=read_only)
        assert path.read_bytes() == before

    def test_a_store_says_whose_it_is(self, tmp_path: Path) -> None:
        """The header of a store, and of its backup, has turnlog's application_id, so that `file` can tell."""
        with Store(tmp_path / "s.db") as store:
            store.append("c", [said()])
            store.redact("c", [1], reason="r")
            store.backup(tmp_path / "copy.db")
        for name in ("s.db", "copy.db"):
            assert (tmp_path / name).read_bytes()[68:72] == b"turn"

    def test_a_file_that_is_empty_is_made_a_store(self, tmp_path: Path) -> None:
        """An empty file is nobody's, and becomes a store where it may be written."""
        (tmp_path / "s.db").touch()
        with pytest.raises(StoreUnusable):
            Store(tmp_path / "s.db", read_only=True)
        with Store(tmp_path / "s.db") as store:
            assert store.append("c", [said()]).last == 1

    def test_memory_is_not_read_only(self) -> None:
        """A store in memory begins empty, so that there is nothing to open read-only."""
        with pytest.raises(InvalidArgument, match="read-only"):
            Store(":memory:", read_only=True)


@pytest.mark.parametrize("timeout", [-1, "1", None, float("nan"), True])
def test_a_wrong_timeout(tmp_path: Path, timeout: Any) -> None:
    """A timeout is a number of seconds."""
    with pytest.raises(InvalidArgument, match="timeout"):
        Store(tmp_path / "s.db", timeout=timeout)
