"""The tables that are derived from the log: a damaged one stands in nobody's way, since it can be made again."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection
from contextlib import closing
from typing import TYPE_CHECKING

from .errors import StoreUnusable
from .migrations import statements_of, tables

if TYPE_CHECKING:
    from .database import Database

_LOG = {"conversations", "events"}
SEARCH_TABLES = (
    "search",
    "search_checkpoint",
    "search_data",
    "search_idx",
    "search_docsize",
    "search_content",
    "search_config",
)

# Errors that say that the file cannot be written just now, not that a table in it is damaged.
_UNWRITABLE = frozenset(
    (
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_NOMEM,
        sqlite3.SQLITE_READONLY,
        sqlite3.SQLITE_INTERRUPT,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_PERM,
        sqlite3.SQLITE_AUTH,
    )
)


def discard_damaged(connection: sqlite3.Connection) -> bool:
    """Take what is damaged out of the file, outside of a transaction; return whether anything was.

    Of the search index and of timelines all goes if any of it is damaged; the latter's tables are made again, empty.

    :raises sqlite3.Error: the file cannot be written, or its schema cannot be read.
    """
    timelines = tables() - _LOG
    damaged = [names for names in (SEARCH_TABLES, timelines) if not are_sound(connection, names)]
    if not damaged:
        return False
    connection.execute("BEGIN IMMEDIATE")
    try:
        for names in damaged:
            forget(connection, names)
        if timelines in damaged:
            for statement in statements_of(timelines):
                connection.execute(statement)
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    return True


def are_sound(connection: sqlite3.Connection, names: Collection[str]) -> bool:
    """Return whether the pages of these tables can be read, of those that are there.

    A write transaction that meets a bad page is lost: so it is not asked here, but another connection, or none yet.
    """
    marks = ", ".join("?" * len(names))
    query = f"SELECT name FROM sqlite_schema WHERE type = 'table' AND rootpage > 0 AND name IN ({marks})"
    try:
        there = connection.execute(query, tuple(names)).fetchall()
        return all(connection.execute(f"PRAGMA quick_check({name})").fetchall() == [("ok",)] for (name,) in there)
    except sqlite3.DatabaseError as error:
        if not is_damage(error):
            raise
        return False


def is_damage(error: sqlite3.Error) -> bool:
    """Return whether an error says that what a file holds is damaged."""
    return (getattr(error, "sqlite_errorcode", None) or 0) & 0xFF in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def is_unwritable(error: sqlite3.Error) -> bool:
    """Return whether an error says that the file cannot be written or read just now; else something is damaged."""
    return (getattr(error, "sqlite_errorcode", 0) or 0) & 0xFF in _UNWRITABLE


def forget(connection: sqlite3.Connection, names: Collection[str]) -> None:
    """Take tables out of the schema that are too damaged to be dropped, inside the caller's transaction.

    Their pages stay until the file is written anew.
    """
    version = int(connection.execute("PRAGMA schema_version").fetchone()[0])
    connection.execute("PRAGMA writable_schema = ON")
    try:
        for name in names:
            connection.execute("DELETE FROM sqlite_schema WHERE name = ?1 OR tbl_name = ?1", (name,))
        connection.execute(f"PRAGMA schema_version = {version + 1}")
    finally:
        connection.execute("PRAGMA writable_schema = RESET")


def is_sound(db: Database, names: Collection[str]) -> bool:
    """Return whether these tables can be read as they were last committed, through another connection."""
    if db.file.in_memory:
        return True
    try:
        with closing(db.connect()) as connection:
            return are_sound(connection, names)
    except StoreUnusable:
        return True
    except sqlite3.DatabaseError as error:
        return is_unwritable(error)


def forget_damaged(db: Database, names: Collection[str]) -> None:
    """Have the file written anew without tables that are too damaged to be dropped, inside the caller's transaction."""
    with db.alone() as connection:
        forget(connection, names)
    db.erasure.begin()
