"""Files that commands write: what is there keeps what it is, its mode, its owner and its links."""

from __future__ import annotations

import errno
import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import IO

from turnlog.store import Store, StoreUnusable
from turnlog.store.characters import escaped_json


def write_file(store: Store, target: str, lines: Iterable[str]) -> int:
    """Write lines of JSON to a file, all or nothing; return how many they were.

    A file that is there is replaced by another of its mode and owner, or is written to if it has further links or is in
    a folder where no file can be made. A link is followed. A pipe or a device of characters, such as /dev/stdout, is
    written to as the lines come.

    :raises StoreUnusable: the file is the store's own.
    :raises OSError: it cannot be written.
    """
    found = _look(target)
    _refuse_own(store, target, found)
    if found is not None and not stat.S_ISREG(found.st_mode):
        return _write_special(target, found, lines)
    if found is not None:
        open(target, "ab").close()  # Whoever may not write to a file may not replace it either.
    real = os.path.realpath(target)
    made = None if found is not None and found.st_nlink > 1 else _beside(real, found)
    if made is None:
        return _write_over(real, lines)
    file, name = made
    try:
        with file:
            count = _write(file, lines)
        os.replace(name, real)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(name)
        raise
    return count


def _look(path: str) -> os.stat_result | None:
    try:
        return os.stat(path)
    except FileNotFoundError:
        return None


def _refuse_own(store: Store, target: str, found: os.stat_result | None) -> None:
    for suffix in ("", "-wal", "-shm", "-journal"):
        own = _look(store.path + suffix)
        if own is not None and found is not None and os.path.samestat(own, found):
            raise StoreUnusable(target, "is the store itself, and is not written over")


def _write_special(target: str, found: os.stat_result, lines: Iterable[str]) -> int:
    if not (stat.S_ISFIFO(found.st_mode) or stat.S_ISCHR(found.st_mode)):
        raise OSError(errno.EINVAL, "neither a file nor a pipe nor a device of characters", target)
    with open(target, "w", encoding="utf-8", newline="\n") as file:
        return _write(file, lines, escaped_json if file.isatty() else str)


def _beside(real: str, found: os.stat_result | None) -> tuple[IO[str], str] | None:
    """Return a new file beside another, with its mode and owner, and its name; None if that cannot be made."""
    name = os.path.join(os.path.dirname(real), f".{os.path.basename(real)[:100]}.{os.urandom(4).hex()}.new")
    try:
        # What is not there yet gets the mode that the umask leaves.
        descriptor = os.open(name, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666)
    except OSError:
        if found is None:
            raise
        return None
    file = os.fdopen(descriptor, "w", encoding="utf-8", newline="\n")
    try:
        if found is not None:
            shutil.copystat(real, name)
            os.utime(name)
            made = os.stat(name)
            if (made.st_uid, made.st_gid) != (found.st_uid, found.st_gid):
                os.chown(name, found.st_uid, found.st_gid)
                os.chmod(name, stat.S_IMODE(found.st_mode))
    except OSError:
        file.close()
        os.unlink(name)
        return None
    return file, name


def _write_over(real: str, lines: Iterable[str]) -> int:
    """Write into a file that stays the same one, once all lines are there."""
    with tempfile.TemporaryFile("w+", encoding="utf-8", newline="\n") as spooled:
        count = _write(spooled, lines)
        spooled.seek(0)
        with open(real, "r+", encoding="utf-8", newline="\n") as file:
            shutil.copyfileobj(spooled, file)
            file.truncate()
    return count


def _write(file: IO[str], lines: Iterable[str], form: Callable[[str], str] = str) -> int:
    count = 0
    for line in lines:
        file.write(form(line) + "\n")
        count += 1
    return count
