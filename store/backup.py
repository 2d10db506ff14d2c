"""Backup: a copy of the live store in a new file."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from .errors import StoreUnusable


def copy(
    source: sqlite3.Connection,
    target: Path,
    retried: Callable[[Callable[[], Any]], Any],
    progress: Callable[[int, int], None] | None,
) -> None:
    """Copy a store to a new file; `retried` waits for locks, and `progress` hears pages left and pages in all.

    :raises StoreUnusable: the target exists or cannot be written.
    """
    if target.exists():
        raise StoreUnusable(str(target), "exists already; a backup goes to a new file")
    begun = False
    try:
        with closing(sqlite3.connect(target)) as written:
            # The open read transaction keeps writers from making the backup start again.
            retried(lambda: source.execute("BEGIN"))
            begun = True
            retried(lambda: source.execute("SELECT count(*) FROM sqlite_schema").fetchone())
            source.backup(written, pages=1024, progress=progress and (lambda _, left, total: progress(left, total)))
            source.execute("COMMIT")
    except sqlite3.Error as error:
        target.unlink(missing_ok=True)
        raise StoreUnusable(str(target), f"cannot be written: {error}") from None
    except BaseException:
        target.unlink(missing_ok=True)
        raise
    finally:
        if begun and source.in_transaction:
            source.execute("ROLLBACK")
