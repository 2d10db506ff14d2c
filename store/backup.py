"""Backup: a copy of the live store in a new file."""

from __future__ import annotations

import os
import sqlite3
import stat
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from .arguments import file_path
from .erasure import finish_in_copy
from .errors import StoreUnusable
from .file import Connection, StoreFile

_MODE = 0o644  # Of the copy of a store in memory.
_CONTENT = (
    "SELECT (SELECT count(*) FROM conversations), (SELECT count(*) FROM events), (SELECT max(position) FROM events),"
    " (SELECT group_concat(name || ' ' || coalesce(sql, '')) FROM sqlite_schema)"
)


def copy(
    file: StoreFile,
    source: Connection,
    target: str | os.PathLike[str],
    retried: Callable[[Callable[[], Any]], Any],
    progress: Callable[[int, int], None] | None,
) -> None:
    """Copy a store to a new file, which may be read by whoever may read the store's own.

    `retried` waits for locks, and `progress` hears pages left and pages in all.

    :raises StoreUnusable: the target exists or cannot be written, or the copy is not what the store has.
    """
    path = file_path("target", target)
    if source.in_transaction:
        raise StoreUnusable(file.path, "has a transaction going on: copy it when that has ended")
    _make(path, _MODE if file.in_memory else stat.S_IMODE(os.stat(file.path).st_mode))
    begun = False
    try:
        with closing(
            sqlite3.connect(f"{Path(path).absolute().as_uri()}?mode=rw", uri=True, isolation_level=None)
        ) as written:
            # The open read transaction keeps writers from making the backup start again.
            retried(lambda: source.execute("BEGIN"))
            begun = True
            content = retried(lambda: source.execute(_CONTENT).fetchone())
            source.backup(written, pages=1024, progress=progress and (lambda _, left, total: progress(left, total)))
            source.execute("COMMIT")
            if written.execute(_CONTENT).fetchone() != content or not file.is_current(source):
                raise StoreUnusable(path, "is not what the store has, and was taken away: copy it again")
            # What holds the erasing up in the store is no reason to keep what was erased in the copy.
            finish_in_copy(written)
    except sqlite3.Error as error:
        _remove(path)
        raise StoreUnusable(path, f"cannot be written: {error}") from None
    except BaseException:
        _remove(path)
        raise
    finally:
        if begun and source.in_transaction:
            source.execute("ROLLBACK")


def _make(path: str, mode: int) -> None:
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, mode & 0o666))
    except FileExistsError:
        raise StoreUnusable(path, "exists already; a backup goes to a new file") from None
    except OSError as error:
        raise StoreUnusable(path, f"cannot be written: {error.strerror}") from None


def _remove(path: str) -> None:
    for suffix in ("", "-journal", "-wal", "-shm"):
        with suppress(FileNotFoundError):
            os.unlink(path + suffix)
