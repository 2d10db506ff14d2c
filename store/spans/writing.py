"""Write the rows of timelines: spans begin and end, and what is kept beside them is noted."""

from __future__ import annotations

from collections.abc import Sequence

from .past import Past
from .present import Present
from .rows import (
    NEVER,
    PLACES,
    SPAN_COLUMNS,
    STEP,
    HidingRow,
    SpanRow,
    UseRow,
    places_of,
    version_of,
)


class Writing(Present, Past):
    """Writes the rows of timelines, inside a transaction."""

    def insert_spans(self, line: int, rows: Sequence[SpanRow]) -> None:
        """Begin spans."""
        self.db.write_many(
            f"INSERT INTO {self.schema}.spans (line, {SPAN_COLUMNS}) VALUES ({line}, {', '.join('?' * 12)})", rows
        )

    def insert_plain(self, line: int, rows: Sequence[tuple[int, int, int | None]]) -> None:
        """Begin the spans of messages that are visible at their own places: version, `form` and assistant of each."""
        self.db.write_many(
            f"INSERT INTO {self.schema}.spans (line, place, since, form, assistant)"
            f" VALUES ({line}, {PLACES} * ?1, ?1, ?2, ?3)",
            rows,
        )

    def end_spans(self, line: int, ends: Sequence[tuple[int, int | None, int | None, int, int]]) -> None:
        """End spans: each as `until`, `rule`, `by`, and the `place` and `since` that name it."""
        self.db.write_many(
            f"UPDATE {self.schema}.spans SET until = ?, rule = ?, by = ?"
            f" WHERE line = {line} AND place = ? AND since = ?",
            ends,
        )

    def insert_hidings(self, line: int, rows: Sequence[HidingRow]) -> None:
        """Say why messages that no span holds are hidden."""
        self.db.write_many(f"INSERT INTO {self.schema}.hidings VALUES ({line}, ?, ?, ?, ?, ?, ?, ?, ?)", rows)

    def insert_uses(self, line: int, rows: Sequence[UseRow]) -> None:
        """Add calls and results."""
        self.db.write_many(f"INSERT OR REPLACE INTO {self.schema}.uses VALUES ({line}, ?, ?, ?, ?, ?, ?, ?)", rows)

    def set_open(self, line: int, calls: Sequence[tuple[int | None, int, int, int]]) -> None:
        """Note of calls whether they wait for a result: each as `open`, `id`, `version`, `part`."""
        self.db.write_many(
            f"UPDATE {self.schema}.uses SET open = ? WHERE line = {line} AND id = ? AND version = ? AND part = ?", calls
        )

    def insert_meaning(self, line: int, transfer: int, call: int, part: int) -> None:
        """Note which call a transfer means."""
        self.db.write(f"INSERT INTO {self.schema}.meanings VALUES (?, ?, ?, ?)", (line, transfer, call, part))

    def insert_facts(self, line: int, rows: Sequence[tuple[str, int, str | None]]) -> None:
        """Note facts: each as its name, the version that it holds from, and its value."""
        self.db.write_many(f"INSERT OR REPLACE INTO {self.schema}.facts VALUES ({line}, ?, ?, ?)", rows)

    def insert_count(self, line: int, version: int, visible: int, hidden: int) -> None:
        """Note how many messages are visible after a version, and how many entries the hidden list has."""
        self.db.write(
            f"INSERT OR REPLACE INTO {self.schema}.counts VALUES (?, ?, ?, ?)", (line, version, visible, hidden)
        )

    def insert_notes(self, line: int, rows: Sequence[tuple[int, str, str]]) -> None:
        """Note findings that an event caused by itself: each as version, rule, and the id of a call or nothing."""
        self.db.write_many(f"INSERT OR IGNORE INTO {self.schema}.notes VALUES ({line}, ?, ?, ?)", rows)

    def insert_name(self, line: int, code: int, name: str, since: int) -> None:
        """Give an assistant's name a number, from the event on in which it is first met."""
        self.db.write(f"INSERT INTO {self.schema}.names VALUES (?, ?, ?, ?)", (line, code, name, since))

    def begin_block(self, line: int, kind: int, block: int, version: int) -> None:
        """Note that a block has something to show, or to hide, from a version on, if it is not noted."""
        for level, number in enumerate((block, block >> STEP)):
            if not self._is_open(line, kind, level, number):
                self.db.write(
                    f"INSERT INTO {self.schema}.blocks VALUES (?, ?, ?, ?, ?, NULL)",
                    (line, kind, level, number, version),
                )

    def end_block(self, line: int, kind: int, block: int, version: int) -> None:
        """Note that a block has nothing to show, or to hide, from a version on."""
        update = (
            f"UPDATE {self.schema}.blocks SET until = ?"
            " WHERE line = ? AND kind = ? AND level = ? AND block = ? AND until IS NULL"
        )
        self.db.write(update, (version, line, kind, 0, block))
        above = block >> STEP
        left = self.db.row(
            f"SELECT 1 FROM {self.schema}.blocks WHERE line = ? AND kind = ? AND level = 0 AND block BETWEEN ? AND ?"
            " AND until IS NULL LIMIT 1",
            (line, kind, above << STEP, (above + 1 << STEP) - 1),
        )
        if left is None:
            self.db.write(update, (version, line, kind, 1, above))

    def _is_open(self, line: int, kind: int, level: int, block: int) -> bool:
        row = self.db.row(
            f"SELECT 1 FROM {self.schema}.blocks WHERE line = ? AND kind = ? AND level = ? AND block = ?"
            " AND until IS NULL",
            (line, kind, level, block),
        )
        return row is not None

    def is_showing(self, line: int, block: int) -> bool:
        """Return whether anything of a block of places is visible now."""
        row = self.db.row(
            f"SELECT 1 FROM {self.schema}.spans"
            " WHERE line = ? AND place BETWEEN ? AND ? AND until IS NULL AND why IS NULL LIMIT 1",
            (line, *places_of(block)),
        )
        return row is not None

    def is_hiding(self, line: int, block: int) -> bool:
        """Return whether anything that the events of a block placed is hidden now, or has a call taken."""
        first, last = (place // PLACES for place in places_of(block))
        spans = self.of_messages(line, first, last, NEVER)
        placed = {(version_of(row), row.origin) for row in spans}
        placed |= {(row.version, row.origin) for row in self.hidings_of(line, first, last, NEVER)}
        whole = (row for row in spans if row.until is None and row.why is None and row.removed is None)
        shown = {(version_of(row), row.origin) for row in whole}
        return placed != shown
