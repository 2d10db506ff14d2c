"""How a store's schema came to be. Each migration brings a store to `schema.sql`, which is written to be run again."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterator
from pathlib import Path

from sqlite_utils import Database
from sqlite_utils.migrations import Migrations

from .errors import NewerStore, StoreUnusable

SCHEMA = Path(__file__).resolve().parent.parent / "schema.sql"

# What SQLite's header of every store says, so that no program takes it for its own: "turn" in ASCII.
APPLICATION_ID = 0x7475726E

MIGRATIONS = Migrations("turnlog")


@MIGRATIONS()
def m001_log(db: Database) -> None:
    """Make conversations, events, the triggers that guard them, the views that people read, and timelines."""
    db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    _run_schema(db)


KNOWN = frozenset(migration.__name__ for migration in (m001_log,))


def recognise(db: Database, path: str, read_only: bool) -> None:
    """Refuse a file that is not a store, unless it is an empty one to be made a store; nothing is written to it.

    :raises StoreUnusable: it is another program's, or there is nothing to read.
    :raises NewerStore: a newer build wrote it.
    """

    def read(sql: str) -> int:
        return int(db.execute(sql).fetchone()[0])

    # In this order: a store that another process makes meanwhile has its mark at once with its tables.
    content = read("SELECT count(*) FROM sqlite_schema") or read("PRAGMA user_version")
    mark = read("PRAGMA application_id")
    if mark == APPLICATION_ID:
        try:
            applied = [migration.name for migration in MIGRATIONS.applied(db)]
        except (LookupError, TypeError, ValueError):
            raise StoreUnusable(path, "is damaged: its migrations cannot be read") from None
        newer = [name for name in applied if name not in KNOWN]
        if newer:
            raise NewerStore(path, newer)
        if applied:
            return
    elif mark:
        raise StoreUnusable(path, f"is not a turnlog store: its application_id, {mark:#010x}, is another program's")
    elif not content and not read_only:
        return
    raise StoreUnusable(path, "is not a turnlog store")


def triggers() -> dict[str, str]:
    """The triggers of `schema.sql` by name, each as SQLite keeps its text."""
    found = {}
    for statement in _statements(SCHEMA.read_text(encoding="utf-8")):
        start = statement.find("CREATE TRIGGER IF NOT EXISTS ")
        if start >= 0:
            text = statement[start:].strip().removesuffix(";").replace("IF NOT EXISTS ", "", 1)
            found[text.split()[2]] = text
    return found


def tables() -> set[str]:
    """Return the names of the tables of `schema.sql`."""
    words = (statement.split() for statement in _statements(SCHEMA.read_text(encoding="utf-8")))
    return {each[each.index("TABLE") + 4] for each in words if "CREATE TABLE" in " ".join(each)}


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
