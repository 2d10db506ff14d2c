"""How a store's schema came to be. Each migration brings a store to `schema.sql`, which is written to be run again."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterator
from pathlib import Path

from sqlite_utils import Database
from sqlite_utils.migrations import Migrations

SCHEMA = Path(__file__).resolve().parent.parent / "schema.sql"

MIGRATIONS = Migrations("turnlog")


@MIGRATIONS()
def m001_log(db: Database) -> None:
    """Conversations, events, the triggers that guard them, the views that people read, and timelines."""
    _run_schema(db)


KNOWN = frozenset(migration.__name__ for migration in (m001_log,))


def unknown(db: Database) -> list[str]:
    """Migrations that the store has and this build does not know."""
    return [migration.name for migration in MIGRATIONS.applied(db) if migration.name not in KNOWN]


def triggers() -> dict[str, str]:
    """The triggers of `schema.sql` by name, each as SQLite keeps its text."""
    found = {}
    for statement in _statements(SCHEMA.read_text(encoding="utf-8")):
        start = statement.find("CREATE TRIGGER IF NOT EXISTS ")
        if start >= 0:
            text = statement[start:].strip().removesuffix(";").replace("IF NOT EXISTS ", "", 1)
            found[text.split()[2]] = text
    return found


def statements_of(tables: Collection[str]) -> list[str]:
    """Return the statements of `schema.sql` that make these tables and their indexes."""
    found = []
    for statement in _statements(SCHEMA.read_text(encoding="utf-8")):
        start = statement.find("CREATE ")
        words = statement[start:].split()
        name = words[words.index("EXISTS") + 1] if "EXISTS" in words else ""
        if name in tables or (words[1:2] == ["INDEX"] and words[words.index("ON") + 1] in tables):
            found.append(statement[start:])
    return found


def _run_schema(db: Database) -> None:
    for statement in _statements(SCHEMA.read_text(encoding="utf-8")):
        db.execute(statement)


def _statements(script: str) -> Iterator[str]:
    # One by one, since sqlite3's executescript would commit the transaction it runs in.
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
