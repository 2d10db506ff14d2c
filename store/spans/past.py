"""Read what held after any version, and what began and ended with an event."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from .rows import (
    BITS,
    HAS_CALLS,
    HIDES,
    LATE,
    MANY,
    MAX_BLOCKS,
    NEAR,
    NEVER,
    PLACES,
    SHARED_BIT,
    SHOWN_COLUMNS,
    SHOWS,
    SPAN_COLUMNS,
    HidingRow,
    Moment,
    ShownRow,
    SpanRow,
    block_of,
    by_place,
    by_time,
    places_of,
    versions_of,
)
from .tables import Tables


class Past(Tables):
    """Reads what held at any version: what people ask."""

    def moment(self, line: int, at: int) -> Moment:
        """Return what held after version `at`, whether or not any message was visible."""
        s = self.schema
        active, known = (
            f"SELECT value FROM {s}.facts WHERE line = :line AND name = {name} AND since <= :at"
            " ORDER BY since DESC LIMIT 1"
            for name in ("'active'", "'known:' || json_extract(active, '$[0]')")
        )
        row = self.db.row(
            f"SELECT active, ({known}), coalesce(visible, 0) + shown, coalesce(hidden, 0) + unseen"
            f" FROM (SELECT ({active}) AS active)"
            f" LEFT JOIN (SELECT visible, hidden FROM {s}.counts"
            " WHERE line = :line AND version <= :at ORDER BY version DESC LIMIT 1)"
            # Only plain messages have come since the last count.
            " CROSS JOIN (SELECT count(*) - count(why) AS shown, count(why) AS unseen"
            f" FROM {s}.spans WHERE line = :line AND version IS NULL AND since = place / {PLACES}"
            f" AND place <= {PLACES} * :at + 3 AND place >= {PLACES} * (1 + coalesce("
            f"(SELECT max(version) FROM {s}.counts WHERE line = :line AND version <= :at), 0)))",
            {"line": line, "at": at},
        )
        assert row is not None
        return Moment(*row)

    def totals(self, line: int, at: int) -> tuple[int, int]:
        """Return how many messages were visible after version `at`, and how many entries the hidden list had."""
        return self.moment(line, at)[2:]

    def page(
        self, line: int, owner: str, at: int, start: int, count: int, total: int, digests: bool = False
    ) -> list[ShownRow]:
        """Return the messages of a view from number `start` on, in order, where `total` are visible.

        `owner` is SQL for the number of the conversation that owns the event of version `text`. With `digests` the
        digests of the events are read too.
        """
        if count <= 0:
            return []
        if 2 * start < total - count:
            return self._page(line, owner, at, start, count, False, digests)
        return self._page(line, owner, at, total - start - count, count, True, digests)[::-1]

    def _page(
        self, line: int, owner: str, at: int, skip: int, count: int, backwards: bool, digests: bool
    ) -> list[ShownRow]:
        order = "DESC" if backwards else "ASC"
        sql = (
            f"SELECT place, form, assistant, shown.version, source, removed, body, {'digest' if digests else 'NULL'}"
            f" FROM (SELECT {SHOWN_COLUMNS},"
            f" coalesce(source, version, place / {PLACES}) AS text FROM {self.schema}.spans"
            f" WHERE line = ? AND place BETWEEN ? AND ? AND since <= ? AND (until IS NULL OR until > ?) AND why IS NULL"
            f" ORDER BY place {order} LIMIT ? OFFSET ?) AS shown"
            f" CROSS JOIN main.events INDEXED BY events_by_version ON conversation = {owner} AND events.version = text"
        )

        def read(low: int, high: int, limit: int) -> list[ShownRow]:
            return self.db.rows(sql, (line, low, high, at, at, limit, skip))

        if skip or count > MANY:
            return read(-NEVER, PLACES * at + PLACES - 1, count)
        found: list[ShownRow] = []
        beyond = None
        if backwards:
            # Mostly all of a page is in the last few blocks.
            beyond = block_of(PLACES * at) - NEAR
            found = read(places_of(beyond)[0], PLACES * at + PLACES - 1, count)
        for block in self.blocks(line, SHOWS, at, backwards, beyond) if len(found) < count else ():
            found += read(*places_of(block), count - len(found))
            if len(found) == count:
                break
        return found

    def hiding_blocks(self, line: int, at: int, after: int | None) -> Iterator[list[int]]:
        """Return the blocks of versions in which something was hidden after version `at`, in order, beyond `after`.

        They come in lists, of one at first and more each time, since it takes many where little is hidden.
        """
        beyond = None if after is None else block_of(PLACES * (after + 1)) - 1
        blocks, size = self.blocks(line, HIDES, at, False, beyond), 1
        while batch := list(islice(blocks, size)):
            yield batch
            size = min(2 * size, MAX_BLOCKS)

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

    def pairs_with(self, line: int, calls: list[int], at: int) -> list[tuple[int, int, int, int, int]]:
        """Return the results that were paired with calls of these messages after version `at`, on the path or not.

        Each is the version of the message, the index of the call, the version of the result, FINAL or INTERIM, and the
        hash of their id.
        """
        return self.db.rows(
            "SELECT call, call_part, version, part, uses.id FROM json_each(:calls) AS callers"
            f" CROSS JOIN {self.schema}.uses AS uses INDEXED BY uses_by_call"
            " ON uses.line = :line AND uses.call = callers.value WHERE uses.since <= :at"
            # Only a rewind pairs a result again.
            f" AND NOT EXISTS (SELECT 1 FROM {self.schema}.uses AS later INDEXED BY uses_again WHERE later.line = :line"
            " AND later.id = uses.id AND later.version = uses.version AND later.part = uses.part"
            " AND later.since > uses.since AND later.since <= :at AND later.since <> later.version)",
            {"line": line, "calls": str(calls), "at": at},
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
        return sorted([*natural, *moved], key=by_time)

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

    def eventful(self, line: int, blocks: list[int], at: int) -> list[SpanRow]:
        """Return the spans of what the events of blocks placed, save of messages that were just placed and stayed."""
        natural = self._rows(
            f"ON line = :line AND place BETWEEN block << {BITS} AND (block + 1 << {BITS}) - 1 AND version IS NULL"
            f" AND since <= :at AND ({LATE} OR until IS NOT NULL OR why IS NOT NULL OR removed IS NOT NULL)",
            {"line": line, "blocks": str(blocks), "at": at},
            "(SELECT value AS block FROM json_each(:blocks)) CROSS JOIN ",
        )
        moved = self._rows(
            "INDEXED BY spans_moved WHERE line = ? AND version BETWEEN ? AND ? AND version IS NOT NULL AND since <= ?",
            (line, *versions_of(blocks), at),
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
        late = self._rows(f"INDEXED BY spans_late WHERE line = ? AND since = ? AND {LATE}", (line, version))
        return sorted([*natural, *late], key=by_place)

    def ended_at(self, line: int, version: int) -> list[SpanRow]:
        """Return the spans that ended with an event."""
        return self._rows(
            "INDEXED BY spans_ended WHERE line = ? AND until = ? AND until IS NOT NULL ORDER BY place", (line, version)
        )

    def changed_between(self, line: int, first: int, last: int) -> list[SpanRow]:
        """Return the spans that began or ended with the events of a range, by time."""
        natural = self._rows(
            "WHERE line = ? AND place BETWEEN ? AND ? AND since = place / 4",
            (line, PLACES * first, PLACES * last + PLACES - 1),
        )
        late = self._rows(
            f"INDEXED BY spans_late WHERE line = ? AND since BETWEEN ? AND ? AND {LATE}", (line, first, last)
        )
        ended = self._rows(
            "INDEXED BY spans_ended WHERE line = ? AND until BETWEEN ? AND ? AND until IS NOT NULL AND since < ?",
            (line, first, last, first),
        )
        return sorted([*natural, *late, *ended], key=by_time)

    def changed_with(self, line: int, versions: Sequence[int]) -> list[SpanRow]:
        """Return the spans that began or ended with one of some events; one that did both comes twice."""
        found: list[SpanRow] = []
        for rest in (
            f"ON line = ? AND place BETWEEN {PLACES} * value AND {PLACES} * value + {PLACES - 1} WHERE since = value",
            f"INDEXED BY spans_late ON line = ? AND since = value AND {LATE}",
            "INDEXED BY spans_ended ON line = ? AND until = value AND until IS NOT NULL",
        ):
            rows = self.db.rows(
                f"SELECT {SPAN_COLUMNS} FROM json_each(?) CROSS JOIN {self.schema}.spans {rest}",
                (str(list(versions)), line),
            )
            found += map(SpanRow._make, rows)
        return found

    def with_origins(self, line: int, origins: Sequence[int]) -> list[SpanRow]:
        """Return the visible spans of messages of some origins, by place and time."""
        return self._rows(
            "WHERE line = ? AND why IS NULL AND form & 7 IN (SELECT value FROM json_each(?)) ORDER BY place, since",
            (line, str(list(origins))),
        )

    def with_calls(self, line: int) -> list[SpanRow]:
        """Return the visible spans of messages that have calls, by place and time."""
        return self._rows(f"WHERE line = ? AND why IS NULL AND form >= {HAS_CALLS} ORDER BY place, since", (line,))

    def changed_since(self, line: int, version: int, shared: int) -> list[SpanRow]:
        """Return the spans that began or ended after a version, of the scope's own or of shared memory, by time."""
        natural = self._rows(
            "WHERE line = ? AND place >= ? AND since > ? AND form & 32 = ?",
            (line, PLACES * (version + 1), version, SHARED_BIT * shared),
        )
        late = self._rows(
            f"INDEXED BY spans_late WHERE line = ? AND since > ? AND {LATE} AND form & 32 = ?",
            (line, version, SHARED_BIT * shared),
        )
        ended = self._rows(
            "INDEXED BY spans_ended WHERE line = ? AND until > ? AND until IS NOT NULL AND since <= ?"
            " AND form & 32 = ?",
            (line, version, version, SHARED_BIT * shared),
        )
        found = {(row.place, row.since): row for row in (*natural, *late, *ended)}
        return sorted(found.values(), key=by_time)

    def hidings_since(self, line: int, version: int) -> list[HidingRow]:
        """Return what has been said after a version of why messages are hidden that no span holds."""
        rows = self.db.rows(
            "SELECT version, origin, since, rule, by, shared, ended, ended_by"
            f" FROM {self.schema}.hidings INDEXED BY hidings_since WHERE line = ? AND since > ? ORDER BY since",
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

    def fact_history(self, line: int) -> list[tuple[str, int, str | None]]:
        """Return every fact that ever held: its name, the version that it held from, and its value, by version."""
        return self.db.rows(
            f"SELECT name, since, value FROM {self.schema}.facts WHERE line = ? ORDER BY since", (line,)
        )

    def fact(self, line: int, name: str, at: int) -> str | None:
        """Return one fact as it was after version `at`."""
        row = self.db.row(
            f"SELECT value FROM {self.schema}.facts WHERE line = ? AND name = ? AND since <= ?"
            " ORDER BY since DESC LIMIT 1",
            (line, name, at),
        )
        return None if row is None else row[0]

    def secret(self, line: int) -> bytes:
        """Return what the hashes of call ids are made with."""
        row = self.db.row(f"SELECT secret FROM {self.schema}.timelines WHERE line = ?", (line,))
        assert row is not None
        return bytes(row[0])

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

    def counts(self, line: int, at: int) -> list[tuple[int, int, int]]:
        """Return the counts noted up to version `at`: the version, how many are visible, how many entries hidden."""
        return self.db.rows(
            f"SELECT version, visible, hidden FROM {self.schema}.counts WHERE line = ? AND version <= ?"
            " ORDER BY version",
            (line, at),
        )

    def notes(self, line: int, at: int) -> list[tuple[int, str, str]]:
        """Return the findings that events caused by themselves up to `at`."""
        return self.db.rows(
            f"SELECT version, rule, call FROM {self.schema}.notes WHERE line = ? AND version <= ? ORDER BY version",
            (line, at),
        )
