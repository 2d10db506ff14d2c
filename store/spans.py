"""The rows of timelines: spans and what is kept beside them, in the store's file or in memory.

A timeline is a projection of one scope of one conversation under one set of modes. Its rows are derived from the log,
and may be dropped at any time. They hold no text. Rows are added as events are applied, and never change but for their
end, so that whoever reads the view at a version sees the same whatever is applied meanwhile.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b
from typing import Any, Literal, NamedTuple

import msgspec

from .database import Database
from .migrations import statements_of

ORIGINS = ("message", "response", "summary", "prompt", "first_message", "destination_message")
ROLES = ("user", "assistant", "tool", "system")
# What may end a span or hide a message; a number of these is stored, so new ones are added at the end.
RULES_THAT_HIDE = (
    "rewind",
    "summary",
    "clear",
    "assistant",
    "orphan-result",
    "duplicate-result",
    "replaced-result",
    "summary-covers-nothing-visible",
    "transfer:rolling-history",
    "transfer:swap-system-message-in-history",
    "transfer:swap-system-message-in-history-and-remove-transfer-tool-messages",
    "transfer:delete-history",
    "context:all",
    "context:lastNMessages",
    "context:userAndAssistantMessages",
    "context:previousAssistantMessages",
    "context:none",
)
TEXT, OTHER, TEXT_ONLY = 1, 2, 4  # Bits of `parts`: it has text, other parts, and shows its text alone.
SHOWS, HIDES = 0, 1  # Kinds of blocks.
BLOCK_BITS = (8, 14)  # A block has 256 places, which are 64 versions; one of the level above has 64 of these.
MANY = 1000  # Rows from which on a page is read in one go.
PLACES = 4  # Places a version has: its destination message, message or summary, then prompt, then first message.
NEVER = 2**62

TABLES = ("spans", "hidings", "uses", "meanings", "facts", "blocks", "counts", "notes", "names", "timelines")
Schema = Literal["main", "temp"]
_SPAN = "place, since, until, version, origin, role, assistant, source, shared, parts, calls, removed, why, why_by, rule, by"


class SpanRow(NamedTuple):
    """A span: a message that is held from `since` until before `until`, in one form and at one place.

    `version` is None where it follows from the place, `source` where it is the version. `why` (with `why_by`) is the
    rule that keeps it from being visible; `rule` (with `by`, None where it is `until`) what ended the span. Names are
    stored as numbers: places in the tuples of this module, and of the timeline's own assistants.
    """

    place: int
    since: int
    until: int | None
    version: int | None
    origin: int
    role: int
    assistant: int | None
    source: int | None
    shared: int
    parts: int
    calls: int
    removed: str | None
    why: int | None
    why_by: int | None
    rule: int | None
    by: int | None


class HidingRow(NamedTuple):
    """Why a message that is not held is hidden from `since` on, and what ended it, where no span says it."""

    version: int
    origin: int
    since: int
    rule: int
    by: int
    shared: int
    ended: int
    ended_by: int


class UseRow(NamedTuple):
    """A tool call (`part` is its index in its message) or a result (`part` is FINAL or INTERIM) on the log.

    `id` is a hash of the call's id. A result's row says which call it is paired with, from `since` on.
    """

    id: int
    version: int
    part: int
    since: int
    call: int | None
    call_part: int | None
    open: int | None


FINAL, INTERIM = -1, -2


class LineRow(NamedTuple):
    """A timeline: its key, the version it is caught up to, and the secret that its hashes of call ids are made with."""

    line: int
    version: int
    secret: bytes


class TimelineKey(msgspec.Struct, frozen=True, gc=False):
    """What a timeline is of: a conversation (its number in the store), a scope, a what-if as text, a rules' revision."""

    conversation: int
    scope: str
    what_if: str
    rules: int


class Spans:
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

    # Timelines

    def find(self, key: TimelineKey) -> LineRow | None:
        """Return the timeline of a key."""
        row = self.db.row(
            f"SELECT line, version, secret FROM {self.schema}.timelines"
            " WHERE conversation = ? AND scope = ? AND what_if = ? AND rules = ?",
            (key.conversation, key.scope, key.what_if, key.rules),
        )
        return None if row is None else LineRow(*row)

    def add(self, key: TimelineKey, secret: bytes | None = None, version: int = 0) -> LineRow:
        """Add a timeline, inside a transaction."""
        secret = secret or os.urandom(16)
        self.db.rows(
            f"INSERT INTO {self.schema}.timelines (conversation, scope, what_if, rules, version, secret)"
            " VALUES (?, ?, ?, ?, ?, ?)",
            (key.conversation, key.scope, key.what_if, key.rules, version, secret),
        )
        found = self.find(key)
        assert found is not None
        return found

    def lines(self) -> list[tuple[TimelineKey, LineRow]]:
        """Return every timeline there is."""
        rows = self.db.rows(
            f"SELECT conversation, scope, what_if, rules, line, version, secret FROM {self.schema}.timelines ORDER BY line"
        )
        return [(TimelineKey(*row[:4]), LineRow(*row[4:])) for row in rows]

    def reach(self, line: int, version: int) -> None:
        """Note the version that a timeline is caught up to."""
        self.db.write(f"UPDATE {self.schema}.timelines SET version = ? WHERE line = ?", (version, line))

    def drop(self, line: int) -> None:
        """Delete a timeline with all its rows."""
        for table in TABLES:
            self.db.rows(f"DELETE FROM {self.schema}.{table} WHERE line = ?", (line,))

    def copy(self, source: Spans, old: LineRow, key: TimelineKey, at: int) -> LineRow:
        """Add a timeline that begins as another was at version `at`."""
        made = self.add(key, old.secret, at)
        new, mine, theirs = made.line, self.schema, source.schema
        lasts = "until IS NULL OR until > :at"
        until, rule, by = (f"CASE WHEN {lasts} THEN NULL ELSE {column} END" for column in ("until", "rule", "by"))
        spans = _SPAN.replace("until", until).replace("rule, by", f"{rule}, {by}")
        for table, columns, moment in (
            ("spans", spans, "since"),
            ("hidings", "version, origin, since, rule, by, shared, ended, ended_by", "since"),
            ("uses", "id, version, part, since, call, call_part, NULL", "since"),
            ("meanings", "transfer, call, part", "transfer"),
            ("facts", "name, since, value", "since"),
            ("blocks", f"kind, level, block, since, {until}", "since"),
            ("counts", "version, visible, hidden", "version"),
            ("notes", "version, rule, call", "version"),
            ("names", "code, name", "0"),
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
            f"EXISTS (SELECT 1 FROM {self.schema}.spans, json_each(CASE spans.shared WHEN 1 THEN :shared ELSE :own END)"
            " AS path WHERE spans.line = :line AND spans.place = 4 * {0}.version AND spans.version IS NULL"
            " AND {0}.version BETWEEN path.value ->> 0 AND path.value ->> 1)"
        )
        results = (
            f"FROM {self.schema}.uses AS result WHERE result.line = :line AND result.call = uses.version"
            " AND result.call_part = uses.part AND result.call IS NOT NULL"
            f" AND NOT EXISTS (SELECT 1 FROM {self.schema}.uses AS later WHERE later.line = :line AND later.id = result.id"
            " AND later.version = result.version AND later.part = result.part AND later.since > result.since)"
            f" AND {on_path.format('result')}"
        )
        self.db.rows(
            f"UPDATE {self.schema}.uses SET open = (SELECT CASE WHEN min(result.part) IS NULL THEN 1"
            f" WHEN max(result.part = -1) THEN NULL ELSE 2 END {results})"
            f" WHERE line = :line AND part >= 0 AND {on_path.format('uses')}",
            {"line": line, "own": json.dumps(own), "shared": json.dumps(shared)},
        )

    # Writing

    def insert_spans(self, line: int, rows: Sequence[SpanRow]) -> None:
        """Begin spans."""
        self.db.write_many(
            f"INSERT INTO {self.schema}.spans (line, {_SPAN}) VALUES ({line}, {', '.join('?' * 16)})", rows
        )

    def end_spans(self, line: int, ends: Sequence[tuple[int, int | None, int | None, int, int]]) -> None:
        """End spans: each as `until`, `rule`, `by`, and the `place` and `since` that name it."""
        self.db.write_many(
            f"UPDATE {self.schema}.spans SET until = ?, rule = ?, by = ? WHERE line = {line} AND place = ? AND since = ?",
            ends,
        )

    def insert_hidings(self, line: int, rows: Sequence[HidingRow]) -> None:
        """Say why messages that no span holds are hidden."""
        self.db.write_many(f"INSERT INTO {self.schema}.hidings VALUES ({line}, ?, ?, ?, ?, ?, ?, ?, ?)", rows)

    def insert_uses(self, line: int, rows: Iterable[UseRow]) -> None:
        """Add calls and results."""
        self.db.write_many(
            f"INSERT OR REPLACE INTO {self.schema}.uses VALUES ({line}, ?, ?, ?, ?, ?, ?, ?)", list(rows)
        )

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

    def insert_name(self, line: int, code: int, name: str) -> None:
        """Give an assistant's name a number."""
        self.db.write(f"INSERT INTO {self.schema}.names VALUES (?, ?, ?)", (line, code, name))

    # Reading what is held now

    def held(
        self, line: int, shared: int, low: int = -NEVER, high: int = NEVER, prompts: bool = False
    ) -> list[SpanRow]:
        """Return what is held now from place `low` to `high`, in order, of the scope's own or of shared memory."""
        which = "" if prompts else " AND origin <> 3"
        return self._rows(
            f"INDEXED BY spans_open WHERE line = ? AND until IS NULL AND place BETWEEN ? AND ? AND shared = ?{which}"
            " ORDER BY place",
            (line, low, high, shared),
        )

    def held_prompts(self, line: int) -> list[SpanRow]:
        """Return the prompts in force now, in order."""
        return self._rows(
            "INDEXED BY spans_prompts WHERE line = ? AND until IS NULL AND origin = 3 ORDER BY place", (line,)
        )

    def last_visible(self, line: int, count: int) -> list[SpanRow]:
        """Return the scope's own last visible messages, the last first; prompts are none."""
        return self._rows(
            "INDEXED BY spans_open WHERE line = ? AND until IS NULL AND shared = 0 AND why IS NULL AND origin <> 3"
            " ORDER BY place DESC LIMIT ?",
            (line, count),
        )

    def late(self, line: int, since: int) -> list[SpanRow]:
        """Return what is held now in spans that began after `since`, and not with their own event."""
        return self._rows(
            f"INDEXED BY spans_late WHERE line = ? AND since > ? AND until IS NULL AND {_LATE}", (line, since)
        )

    def not_visible(self, line: int) -> list[SpanRow]:
        """Return what is held now and not visible, in order."""
        return self._rows(
            "INDEXED BY spans_invisible WHERE line = ? AND until IS NULL AND why IS NOT NULL ORDER BY place", (line,)
        )

    def is_showing(self, line: int, block: int) -> bool:
        """Return whether anything of a block of places is visible now."""
        row = self.db.row(
            f"SELECT 1 FROM {self.schema}.spans INDEXED BY spans_open"
            " WHERE line = ? AND until IS NULL AND place BETWEEN ? AND ? AND why IS NULL LIMIT 1",
            (line, block << BLOCK_BITS[0], (block + 1 << BLOCK_BITS[0]) - 1),
        )
        return row is not None

    def is_hiding(self, line: int, block: int) -> bool:
        """Return whether anything that the events of a block placed is hidden now, or has a call taken."""
        first, last = (block << BLOCK_BITS[0]) // PLACES, ((block + 1 << BLOCK_BITS[0]) - 1) // PLACES
        placed = {(version_of(row), row.origin) for row in self.of_messages(line, first, last, NEVER)}
        placed |= {(row.version, row.origin) for row in self.hidings_of(line, first, last, NEVER)}
        shown = {
            (version_of(row), row.origin)
            for row in self.of_messages(line, first, last, NEVER)
            if row.until is None and row.why is None and row.removed is None
        }
        return placed != shown

    def begin_block(self, line: int, kind: int, block: int, version: int) -> None:
        """Note that a block has something to show, or to hide, from a version on, if it is not noted."""
        for level, bits in enumerate(BLOCK_BITS):
            number = block >> (bits - BLOCK_BITS[0])
            if not self._is_alive(line, kind, level, number):
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
        step = BLOCK_BITS[1] - BLOCK_BITS[0]
        above = block >> step
        left = self.db.row(
            f"SELECT 1 FROM {self.schema}.blocks WHERE line = ? AND kind = ? AND level = 0 AND block BETWEEN ? AND ?"
            " AND until IS NULL LIMIT 1",
            (line, kind, above << step, (above + 1 << step) - 1),
        )
        if left is None:
            self.db.write(update, (version, line, kind, 1, above))

    def _is_alive(self, line: int, kind: int, level: int, block: int) -> bool:
        row = self.db.row(
            f"SELECT 1 FROM {self.schema}.blocks WHERE line = ? AND kind = ? AND level = ? AND block = ?"
            " AND until IS NULL",
            (line, kind, level, block),
        )
        return row is not None

    # Reading the past

    def totals(self, line: int, at: int) -> tuple[int, int]:
        """Return how many messages were visible after version `at`, and how many entries the hidden list had."""
        counted, visible, hidden = self.count(line, at)
        if counted < at:
            reasons = self.began_between(line, counted + 1, at)
            unseen = sum(why is not None for why in reasons)
            visible, hidden = visible + len(reasons) - unseen, hidden + unseen
        return visible, hidden

    def page(self, line: int, at: int, start: int, count: int, total: int) -> list[SpanRow]:
        """Return the spans of a view from number `start` on, in order, where `total` are visible."""
        if count <= 0:
            return []
        if 2 * start < total - count:
            return self._page(line, at, start, count, backwards=False)
        return self._page(line, at, total - start - count, count, backwards=True)[::-1]

    def _page(self, line: int, at: int, skip: int, count: int, backwards: bool) -> list[SpanRow]:
        order = "DESC" if backwards else "ASC"
        covers = "since <= ? AND (until IS NULL OR until > ?) AND why IS NULL"
        found: list[SpanRow] = []
        if skip or count > MANY:
            return self._rows(
                f"WHERE line = ? AND {covers} ORDER BY place {order} LIMIT ? OFFSET ?", (line, at, at, count, skip)
            )
        for block in self._blocks(line, SHOWS, at, backwards):
            found += self._rows(
                f"WHERE line = ? AND place BETWEEN ? AND ? AND {covers} ORDER BY place {order} LIMIT ?",
                (line, block << BLOCK_BITS[0], (block + 1 << BLOCK_BITS[0]) - 1, at, at, count - len(found)),
            )
            if len(found) == count:
                break
        return found

    def hiding_ranges(self, line: int, at: int, after: int | None) -> Iterator[tuple[int, int]]:
        """Return in which ranges of versions something was hidden after version `at`, in order, beyond `after`."""
        size = (1 << BLOCK_BITS[0]) // PLACES
        for block in self._blocks(line, HIDES, at, False, None if after is None else (after + 1) // size - 1):
            yield block * size, block * size + size - 1

    def _blocks(self, line: int, kind: int, at: int, backwards: bool, after: int | None = None) -> Iterator[int]:
        step = BLOCK_BITS[1] - BLOCK_BITS[0]
        covers = "since <= ? AND (until IS NULL OR until > ?)"
        order, beyond = ("DESC", "<=") if backwards else ("ASC", ">=")
        above = (NEVER if backwards else -NEVER) if after is None else after >> step
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
                (line, kind, row[0] << step, (row[0] + 1 << step) - 1, at, at),
            )
            for (block,) in rows:
                if after is None or block > after:
                    yield block
            above = row[0] - 1 if backwards else row[0] + 1

    def all_spans(self, line: int) -> list[SpanRow]:
        """Return every span, by place and time."""
        return self._rows("WHERE line = ? ORDER BY place, since", (line,))

    def covering(self, line: int, at: int, held: bool = False) -> list[SpanRow]:
        """Return what was visible after version `at`, or what was held, in order."""
        visible = "" if held else " AND why IS NULL"
        return self._rows(
            f"WHERE line = ? AND since <= ? AND (until IS NULL OR until > ?){visible} ORDER BY place", (line, at, at)
        )

    def showing_source(self, line: int, source: int) -> list[SpanRow]:
        """Return the spans that show the text of an event which did not place them."""
        return self._rows(
            "INDEXED BY spans_source WHERE line = ? AND source = ? AND source IS NOT NULL", (line, source)
        )

    def all_pairs(self, line: int, at: int) -> list[tuple[int, int, int | None, int | None, int]]:
        """Return each result with the call that it was paired with after version `at`: result, FINAL or INTERIM, the
        call's version and index or None, and whether the result is of shared memory."""
        return self.db.rows(
            f"SELECT uses.version, uses.part, uses.call, uses.call_part, spans.shared FROM {self.schema}.uses"
            f" JOIN {self.schema}.spans ON spans.line = uses.line AND spans.place = 4 * uses.version"
            " AND spans.version IS NULL AND spans.since = uses.version"
            " WHERE uses.line = ? AND uses.part < 0 AND uses.since <= ?"
            f" AND NOT EXISTS (SELECT 1 FROM {self.schema}.uses AS later WHERE later.line = uses.line"
            " AND later.id = uses.id AND later.version = uses.version AND later.part = uses.part"
            " AND later.since > uses.since AND later.since <= ?) ORDER BY uses.version",
            (line, at, at),
        )

    def of_message(self, line: int, version: int) -> list[SpanRow]:
        """Return all spans of what an event placed, by place and time."""
        natural = self._rows(
            "WHERE line = ? AND place BETWEEN ? AND ? AND version IS NULL",
            (line, PLACES * version, PLACES * version + PLACES - 1),
        )
        moved = self._rows(
            "INDEXED BY spans_moved WHERE line = ? AND version = ? AND version IS NOT NULL", (line, version)
        )
        return sorted([*natural, *moved], key=_by_time)

    def of_messages(self, line: int, first: int, last: int, at: int) -> list[SpanRow]:
        """Return the spans of what the events of a range placed, as far as they began by `at`."""
        natural = self._rows(
            "WHERE line = ? AND place BETWEEN ? AND ? AND version IS NULL AND since <= ?",
            (line, PLACES * first, PLACES * last + PLACES - 1, at),
        )
        moved = self._rows(
            "INDEXED BY spans_moved WHERE line = ? AND version BETWEEN ? AND ? AND version IS NOT NULL AND since <= ?",
            (line, first, last, at),
        )
        return [*natural, *moved]

    def hidings_of(self, line: int, first: int, last: int, at: int) -> list[HidingRow]:
        """Return why what the events of a range placed is hidden, as far as no span says it."""
        rows = self.db.rows(
            f"SELECT version, origin, since, rule, by, shared, ended, ended_by FROM {self.schema}.hidings"
            " WHERE line = ? AND version BETWEEN ? AND ? AND since <= ? ORDER BY version, origin, since",
            (line, first, last, at),
        )
        return [HidingRow(*row) for row in rows]

    def began_at(self, line: int, version: int) -> list[SpanRow]:
        """Return the spans that began with an event."""
        natural = self._rows(
            "WHERE line = ? AND place BETWEEN ? AND ? AND since = ?",
            (line, PLACES * version, PLACES * version + PLACES - 1, version),
        )
        late = self._rows(f"INDEXED BY spans_late WHERE line = ? AND since = ? AND {_LATE}", (line, version))
        return sorted([*natural, *late], key=_by_place)

    def ended_at(self, line: int, version: int) -> list[SpanRow]:
        """Return the spans that ended with an event."""
        return self._rows(
            "INDEXED BY spans_ended WHERE line = ? AND until = ? AND until IS NOT NULL ORDER BY place", (line, version)
        )

    def changed_since(self, line: int, version: int, shared: int) -> list[SpanRow]:
        """Return the spans that began or ended after a version, of the scope's own or of shared memory, by time."""
        natural = self._rows(
            "WHERE line = ? AND place >= ? AND since > ? AND shared = ?",
            (line, PLACES * (version + 1), version, shared),
        )
        late = self._rows(
            f"INDEXED BY spans_late WHERE line = ? AND since > ? AND {_LATE} AND shared = ?", (line, version, shared)
        )
        ended = self._rows(
            "INDEXED BY spans_ended WHERE line = ? AND until > ? AND until IS NOT NULL AND since <= ? AND shared = ?",
            (line, version, version, shared),
        )
        found = {(row.place, row.since): row for row in (*natural, *late, *ended)}
        return sorted(found.values(), key=_by_time)

    def hidings_since(self, line: int, version: int) -> list[HidingRow]:
        """Return what has been said after a version of why messages are hidden that no span holds."""
        rows = self.db.rows(
            f"SELECT version, origin, since, rule, by, shared, ended, ended_by FROM {self.schema}.hidings INDEXED BY hidings_since"
            " WHERE line = ? AND since > ? ORDER BY since",
            (line, version),
        )
        return [HidingRow(*row) for row in rows]

    def facts(self, line: int, at: int) -> dict[str, tuple[int, str | None]]:
        """Return the facts that held after version `at`, each with the version it held from."""
        rows = self.db.rows(
            f"SELECT name, max(since), value FROM {self.schema}.facts WHERE line = ? AND since <= ? GROUP BY name",
            (line, at),
        )
        return {name: (since, value) for name, since, value in rows}

    def fact(self, line: int, name: str, at: int) -> str | None:
        """Return one fact as it was after version `at`."""
        row = self.db.row(
            f"SELECT value FROM {self.schema}.facts WHERE line = ? AND name = ? AND since <= ? ORDER BY since DESC LIMIT 1",
            (line, name, at),
        )
        return None if row is None else row[0]

    def names(self, line: int) -> list[str]:
        """Return the assistants' names, in the order of their numbers."""
        rows = self.db.rows(f"SELECT name FROM {self.schema}.names WHERE line = ? ORDER BY code", (line,))
        return [name for (name,) in rows]

    def count(self, line: int, at: int) -> tuple[int, int, int]:
        """Return the last count noted by version `at`: its version, how many are visible, how many entries hidden."""
        row = self.db.row(
            f"SELECT version, visible, hidden FROM {self.schema}.counts WHERE line = ? AND version <= ?"
            " ORDER BY version DESC LIMIT 1",
            (line, at),
        )
        return (0, 0, 0) if row is None else (row[0], row[1], row[2])

    def counts(self, line: int) -> list[tuple[int, int, int]]:
        """Return every count that is noted, in order."""
        return self.db.rows(
            f"SELECT version, visible, hidden FROM {self.schema}.counts WHERE line = ? ORDER BY version", (line,)
        )

    def began_between(self, line: int, first: int, last: int) -> list[int | None]:
        """Return why each message of a range in which nothing but plain messages stands is not visible, None if it is."""
        rows = self.db.rows(
            f"SELECT why FROM {self.schema}.spans WHERE line = ? AND place BETWEEN ? AND ? AND version IS NULL"
            " AND since = place / 4",
            (line, PLACES * first, PLACES * last + PLACES - 1),
        )
        return [why for (why,) in rows]

    def open_calls(self, line: int, id: int, before: int) -> list[tuple[int, int, int]]:
        """Return the calls of an id on the path that have no final result: version, part, and 2 if interim ones came.

        The nearest message comes first, and in it the first call.
        """
        return self.db.rows(
            f"SELECT version, part, open FROM {self.schema}.uses INDEXED BY uses_open"
            " WHERE line = ? AND id = ? AND version < ? AND open IS NOT NULL ORDER BY version DESC, part",
            (line, id, before),
        )

    def uses(self, line: int, id: int, before: int = NEVER) -> list[UseRow]:
        """Return the calls and results of an id up to before a version, the last first."""
        rows = self.db.rows(
            "SELECT id, version, part, since, call, call_part, open"
            f" FROM {self.schema}.uses WHERE line = ? AND id = ? AND version < ? ORDER BY version DESC, part, since DESC",
            (line, id, before),
        )
        return list(map(UseRow._make, rows))

    def uses_of(self, line: int, call_id: str, before: int) -> list[UseRow]:
        """Return the calls and results of an id, as it was written, before a version, the last first."""
        row = self.db.row(f"SELECT secret FROM {self.schema}.timelines WHERE line = ?", (line,))
        return [] if row is None else self.uses(line, hash_of(call_id, row[0]), before)

    def results_of(self, line: int, call: int) -> list[UseRow]:
        """Return the results that are, or were, paired with the calls of a message."""
        rows = self.db.rows(
            f"SELECT id, version, part, since, call, call_part, open FROM {self.schema}.uses INDEXED BY uses_by_call"
            " WHERE line = ? AND call = ? AND call IS NOT NULL ORDER BY version, since",
            (line, call),
        )
        return list(map(UseRow._make, rows))

    def pair_of(self, line: int, id: int, result: int, part: int, at: int) -> tuple[int | None, int | None]:
        """Return the call that a result was paired with after version `at`: its version and index, or None."""
        row = self.db.row(
            f"SELECT call, call_part FROM {self.schema}.uses WHERE line = ? AND id = ? AND version = ? AND part = ?"
            " AND since <= ? ORDER BY since DESC LIMIT 1",
            (line, id, result, part, at),
        )
        return (None, None) if row is None else (row[0], row[1])

    def pairs_of(self, line: int, id: int, result: int, part: int) -> list[tuple[int, int]]:
        """Return every call that a result was ever paired with."""
        return self.db.rows(
            f"SELECT DISTINCT call, call_part FROM {self.schema}.uses WHERE line = ? AND id = ? AND version = ? AND part = ?"
            " AND call IS NOT NULL",
            (line, id, result, part),
        )

    def callers_since(self, line: int, version: int) -> list[int]:
        """Return the versions after `version` of messages that are results or have calls, in order."""
        rows = self.db.rows(
            f"SELECT DISTINCT place / 4 FROM {self.schema}.spans WHERE line = ? AND place >= ? AND version IS NULL"
            " AND (role = 2 OR calls > 0) ORDER BY place",
            (line, PLACES * (version + 1)),
        )
        return [number for (number,) in rows]

    def meanings(self, line: int, after: int = 0) -> list[tuple[int, int, int]]:
        """Return which calls the transfers after a version mean: each as transfer, version of the call, and its index."""
        return self.db.rows(
            f"SELECT transfer, call, part FROM {self.schema}.meanings WHERE line = ? AND transfer > ? ORDER BY transfer",
            (line, after),
        )

    def meant_by(self, line: int, call: int) -> list[tuple[int, int]]:
        """Return the transfers that mean a call of a message, each with the call's index."""
        return self.db.rows(
            f"SELECT transfer, part FROM {self.schema}.meanings INDEXED BY meanings_by_call WHERE line = ? AND call = ?",
            (line, call),
        )

    def notes(self, line: int, at: int) -> list[tuple[int, str, str]]:
        """Return the findings that events caused by themselves up to `at`."""
        return self.db.rows(
            f"SELECT version, rule, call FROM {self.schema}.notes WHERE line = ? AND version <= ? ORDER BY version",
            (line, at),
        )

    def _rows(self, rest: str, parameters: Sequence[Any]) -> list[SpanRow]:
        sql = self._sql.get(rest)
        if sql is None:
            sql = self._sql[rest] = f"SELECT {_SPAN} FROM {self.schema}.spans {rest}"
        return list(map(SpanRow._make, self.db.rows(sql, parameters)))


_LATE = "since <> place / 4"


def hash_of(call_id: str, secret: bytes) -> int:
    """Return the number that stands for a call's id; whoever does not know the secret finds no two of one number."""
    return int.from_bytes(blake2b(call_id.encode(), digest_size=8, key=secret).digest(), "big", signed=True)


def version_of(row: SpanRow) -> int:
    """Return the version of the event that placed the message of a span."""
    return row.place // PLACES if row.version is None else row.version


def _by_time(row: SpanRow) -> tuple[int, int]:
    return row.since, row.place


def _by_place(row: SpanRow) -> int:
    return row.place
