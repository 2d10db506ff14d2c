"""How a store's schema came to be. Each migration brings a store to `schema.sql`, which is written to be run again."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

from sqlite_utils import Database
from sqlite_utils.migrations import Migrations

SCHEMA = Path(__file__).resolve().parent.parent / "schema.sql"

MIGRATIONS = Migrations("turnlog")


@MIGRATIONS()
def m001_log(db: Database) -> None:
    """Conversations, events, the triggers that guard them and the views that people read."""
    for statement in _statements(SCHEMA.read_text(encoding="utf-8")):
        db.execute(statement)


KNOWN = frozenset(migration.__name__ for migration in (m001_log,))


def unknown(db: Database) -> list[str]:
    """Migrations that the store has and this build does not know."""
    return [migration.name for migration in MIGRATIONS.applied(db) if migration.name not in KNOWN]


def _statements(script: str) -> Iterator[str]:
    # One by one, since sqlite3's executescript would commit the transaction it runs in.
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
