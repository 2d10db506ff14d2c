"""The command that runs a SQL statement, and the forms in which it prints the rows."""

from __future__ import annotations

import csv
import io
import math
import sys
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

import click
import msgspec
from sqlite_utils.utils import dedupe_keys

from turnlog import projections
from turnlog.store import QueryResult, Store
from turnlog.store.characters import escaped

from . import common, output
from .common import main
from .printing import Piece, Printer, print_data, print_json_lines, progress, say

_MAX_TABLE = 1000  # Rows, since the width of a column is that of its widest cell.
_MAX_CELL = 200
# What makes a spreadsheet run a text as a formula.
_FORMULAS = ("=", "+", "-", "@", "\t", "\r")


@main.command()
@click.argument("statement", metavar="SELECT…")
@click.option("--csv", "as_csv", is_flag=True, help="CSV, with the names of the columns first.")
@click.option("--conversation", help="Catch up the histories of this conversation alone.")
@click.option("--timeout", type=float, default=30.0, show_default=True, help="Seconds that the statement may run.")
@common.as_json
@common.projecting
def query(store: Store, statement: str, as_csv: bool, conversation: str | None, timeout: float, as_json: bool) -> None:
    """Run one SQL statement that reads, over everything in the store; - reads it from standard input.

    Three views are made for it. `visible` has, of each message in each scope, from when until when a model could see
    it: conversation, scope, version, origin, role, assistant, content, since, until, rule, by, cause, lost. `messages`
    has what was said, and `handoffs` the transfers. The tables `conversations` and `events` are what is stored. A table
    shows the first 1,000 rows and the beginning of long texts; --csv and --json give everything.
    """
    if as_csv and as_json:
        raise click.UsageError("give --csv or --json")
    if statement == "-":
        statement = sys.stdin.read()
    with (
        progress("histories", as_csv or as_json) as done,
        projections.query(store, statement, timeout=timeout, conversation=conversation, progress=done) as result,
    ):
        if as_csv:
            print_data(_csv_lines(result), lambda line: escaped(line, keep="\t\n"))
        elif as_json:
            print_json_lines(_json_lines(result))
        else:
            _show(result)


def _csv_lines(result: QueryResult) -> Iterator[str]:
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\r\n")  # It quotes cells with either of the two.
    for row in _with_header(result):
        writer.writerow(list(map(_csv_cell, row)))
        yield buffer.getvalue().removesuffix("\r\n")
        buffer.seek(0)
        buffer.truncate()


def _with_header(result: QueryResult) -> Iterator[Sequence[Any]]:
    yield result.columns
    yield from result


def _csv_cell(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.hex()
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULAS) else value


def _json_lines(result: QueryResult) -> Iterator[str]:
    """The lines of a list of objects, one a line; it is never held as a whole."""
    # An object has a key once: a second column of the same name gets a number.
    names = dedupe_keys(result.columns)
    before = "["
    for row in result:
        cells = map(_json_cell, row)
        yield before + msgspec.json.encode(dict(zip(names, cells, strict=True))).decode()
        before = ","
    yield "[]" if before == "[" else "]"


def _json_cell(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.hex()
    # JSON has no infinity.
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _show(result: QueryResult) -> None:
    rows = iter(result)
    Printer().table(result.columns, [tuple(map(_table_cell, row)) for row in islice(rows, _MAX_TABLE)])
    if next(rows, None) is not None:
        say(f"(only the first {_MAX_TABLE:,} rows are shown; --csv and --json give all)")


def _table_cell(value: Any) -> Piece:
    if value is None:
        return "NULL", "dim"
    text = value.hex() if isinstance(value, bytes) else str(value)
    return output.one_line(text, _MAX_CELL)
