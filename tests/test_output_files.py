"""Files that commands write with --output: what is there keeps what it is."""

from __future__ import annotations

import json
import os
import pty
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from test_append import said
from test_cli_terminal import TURNLOG
from test_files import folder, nobody

from turnlog.cli import main
from turnlog.cli.files import write_file
from turnlog.store import Store

__all__ = ["folder"]

COMMANDS = {
    "export": ["export", "c", "--format=events"],
    "messages": ["export", "c", "--format=openai"],
    "checkpoint": ["checkpoint"],
}


@pytest.fixture(params=COMMANDS)
def command(request: pytest.FixtureRequest) -> list[str]:
    """Each command that writes a file."""
    return COMMANDS[request.param]


@pytest.fixture
def db(tmp_path: Path) -> Path:
    """A store with a conversation."""
    with Store(tmp_path / "turnlog.db") as store:
        store.append("c", [said("one"), said("\u202etwo")])
    return tmp_path / "turnlog.db"


def run(db: Path, command: list[str], target: Path) -> Result:
    return CliRunner().invoke(main, [f"--db={db}", *command, f"--output={target}"], catch_exceptions=False)


def is_written(path: Path) -> bool:
    """Whether a file has what commands write, which is JSON with the conversation's uuid or its text in it."""
    text = path.read_text(encoding="utf-8")
    return text.endswith("\n") and ("two" in text or "turnlog_checkpoint" in text)


@contextmanager
def umask(mask: int) -> Iterator[None]:
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


@pytest.mark.parametrize(("mask", "mode"), [(0o022, 0o644), (0o027, 0o640), (0o077, 0o600), (0, 0o666)])
def test_a_new_file_has_the_mode_that_the_umask_leaves(db: Path, command: list[str], mask: int, mode: int) -> None:
    """A new file may be read and written by whom the umask lets."""
    target = db.parent / "out.json"
    with umask(mask):
        assert run(db, command, target).exit_code == 0
    assert is_written(target)
    assert stat.S_IMODE(target.stat().st_mode) == mode


@pytest.mark.parametrize("mode", [0o600, 0o644, 0o664, 0o755])
def test_a_file_keeps_its_mode(db: Path, command: list[str], mode: int) -> None:
    """A file that is there is replaced by one of the same mode and owner, and nothing is left beside it."""
    target = db.parent / "out.json"
    target.write_text("before")
    os.chmod(target, mode)
    owner = (1000, 1000) if os.getuid() == 0 else (os.getuid(), os.getgid())
    os.chown(target, *owner)
    with umask(0o077):
        assert run(db, command, target).exit_code == 0
    assert is_written(target)
    found = target.stat()
    assert (stat.S_IMODE(found.st_mode), found.st_uid, found.st_gid) == (mode, *owner)
    assert {each.name for each in db.parent.iterdir()} <= {
        "out.json",
        *(f"turnlog.db{end}" for end in ("", "-wal", "-shm")),
    }


@pytest.mark.parametrize("there", [True, False], ids=["to a file", "to nothing"])
def test_a_link_stays_a_link(db: Path, command: list[str], there: bool) -> None:
    """What a link leads to is written, and the link goes on leading there."""
    (db.parent / "folder").mkdir()
    real, link = db.parent / "folder" / "out.json", db.parent / "link"
    if there:
        real.write_text("before")
    link.symlink_to(real)
    assert run(db, command, link).exit_code == 0
    assert link.is_symlink()
    assert is_written(real)


def test_a_file_of_two_names_stays_one_file(db: Path, command: list[str]) -> None:
    """Both names of a file have what is written, also if it is shorter than what was there."""
    one, two = db.parent / "one", db.parent / "two"
    one.write_text("before" * 1000)
    os.link(one, two)
    assert run(db, command, one).exit_code == 0
    assert os.path.samefile(one, two)
    assert is_written(two)
    assert "before" not in two.read_text(encoding="utf-8")


def test_a_pipe_is_written_to(db: Path, command: list[str]) -> None:
    """Who reads from a pipe gets what is written; the pipe stays one."""
    target = db.parent / "pipe"
    os.mkfifo(target)
    read: list[str] = []
    reader = threading.Thread(target=lambda: read.append(target.read_text(encoding="utf-8")))
    reader.start()
    done = run(db, command, target)
    reader.join(30)
    assert done.exit_code == 0
    assert stat.S_ISFIFO(target.stat().st_mode)
    assert read
    assert "two" in read[0] or "turnlog_checkpoint" in read[0]


def test_a_terminal_is_written_to(db: Path) -> None:
    """A device of characters is written to and stays one; one that is a terminal is sent nothing that it would obey."""
    terminal, end = pty.openpty()
    target = Path(os.ttyname(end))
    device = target.stat().st_rdev
    assert run(db, COMMANDS["export"], target).exit_code == 0
    read = b""
    while read.count(b"\n") < 2:
        read += os.read(terminal, 65536)
    written = read.decode().replace("\r\n", "\n")
    assert target.stat().st_rdev == device
    os.close(end)
    os.close(terminal)
    assert "\u202e" not in written
    assert [json.loads(line)["content"] for line in written.splitlines()] == ["one", "\u202etwo"]


def test_standard_output_by_its_name(db: Path) -> None:
    """/dev/stdout gets the lines and nothing else, so that another program can read them."""
    arguments = [*TURNLOG, f"--db={db}", *COMMANDS["export"], "--output=/dev/stdout"]
    done = subprocess.run(arguments, capture_output=True, text=True, encoding="utf-8", timeout=60, check=True)
    assert [json.loads(line)["content"] for line in done.stdout.splitlines()] == ["one", "\u202etwo"]
    assert done.stderr == "/dev/stdout: 2 lines\n"
    assert sys.platform != "linux" or Path("/dev/stdout").is_symlink()


def test_a_socket_is_refused(db: Path, command: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """What is neither a file nor can be written to as one is refused in one line, and stays what it is."""
    monkeypatch.chdir(db.parent)
    with socket.socket(socket.AF_UNIX) as made:
        made.bind("socket")
        done = run(db, command, db.parent / "socket")
    assert (done.exit_code, len(done.stderr.splitlines())) == (1, 1)
    assert stat.S_ISSOCK((db.parent / "socket").stat().st_mode)


def test_a_file_that_must_not_be_written(folder: Path, store: Store) -> None:
    """A file that we may not write to is not replaced, although its folder would allow it."""
    target = folder / "out.json"
    target.write_text("before")
    os.chmod(target, 0o444)
    os.chmod(folder, 0o777)
    with nobody(), pytest.raises(PermissionError):
        write_file(store, str(target), ["after"])
    assert target.read_text() == "before"
    assert [*folder.iterdir()] == [target]


def test_a_folder_in_which_nothing_can_be_made(folder: Path, store: Store) -> None:
    """A file that we may write to is written to where its folder cannot be changed."""
    target = folder / "out.json"
    target.write_text("before")
    os.chmod(target, 0o666)
    os.chmod(folder, 0o555)
    with nobody():
        assert write_file(store, str(target), ["after"]) == 1
    assert target.read_text() == "after\n"
    assert stat.S_IMODE(target.stat().st_mode) == 0o666


@pytest.mark.parametrize("linked", [False, True], ids=["alone", "linked"])
def test_all_or_nothing(db: Path, linked: bool) -> None:
    """If the lines end in an error the file is as it was, and nothing is left beside it."""
    target = db.parent / "out.json"
    target.write_text("before")
    if linked:
        os.link(target, db.parent / "other")

    def lines() -> Iterator[str]:
        yield "after"
        raise ZeroDivisionError

    with Store(db, read_only=True) as store:
        before = set(db.parent.iterdir())
        with pytest.raises(ZeroDivisionError):
            write_file(store, str(target), lines())
        assert target.read_text() == "before"
        assert set(db.parent.iterdir()) == before
