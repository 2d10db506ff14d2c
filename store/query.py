"""One read-only SQL statement over the store, for people: on a connection that can do nothing else."""

from __future__ import annotations

import re
import sqlite3
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from .arguments import instance_of, seconds
from .database import Database
from .errors import InvalidArgument, TurnlogError, shown
from .file import Connection, StoreFile

Parameters = Sequence[Any] | Mapping[str, Any]

MAX_SQL = 100_000  # Characters of a statement.
MAX_COLUMNS = 1000
# Bytes of a value or a row; an event has up to 16 MiB.
MAX_BYTES = 64 * 1024 * 1024
MAX_PATTERN = 1000  # Bytes of a pattern of LIKE or GLOB, whose matching nothing interrupts.

_LIMITS = {
    sqlite3.SQLITE_LIMIT_LENGTH: MAX_BYTES,
    sqlite3.SQLITE_LIMIT_COLUMN: MAX_COLUMNS,
    sqlite3.SQLITE_LIMIT_ATTACHED: 0,
    sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH: MAX_PATTERN,
}
_STEPS = 1000  # Of SQLite's machine, between two looks at the clock.
_ROWS = 100  # Fetched at a time.
_WAIT = 5.0  # Seconds to wait for a lock; readers of a write-ahead log hardly ever have to.

_FUNCTIONS_TEXT = """
    abs char coalesce concat concat_ws format glob hex if ifnull iif instr length like likelihood likely lower ltrim
    max min nullif octet_length printf quote random randomblob replace round rtrim sign soundex sqlite_version substr
    substring trim typeof unhex unicode unistr unistr_quote unlikely upper zeroblob
    acos acosh asin asinh atan atan2 atanh ceil ceiling cos cosh degrees exp floor ln log log10 log2 mod pi pow power
    radians sin sinh sqrt tan tanh trunc
    current_date current_time current_timestamp date datetime julianday strftime time timediff unixepoch
    avg count group_concat median percentile percentile_cont percentile_disc string_agg sum total
    cume_dist dense_rank first_value lag last_value lead nth_value ntile percent_rank rank row_number
    -> ->> json json_array json_array_insert json_array_length json_error_position json_extract json_group_array
    json_group_object json_insert json_object json_patch json_pretty json_quote json_remove json_replace json_set
    json_type json_valid jsonb jsonb_array jsonb_extract jsonb_group_array jsonb_group_object jsonb_insert
    jsonb_object jsonb_patch jsonb_remove jsonb_replace jsonb_set
    bm25 highlight match snippet
"""
_FUNCTIONS = frozenset(_FUNCTIONS_TEXT.split())
# What the table-valued functions pragma_table_info and their kin ask, and FTS5 of its own accord.
_PRAGMAS = frozenset(
    (
        "data_version",
        "foreign_key_list",
        "index_info",
        "index_list",
        "index_xinfo",
        "table_info",
        "table_list",
        "table_xinfo",
    )
)
_ALLOWED = frozenset((sqlite3.SQLITE_SELECT, sqlite3.SQLITE_RECURSIVE))
_ACTIONS_TEXT = """
    ALTER_TABLE ANALYZE ATTACH CREATE_INDEX CREATE_TABLE CREATE_TEMP_INDEX CREATE_TEMP_TABLE CREATE_TEMP_TRIGGER
    CREATE_TEMP_VIEW CREATE_TRIGGER CREATE_VIEW CREATE_VTABLE DELETE DETACH DROP_INDEX DROP_TABLE DROP_TEMP_INDEX
    DROP_TEMP_TABLE DROP_TEMP_TRIGGER DROP_TEMP_VIEW DROP_TRIGGER DROP_VIEW DROP_VTABLE INSERT PRAGMA REINDEX
    SAVEPOINT TRANSACTION UPDATE
"""
_ACTIONS = {getattr(sqlite3, f"SQLITE_{name}"): name.replace("_", " ") for name in _ACTIONS_TEXT.split()}
_FIRST_WORD = re.compile(r"(?:\s|;|--[^\n]*(?:\n|\Z)|/\*.*?(?:\*/|\Z))*(\w+|\S?)", re.DOTALL)
_STATEMENTS = ("SELECT", "VALUES", "WITH")


class QueryRefused(TurnlogError):
    """A statement is not run, or not to its end. `what` is the part of it that is refused, `why` the reason."""

    def __init__(self, what: str, why: str) -> None:
        self.what = what
        self.why = why
        super().__init__(f"query: {what} {why}" if what else f"query: {why}")


class QueryTimedOut(TurnlogError):
    """A statement was ended because it ran for longer than `seconds`."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        super().__init__(f"query: ended after {seconds:g} s, its time limit")


class QueryResult:
    """What a statement gives: the names of its `columns`, and its `rows`, which are read as they are asked for.

    It can be iterated over once. Closing it, which its end and `with` do too, ends the statement; until then the
    store keeps what it reads, so that a redaction meanwhile cannot clear the write-ahead log.
    """

    def __init__(self, columns: tuple[str, ...], rows: Iterator[tuple[Any, ...]]) -> None:
        self.columns = columns
        self.rows = rows

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        """Return the rows."""
        return self.rows

    def __enter__(self) -> QueryResult:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the statement; closing twice is nothing."""
        close = getattr(self.rows, "close", None)
        if close is not None:
            close()


def run(db: Database, sql: str, parameters: Parameters, timeout: float) -> QueryResult:
    """Return the result of one read-only statement that may itself run for `timeout` seconds.

    It sees what is committed; in a store in memory, which has one connection, all rows are read at once.

    :raises QueryRefused: it is not one statement that reads, or is wrong.
    :raises QueryTimedOut: it ran for too long, here or while rows are asked for.
    """
    _check(sql, timeout)
    if db.file.in_memory:
        with db.alone() as connection:
            running = _Running(db.file, connection, timeout)
            with running.guarded(), _restored(connection):
                columns, rows = running.begun(sql, parameters)
                return QueryResult(columns, iter(list(rows)))
    connection = db.connect()
    try:
        _harden(connection)
        running = _Running(db.file, connection, timeout)
        running.guard()
        columns, rows = running.begun(sql, parameters)
    except BaseException:
        connection.close()
        raise
    closing = _closing(connection, rows)
    next(closing)  # So that closing what nobody has begun to read closes the connection too.
    return QueryResult(columns, closing)


def _check(sql: str, timeout: float) -> None:
    if not seconds("timeout", timeout):
        raise InvalidArgument("timeout", timeout, "is not a number of seconds above 0")
    if len(instance_of("sql", sql, str, "text")) > MAX_SQL:
        raise QueryRefused("", f"the statement has {len(sql):,} characters, more than {MAX_SQL:,}")
    found = _FIRST_WORD.match(sql)
    word = "" if found is None else found[1]
    if not word:
        raise QueryRefused("", "there is no statement")
    if word.upper() not in _STATEMENTS:
        raise QueryRefused(shown(word), f"is refused: a statement begins with {', '.join(_STATEMENTS)}")


class _Running:
    """A statement on its connection: what it is refused, and how long it has run."""

    def __init__(self, file: StoreFile, connection: Connection, timeout: float) -> None:
        self._file = file
        self._connection = connection
        self._timeout = timeout
        self._left = timeout
        self._deadline = 0.0
        self._refused: str | None = None

    def guard(self) -> None:
        """Let nothing but a statement that reads run, and nothing for longer than its time."""
        self._connection.set_authorizer(self._authorize)
        self._connection.set_progress_handler(self._is_late, _STEPS)

    @contextmanager
    def guarded(self) -> Iterator[None]:
        """Guard the connection, and leave it as it was."""
        self.guard()
        try:
            yield
        finally:
            self._connection.set_authorizer(None)
            self._connection.set_progress_handler(None, _STEPS)

    def begun(self, sql: str, parameters: Parameters) -> tuple[tuple[str, ...], Iterator[tuple[Any, ...]]]:
        """Begin the statement; its columns, and its rows as they are asked for."""
        cursor = self._connection.cursor()
        with self._timed():
            cursor.execute(sql, parameters)
            first = cursor.fetchmany(_ROWS)
        columns = tuple(column[0] for column in cursor.description or ())
        return columns, self._rows(cursor, first)

    def _rows(self, cursor: sqlite3.Cursor, rows: list[tuple[Any, ...]]) -> Iterator[tuple[Any, ...]]:
        while rows:
            yield from rows
            with self._timed():
                rows = cursor.fetchmany(_ROWS)

    @contextmanager
    def _timed(self) -> Iterator[None]:
        """Let SQLite work for as long as is left, and say in our words what it refuses."""
        begun = time.monotonic()
        self._deadline = begun + self._left
        try:
            yield
        except (sqlite3.Error, sqlite3.Warning, UnicodeError, OverflowError) as error:
            self._check_current()
            raise self._explained(error) from None
        finally:
            self._left -= time.monotonic() - begun
        self._check_current()

    def _check_current(self) -> None:
        if not self._file.is_current(self._connection):
            raise QueryRefused("", "the store was written to meanwhile, where that cannot be shared: ask again")

    def _explained(self, error: Exception) -> BaseException:
        if self._refused is not None and any(word in str(error) for word in ("not authorized", "prohibited")):
            return QueryRefused(self._refused, "is refused: a query only reads")
        if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_INTERRUPT:
            # An interrupt that came while the clock was looked at is lost in SQLite.
            return QueryTimedOut(self._timeout) if time.monotonic() > self._deadline else KeyboardInterrupt()
        return QueryRefused("", " ".join(str(error).split()))

    def _is_late(self) -> int:
        return int(time.monotonic() > self._deadline)

    def _authorize(self, action: int, one: str | None, two: str | None, _: str | None, __: str | None) -> int:
        match action:
            case sqlite3.SQLITE_READ:
                allowed, what = one != "sqlite_dbpage", f"the table {one}"
            case sqlite3.SQLITE_FUNCTION:
                allowed, what = (two or "").lower() in _FUNCTIONS, f"the function {two}"
            case sqlite3.SQLITE_PRAGMA:
                allowed, what = (one or "").lower() in _PRAGMAS, f"PRAGMA {one}"
            case sqlite3.SQLITE_UPDATE if one == "sqlite_master":
                # What SQLite asks when it makes a virtual table usable; a statement that does it is refused by SQLite.
                allowed, what = True, ""
            case _:
                allowed, what = action in _ALLOWED, " ".join(filter(None, (_ACTIONS.get(action, f"{action}"), one)))
        # SQLite does without some of what it is refused on its way; what it gives up for is refused last.
        if not allowed:
            self._refused = what
        return sqlite3.SQLITE_OK if allowed else sqlite3.SQLITE_DENY


def _lenient(text: bytes) -> str:
    return text.decode("utf-8", "replace")


def _harden(connection: sqlite3.Connection) -> None:
    # Not trusted_schema = OFF: older SQLites then refuse json_extract in our own index. The authorizer holds in views.
    connection.text_factory = _lenient
    for limit, value in _LIMITS.items():
        connection.setlimit(limit, value)
    for setting in (f"busy_timeout = {int(_WAIT * 1000)}", "query_only = ON"):
        connection.execute(f"PRAGMA {setting}")


@contextmanager
def _restored(connection: sqlite3.Connection) -> Iterator[None]:
    """Limit a connection that others use, and leave it as it was."""
    limits = {limit: connection.setlimit(limit, value) for limit, value in _LIMITS.items()}
    try:
        yield
    finally:
        for limit, value in limits.items():
            connection.setlimit(limit, value)


def _closing(connection: sqlite3.Connection, rows: Iterator[tuple[Any, ...]]) -> Iterator[Any]:
    """Yield once, then the rows, and close the connection."""
    try:
        yield
        yield from rows
    finally:
        connection.close()
