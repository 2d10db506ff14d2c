"""Whether the store's file is as SQLite and `schema.sql` say that it must be: its pages, its indexes, its schema."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from functools import cache

import sqlite_utils

from . import migrations
from .derived_tables import SEARCH_TABLES
from .errors import shown
from .spans.rows import TABLES as TIMELINES
from .state import State

_MAX_NAMED = 10
_SEARCH = frozenset(SEARCH_TABLES)
_SCHEMA = "SELECT type, name, tbl_name, sql FROM sqlite_schema"
# The table in which sqlite-utils notes the migrations. Its text is that library's, and may be another version's.
_MIGRATIONS = "_sqlite_migrations"


def structure_faults(state: State) -> Iterator[str]:
    """Return what is wrong with the pages and indexes of the file, and with its schema."""
    yield from damage(state)
    yield from schema_faults(state)


def damage(state: State) -> Iterator[str]:
    """Return what SQLite's own check finds, in which every row is looked up in every index."""
    try:
        found = [str(text) for (text,) in state.rows(f"PRAGMA main.integrity_check({_MAX_NAMED})")]
    except sqlite3.DatabaseError as error:
        # It computes what indexes hold, and gives up where that cannot be done.
        found = [str(error)]
    for text in found:
        # Newer SQLites ask full-text tables too; `search_audit` compares ours with the log itself.
        if text != "ok" and "FTS5 table" not in text:
            yield f"SQLite finds it damaged: {' '.join(text.split())}"


def schema_faults(state: State) -> Iterator[str]:
    """Return how the tables, indexes, triggers and views differ from those that a new store has.

    Timelines and the search index may be missing, since what is derived from the log is made again when it is used:
    a table of theirs that was dropped, with its indexes, is no fault. An index that is missing beside its table is
    one, and so is whatever is not ours, on their tables too. What has the name of a table of the search index is left
    to `search_audit`.
    """
    expected = _expected()
    there = [((kind, name), table, text) for kind, name, table, text in state.rows(_SCHEMA)]
    for (kind, name), table, text in there:
        if kind != "trigger" and (table == _MIGRATIONS or _SEARCH & {name, table if text is None else name}):
            continue
        if str(name).startswith("sqlite_stat"):  # What ANALYZE writes; it says how to look, never what is there.
            continue
        if (kind, name) not in expected:
            yield f"the {kind} {shown(name)} is not one of turnlog's"
        elif expected[kind, name] != (table, text):
            yield f"the {kind} {name} is not as it was made"
    names = {key for key, *_ in there}
    dropped = {table for table in TIMELINES if ("table", table) not in names}
    for (kind, name), (table, _) in expected.items():
        if (kind, name) not in names and table not in dropped:
            yield f"the {kind} {name} is missing"


@cache
def _expected() -> dict[tuple[str, str], tuple[str, str | None]]:
    """Return the table and the text of each object that a new store has, by its kind and name."""
    with closing(sqlite3.connect(":memory:")) as connection:
        migrations.MIGRATIONS.apply(sqlite_utils.Database(connection, execute_plugins=False))
        return {(kind, name): (table, text) for kind, name, table, text in connection.execute(_SCHEMA)}
