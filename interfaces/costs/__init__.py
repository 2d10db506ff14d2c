"""What handoffs cost in cache, per provider, for the mode used and for every other (docs/design.md, section 6)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby

from turnlog.projections import MODES, Handoff
from turnlog.projections.timelines.catch_up import RULES, Line
from turnlog.projections.timelines.timeline import Timeline, timeline_of
from turnlog.store import Store
from turnlog.store.costs import CostRow, Costs
from turnlog.store.events import Frame, Mode, TransferFrame
from turnlog.store.spans import Spans
from turnlog.store.streams import find_key

from ..wires.counting import Gauge
from .cost import Cost
from .kept import REVISION, KeptCosts, rows_of
from .requests import Requests

__all__ = ["Cost", "Tokens", "cost_differences", "costs"]

Tokens = Callable[[str], int]


def costs(
    store: Store,
    handoffs: Iterable[Handoff],
    what_if: tuple[Mode | None, Mapping[int, Mode]] = (None, {}),
    tokens: Tokens | None = None,
    compare: bool = False,
) -> Iterator[list[Cost]]:
    """Give for each of some handoffs what it costs in the mode used or, to `compare`, in each of the four modes.

    The handoffs of one scope of a conversation cost least in order: then only what changes from one to the next is
    looked at. `what_if` are the modes under which they were found. Tokens are 4 characters of the requests' JSON unless
    `tokens` counts those of a text, which it is given piece by piece. What is estimated is kept beside the timeline, so
    that asking again costs nothing.
    """
    mode, modes = what_if
    accounts: dict[tuple[str, str], _Account] = {}
    try:
        for handoff in handoffs:
            key = handoff.conversation, handoff.scope
            if key not in accounts:
                timeline = timeline_of(store, store.stream(handoff.conversation), handoff.scope, mode, modes)
                accounts[key] = _Account(timeline, Gauge(tokens), KeptCosts(timeline) if tokens is None else None)
            yield accounts[key].costs(handoff.version, MODES if compare else (handoff.mode,))
    finally:
        for account in accounts.values():
            account.close()


def cost_differences(store: Store) -> Iterator[str]:
    """Count the kept costs again from the log alone, and name the timelines whose costs differ, one a line."""
    rows = Spans(store.db, "main")
    for key, line in rows.lines() if rows.exists() else ():
        if key.rules != RULES or key.what_if:
            continue
        kept = Costs(store.db, REVISION).of_timeline(line.line)
        if kept and (stream := find_key(store.db, key.conversation)) is not None:
            account = _Account(timeline_of(store, stream, key.scope, audit=True), Gauge(), None)
            for (version, mode), group in groupby(kept, key=lambda row: (row.version, row.mode)):
                if set(group) != set(account.rows(version, mode)):
                    yield f"costs of {stream.label}, {key.scope}: those of version {version} are not what the log gives"
                    break


class _Account:
    """The costs of one scope's handoffs: kept, or counted from requests that go along its timeline."""

    def __init__(self, timeline: Timeline, gauge: Gauge, kept: KeptCosts | None) -> None:
        self._timeline = timeline
        self._gauge = gauge
        self._kept = kept
        self._requests: Requests | None = None

    def costs(self, version: int, modes: Sequence[Mode]) -> list[Cost]:
        """Return what the transfer of a version costs in some modes."""
        kept = self._kept
        found: dict[Mode, Cost] = {}
        is_stored = False
        if kept is not None:
            found, is_stored = self._timeline.ask(
                version, lambda line, _: (kept.read(line, version, modes), line.is_stored)
            )
        missing = [mode for mode in modes if mode not in found]
        if missing:
            counted = self._count(version, missing)
            if kept is not None and self._requests is not None:
                kept.add(version, list(counted.values()), self._requests.redactions, is_stored)
            found |= counted
        return [found[mode] for mode in modes]

    def rows(self, version: int, mode: Mode) -> list[CostRow]:
        """Return what the transfer of a version costs in a mode as it is kept; nothing if there is no such transfer."""
        latest = self._timeline.version()
        if mode not in MODES or not 0 < version <= latest or not isinstance(self._frame(version), TransferFrame):
            return []
        return rows_of(version, self._count(version, [mode])[mode])

    def close(self) -> None:
        """Keep what has been counted."""
        if self._kept is not None:
            self._kept.write()

    def _count(self, version: int, modes: Sequence[Mode]) -> dict[Mode, Cost]:
        timeline, frame = self._timeline, self._frame(version)
        assert isinstance(frame, TransferFrame)
        own = timeline.what_if.of(version, frame)
        found = {mode: self._tried(version, mode) for mode in modes if mode != own}
        if own in modes:
            # Last, since the requests go on with it.
            found[own] = timeline.ask(version, lambda line, _: self._before(line, version).go_on(line, own))
        return found

    def _frame(self, version: int) -> Frame | None:
        return self._timeline.frame(version)

    def _tried(self, version: int, mode: Mode) -> Cost:
        requests = self._timeline.ask(version, lambda line, _: self._before(line, version))
        return self._timeline.tried(version, mode, lambda line: requests.go_on(line, mode, and_back=True))

    def _before(self, line: Line, version: int) -> Requests:
        """Return the requests as they were before an event."""
        if self._requests is None or not self._requests.can_go_to(version - 1):
            self._requests = Requests(self._timeline, self._gauge)
        self._requests.go_to(line, version - 1)
        return self._requests
