"""Read what is held, open and meant now, at the version that a timeline is caught up to."""

from __future__ import annotations

from .rows import (
    BITS,
    LATE,
    NEVER,
    PLACES,
    SHARED_BIT,
    SHOWS,
    SpanRow,
    UseRow,
    by_place,
    hash_of,
    places_of,
)
from .tables import Tables


class Present(Tables):
    """Reads what holds now: what the rules ask when an event is applied."""

    def held(
        self, line: int, shared: int, low: int = -NEVER, high: int = NEVER, prompts: bool = False
    ) -> list[SpanRow]:
        """Return what is held now from place `low` to `high`, in order, of the scope's own or of shared memory."""
        which = f" AND form & 32 = {SHARED_BIT * shared}{'' if prompts else ' AND form & 7 <> 3'}"
        visible = self._rows(
            "ON line = :line AND place BETWEEN max(lowest, :low) AND min(highest, :high)"
            f" AND until IS NULL AND why IS NULL{which}",
            {"line": line, "low": low, "high": high},
            f"(SELECT block << {BITS} AS lowest, (block + 1 << {BITS}) - 1 AS highest"
            f" FROM {self.schema}.blocks INDEXED BY blocks_open WHERE line = :line AND kind = {SHOWS} AND level = 0"
            f" AND until IS NULL AND block BETWEEN :low >> {BITS} AND :high >> {BITS}) CROSS JOIN ",
        )
        others = self._rows(
            "INDEXED BY spans_invisible WHERE line = ? AND until IS NULL AND why IS NOT NULL"
            f" AND place BETWEEN ? AND ?{which} ORDER BY place",
            (line, low, high),
        )
        return sorted([*visible, *others], key=by_place)

    def held_prompts(self, line: int) -> list[SpanRow]:
        """Return the prompts in force now, in order."""
        return self._rows(
            "INDEXED BY spans_prompts WHERE line = ? AND until IS NULL AND form & 7 = 3 ORDER BY place", (line,)
        )

    def last_visible(self, line: int, count: int) -> list[SpanRow]:
        """Return the scope's own last visible messages, the last first; prompts are none."""
        found: list[SpanRow] = []
        for block in self.blocks(line, SHOWS, NEVER, backwards=True):
            found += self._rows(
                "WHERE line = ? AND place BETWEEN ? AND ? AND until IS NULL AND why IS NULL"
                " AND form & 32 = 0 AND form & 7 <> 3 ORDER BY place DESC LIMIT ?",
                (line, *places_of(block), count - len(found)),
            )
            if len(found) == count:
                break
        return found

    def late(self, line: int, since: int) -> list[SpanRow]:
        """Return what is held now in spans that began after `since`, and not with their own event."""
        return self._rows(
            f"INDEXED BY spans_late WHERE line = ? AND since > ? AND until IS NULL AND {LATE}", (line, since)
        )

    def not_visible(self, line: int) -> list[SpanRow]:
        """Return what is held now and not visible, in order."""
        return self._rows(
            "INDEXED BY spans_invisible WHERE line = ? AND until IS NULL AND why IS NOT NULL ORDER BY place", (line,)
        )

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
            f" FROM {self.schema}.uses WHERE line = ? AND id = ? AND version < ?"
            " ORDER BY version DESC, part, since DESC",
            (line, id, before),
        )
        return list(map(UseRow._make, rows))

    def uses_of(self, line: int, call_id: str, before: int) -> list[UseRow]:
        """Return the calls and results of an id, as it was written, before a version, the last first."""
        row = self.db.row(f"SELECT secret FROM {self.schema}.timelines WHERE line = ?", (line,))
        return [] if row is None else self.uses(line, hash_of(call_id, row[0]), before)

    def pairs_of(self, line: int, id: int, result: int, part: int) -> list[tuple[int, int]]:
        """Return every call that a result was ever paired with."""
        return self.db.rows(
            f"SELECT DISTINCT call, call_part FROM {self.schema}.uses"
            " WHERE line = ? AND id = ? AND version = ? AND part = ? AND call IS NOT NULL",
            (line, id, result, part),
        )

    def callers_since(self, line: int, version: int) -> list[int]:
        """Return the versions after `version` of messages that are results or have calls, in order."""
        rows = self.db.rows(
            f"SELECT DISTINCT place / 4 FROM {self.schema}.spans WHERE line = ? AND place >= ? AND version IS NULL"
            " AND (form >> 3 & 3 = 2 OR form >= 512) ORDER BY place",
            (line, PLACES * (version + 1)),
        )
        return [number for (number,) in rows]

    def meanings(self, line: int, after: int = 0) -> list[tuple[int, int, int]]:
        """Return which calls the transfers after a version mean: transfer, version of the call, and its index."""
        return self.db.rows(
            f"SELECT transfer, call, part FROM {self.schema}.meanings"
            " WHERE line = ? AND transfer > ? ORDER BY transfer",
            (line, after),
        )

    def meant_by(self, line: int, call: int) -> list[tuple[int, int]]:
        """Return the transfers that mean a call of a message, each with the call's index."""
        return self.db.rows(
            f"SELECT transfer, part FROM {self.schema}.meanings INDEXED BY meanings_by_call"
            " WHERE line = ? AND call = ?",
            (line, call),
        )

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
