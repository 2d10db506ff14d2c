"""The costs of handoffs that were counted before: in the store's file where that can be written, else in memory."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

import msgspec

from turnlog.projections.timelines.catch_up import PATIENCE, RULES, Line
from turnlog.projections.timelines.timeline import Timeline
from turnlog.store import InvalidArgument, StoreBusy, StoreUnusable
from turnlog.store.costs import CostRow, Costs
from turnlog.store.events import Mode, read_point
from turnlog.store.spans import Spans, TimelineKey

from ..wires import WIRES, StablePrefix
from .cost import Cost

# Raised when a change of the wires, or of how requests are compared and counted, gives any handoff other figures.
REVISION = 1
MAX_IN_MEMORY = 10_000  # Costs that are kept in memory; then all of them go.
_BATCH = 200  # Costs that are written to the file at once.


class KeptCosts:
    """The kept costs of a timeline's handoffs, in tokens that are estimated."""

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline
        self._store = timeline.store
        self._rows = Costs(timeline.store.db, REVISION)
        self._waiting: list[tuple[int, int, Cost]] = []

    def read(self, line: Line, version: int, modes: Sequence[Mode]) -> dict[Mode, Cost]:
        """Return what is kept of a transfer, by mode."""
        found: dict[Mode, Cost] = {}
        redactions = self._store.redaction_count(self._timeline.stream)
        for mode in modes:
            cost = _cost_of(self._rows.of(line.line, version, mode)) if line.is_stored else None
            cost = cost or self._in_memory.get(self._key(version, mode, redactions))
            if cost is not None:
                found[mode] = cost
        return found

    def add(self, version: int, costs: Sequence[Cost], redactions: int, in_file: bool) -> None:
        """Keep what a transfer costs, which was counted after so many redactions; `in_file` only in the end."""
        if in_file and not self._store.db.read_only:
            self._waiting += [(version, redactions, cost) for cost in costs]
            if len(self._waiting) >= _BATCH:
                self.write()
        else:
            self._remember([(version, redactions, cost) for cost in costs])

    def write(self) -> None:
        """Write what is to be kept in the file; what cannot be written is kept in memory."""
        waiting, self._waiting = self._waiting, []
        if not waiting:
            return
        try:
            self._store.db.derive(lambda: self._write(waiting), PATIENCE)
        except (StoreBusy, StoreUnusable, sqlite3.DatabaseError):
            self._remember(waiting)

    def _write(self, waiting: Sequence[tuple[int, int, Cost]]) -> None:
        stream = self._timeline.stream
        found = Spans(self._store.db, "main").find(TimelineKey(stream.key, self._timeline.scope, "", RULES))
        count = self._store.redaction_count(stream)
        if found is not None:
            # What is redacted meanwhile must not leave its length behind.
            current = [(version, cost) for version, redactions, cost in waiting if redactions == count]
            self._rows.keep(found.line, [row for version, cost in current for row in rows_of(version, cost)])

    def _remember(self, costs: Sequence[tuple[int, int, Cost]]) -> None:
        if len(self._in_memory) + len(costs) > MAX_IN_MEMORY:
            self._in_memory.clear()
        for version, redactions, cost in costs:
            self._in_memory[self._key(version, cost.mode, redactions)] = cost

    @property
    def _in_memory(self) -> dict[object, Cost]:
        kept: dict[object, Cost] = self._store.db.derived.setdefault("costs", {})
        return kept

    def _key(self, version: int, mode: Mode, redactions: int) -> object:
        timeline = self._timeline
        return timeline.stream.key, timeline.scope, timeline.what_if.key, version, mode, redactions


def rows_of(version: int, cost: Cost) -> list[CostRow]:
    """Return what a transfer costs as rows of the file."""
    return [
        CostRow(
            version=version,
            mode=cost.mode,
            wire=name,
            messages=cost.messages,
            tokens=cost.tokens[name],
            kept=prefix.kept,
            lost=prefix.lost,
            point=None if prefix.point is None else msgspec.json.encode(prefix.point.form).decode(),
            changed=prefix.changed,
            by=prefix.version,
        )
        for name, prefix in cost.prefixes.items()
    ]


def _cost_of(rows: Sequence[CostRow]) -> Cost | None:
    """Return the cost that some rows are; None if any is missing, or is none that `rows_of` gives."""
    by_wire = {row.wire: row for row in rows}
    if by_wire.keys() != WIRES.keys():
        return None
    try:
        prefixes = {name: _prefix_of(by_wire[name]) for name in WIRES}
    except (msgspec.MsgspecError, InvalidArgument):
        return None
    return Cost(rows[0].mode, rows[0].messages, {name: by_wire[name].tokens for name in WIRES}, prefixes)


def _prefix_of(row: CostRow) -> StablePrefix:
    point = None if row.point is None else read_point(msgspec.json.decode(row.point))
    return StablePrefix(point, row.kept, row.lost, True, row.changed, row.by)
