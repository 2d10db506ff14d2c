"""The tables of timelines: making, copying and dropping them."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..database import Database
from ..migrations import statements_of
from ..streams import Stream
from .rows import (
    NEVER,
    SPAN_COLUMNS,
    STEP,
    TABLES,
    LineRow,
    Schema,
    SpanRow,
    TimelineKey,
)


class Tables:
    """The tables of timelines in one schema: `main` is the store's file, `temp` this connection's memory."""

    def __init__(self, db: Database, schema: Schema) -> None:
        self.db = db
        self.schema = schema
        self._sql: dict[str, str] = {}

    def exists(self) -> bool:
        """Return whether the tables are there."""
        catalogue = "sqlite_schema" if self.schema == "main" else "sqlite_temp_schema"
        found = self.db.row(f"SELECT count(*) FROM {self.schema}.{catalogue} WHERE type = 'table' AND name IN {TABLES}")
        return found is not None and found[0] == len(TABLES)

    def create(self) -> None:
        """Make the tables, empty."""
        for table in TABLES:
            self.db.rows(f"DROP TABLE IF EXISTS {self.schema}.{table}")
        for statement in statements_of(TABLES):
            self.db.rows(
                statement.replace("CREATE TABLE IF NOT EXISTS ", f"CREATE TABLE {self.schema}.").replace(
                    "CREATE INDEX IF NOT EXISTS ", f"CREATE INDEX {self.schema}."
                )
            )

    def find(self, key: TimelineKey) -> LineRow | None:
        """Return the timeline of a key."""
        row = self.db.row(
            f"SELECT line, version, secret FROM {self.schema}.timelines"
            " WHERE conversation = ? AND scope = ? AND what_if = ? AND rules = ?",
            (key.conversation, key.scope, key.what_if, key.rules),
        )
        return None if row is None else LineRow(*row)

    def add(self, key: TimelineKey, stream: Stream, secret: bytes | None = None, version: int = 0) -> LineRow:
        """Add a timeline of a stream, inside a transaction."""
        secret = secret or os.urandom(16)
        self.db.rows(
            f"INSERT INTO {self.schema}.timelines (conversation, scope, what_if, rules, version, secret, path)"
            " VALUES (?, ?, ?, ?, ?, ?, ?)",
            (key.conversation, key.scope, key.what_if, key.rules, version, secret, f"[[1, {NEVER}]]"),
        )
        found = self.find(key)
        assert found is not None
        self.db.write_many(
            f"INSERT INTO {self.schema}.segments VALUES ({found.line}, ?, ?, ?)",
            [(each.first, each.last, each.key) for each in stream.lineage],
        )
        return found

    def lines(self) -> list[tuple[TimelineKey, LineRow]]:
        """Return every timeline there is."""
        rows = self.db.rows(
            "SELECT conversation, scope, what_if, rules, line, version, secret"
            f" FROM {self.schema}.timelines ORDER BY line"
        )
        return [(TimelineKey(*row[:4]), LineRow(*row[4:])) for row in rows]

    def after(self, line: int, count: int) -> list[tuple[Any, ...]]:
        """Return the rows of the next timelines after a number, as they stand: number, key and how they were made."""
        return self.db.rows(
            f"SELECT line, conversation, scope, what_if, rules, version, secret FROM {self.schema}.timelines"
            " WHERE line > ? ORDER BY line LIMIT ?",
            (line, count),
        )

    def first_difference(self, line: int, other: Tables, other_line: int) -> str | None:
        """Return the name of the first table, costs left out, in which two timelines differ; None if there is none."""
        for table in TABLES:
            if table == "costs":
                continue
            columns = "path" if table == "timelines" else self._columns(table)
            mine, theirs = (
                f"SELECT {columns} FROM {each.schema}.{table} WHERE line = ?{number}"
                for number, each in enumerate((self, other), start=1)
            )
            sql = f"SELECT EXISTS ({mine} EXCEPT {theirs}) OR EXISTS ({theirs} EXCEPT {mine})"
            if self.db.row(sql, (line, other_line)) != (0,):
                return table
        return None

    def strays(self) -> list[str]:
        """Return the tables that have rows of no timeline, which would become part of a later one."""
        ours = f"line NOT IN (SELECT line FROM {self.schema}.timelines)"
        return [
            table
            for table in TABLES
            if self.db.row(f"SELECT 1 FROM {self.schema}.{table} WHERE {ours} LIMIT 1") is not None
        ]

    def _columns(self, table: str) -> str:
        """Return the columns of a table but for the timeline's number, which comes first."""
        found = self._sql.get(f"columns {table}")
        if found is None:
            rows = self.db.rows("SELECT name FROM pragma_table_info(?, ?)", (table, self.schema))
            found = self._sql[f"columns {table}"] = ", ".join(f'"{name}"' for (name,) in rows if name != "line")
        return found

    def reach(self, line: int, version: int) -> None:
        """Note the version that a timeline is caught up to."""
        self.db.write(f"UPDATE {self.schema}.timelines SET version = ? WHERE line = ?", (version, line))

    def set_path(self, line: int, ranges: list[tuple[int, int]]) -> None:
        """Note what is on the path of the scope now, as ranges of versions."""
        self.db.write(f"UPDATE {self.schema}.timelines SET path = ? WHERE line = ?", (json.dumps(ranges), line))

    def drop(self, line: int) -> None:
        """Delete a timeline with all its rows."""
        for table in TABLES:
            self.db.rows(f"DELETE FROM {self.schema}.{table} WHERE line = ?", (line,))

    def copy(self, source: Tables, old: LineRow, key: TimelineKey, stream: Stream, at: int) -> LineRow:
        """Add a timeline that begins as another was at version `at`."""
        made = self.add(key, stream, old.secret, at)
        new, mine, theirs = made.line, self.schema, source.schema
        lasts = "until IS NULL OR until > :at"
        until, rule, by = (f"CASE WHEN {lasts} THEN NULL ELSE {column} END" for column in ("until", "rule", "by"))
        spans = SPAN_COLUMNS.replace("until", until).replace("rule, by", f"{rule}, {by}")
        for table, columns, moment in (
            ("spans", spans, "since"),
            ("hidings", "version, origin, since, rule, by, shared, ended, ended_by", "since"),
            ("uses", "id, version, part, since, call, call_part, NULL", "since"),
            ("meanings", "transfer, call, part", "transfer"),
            ("facts", "name, since, value", "since"),
            ("blocks", f"kind, level, block, since, {until}", "since"),
            ("counts", "version, visible, hidden", "version"),
            ("notes", "version, rule, call", "version"),
            ("names", "code, name, since", "since"),
        ):
            self.db.rows(
                f"INSERT INTO {mine}.{table} SELECT :new, {columns} FROM {theirs}.{table}"
                f" WHERE line = :old AND {moment} <= :at",
                {"new": new, "old": old.line, "at": at},
            )
        return made

    def open_copied(self, line: int, own: list[tuple[int, int]], shared: list[tuple[int, int]]) -> None:
        """Note of the calls of a copy whether they wait for a result, along the paths given as ranges."""
        on_path = (
            f"EXISTS (SELECT 1 FROM {self.schema}.spans,"
            " json_each(CASE spans.form & 32 WHEN 0 THEN :own ELSE :shared END) AS path"
            " WHERE spans.line = :line AND spans.place = 4 * {0}.version AND spans.version IS NULL"
            " AND {0}.version BETWEEN path.value ->> 0 AND path.value ->> 1)"
        )
        results = (
            f"FROM {self.schema}.uses AS result WHERE result.line = :line AND result.call = uses.version"
            " AND result.call_part = uses.part AND result.call IS NOT NULL"
            f" AND NOT EXISTS (SELECT 1 FROM {self.schema}.uses AS later"
            " WHERE later.line = :line AND later.id = result.id AND later.version = result.version"
            " AND later.part = result.part AND later.since > result.since)"
            f" AND {on_path.format('result')}"
        )
        self.db.rows(
            f"UPDATE {self.schema}.uses SET open = (SELECT CASE WHEN min(result.part) IS NULL THEN 1"
            f" WHEN max(result.part = -1) THEN NULL ELSE 2 END {results})"
            f" WHERE line = :line AND part >= 0 AND {on_path.format('uses')}",
            {"line": line, "own": json.dumps(own), "shared": json.dumps(shared)},
        )

    def blocks(self, line: int, kind: int, at: int, backwards: bool, after: int | None = None) -> Iterator[int]:
        """Return the blocks that had something to show or to hide after version `at`, in order, beyond `after`."""
        covers = "since <= ? AND (until IS NULL OR until > ?)"
        order, beyond = ("DESC", "<=") if backwards else ("ASC", ">=")
        above = (NEVER if backwards else -NEVER) if after is None else after >> STEP
        while True:
            row = self.db.row(
                f"SELECT block FROM {self.schema}.blocks WHERE line = ? AND kind = ? AND level = 1 AND block {beyond} ?"
                f" AND {covers} ORDER BY block {order} LIMIT 1",
                (line, kind, above, at, at),
            )
            if row is None:
                return
            rows = self.db.rows(
                f"SELECT block FROM {self.schema}.blocks WHERE line = ? AND kind = ? AND level = 0"
                f" AND block BETWEEN ? AND ? AND {covers} ORDER BY block {order}",
                (line, kind, row[0] << STEP, (row[0] + 1 << STEP) - 1, at, at),
            )
            for (block,) in rows:
                if after is None or (block < after if backwards else block > after):
                    yield block
            above = row[0] - 1 if backwards else row[0] + 1

    def _rows(self, rest: str, parameters: Sequence[Any] | Mapping[str, Any], before: str = "") -> list[SpanRow]:
        sql = self._sql.get(rest)
        if sql is None:
            sql = self._sql[rest] = f"SELECT {SPAN_COLUMNS} FROM {before}{self.schema}.spans {rest}"
        return list(map(SpanRow._make, self.db.rows(sql, parameters)))
