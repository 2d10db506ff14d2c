"""The times of events: when they happened if their writer gave that, else when the store recorded them."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from typing import Any, Literal, get_args

from . import streams
from .arguments import one_of
from .database import Database
from .streams import Segment, Stream

Clock = Literal["event", "recorded"]
CLOCKS: tuple[Clock, ...] = get_args(Clock)

_PAGE = 1000


def version_at(db: Database, stream: Stream, time: int, clock: Clock) -> int:
    """Return the version before the first event whose time by `clock` is after `time`; see `Reader.version_at`.

    :raises InvalidArgument: the clock is unknown.
    """
    one_of("clock", clock, CLOCKS)
    last = streams.head(db, stream).version
    # recorded_at never falls within a conversation, so the versions can be searched by halves.
    recorded = 1 + bisect_left(range(1, last + 1), True, key=lambda version: _recorded_at(db, stream, version) > time)
    if clock == "recorded":
        return recorded - 1
    # Of what was recorded by then only an event with a time of its own can be later, and of what was recorded after
    # it only such an event can be earlier.
    for segment in _pieces(stream, 1, recorded - 1):
        later = db.row(f"SELECT version{_TIMED} AND occurred_at > ? ORDER BY version LIMIT 1", (*_range(segment), time))
        if later is not None:
            return int(later[0]) - 1
    version = recorded
    for segment in _pieces(stream, recorded, last):
        for found, occurred_at in _timed(db, segment):
            if found != version or occurred_at > time:
                return version - 1
            version += 1
        if version <= min(segment.last, last):
            return version - 1
    return last


def not_in_order(db: Database, stream: Stream, wanted: str, parameters: tuple[Any, ...]) -> list[int]:
    """Return the versions whose time is before an earlier event's, among those that the condition `wanted` selects."""
    found: list[int] = []
    latest: int | None = None
    for segment in stream.lineage:
        first = segment.first
        if latest is None:
            # Up to the first time that a writer gave, the events are in order as they were recorded.
            timed = db.row(f"SELECT version{_TIMED}{wanted} ORDER BY version LIMIT 1", (*_range(segment), *parameters))
            if timed is None:
                continue
            first = timed[0]
            latest = _recorded_before(db, stream, first, wanted, parameters)
        while first <= segment.last:
            rows = db.rows(
                "SELECT version, coalesce(occurred_at, recorded_at) FROM events"
                f" WHERE conversation = ? AND version BETWEEN ? AND ?{wanted} ORDER BY version LIMIT {_PAGE}",
                (segment.key, first, segment.last, *parameters),
            )
            for version, time in rows:
                if time < latest:
                    found.append(version)
                else:
                    latest = time
            if len(rows) < _PAGE:
                break
            first = max(first, rows[-1][0]) + 1
    return found


# The condition of the index events_by_time, to the letter.
_TIMED = " FROM events WHERE conversation = ? AND version BETWEEN ? AND ? AND occurred_at IS NOT NULL"


def _timed(db: Database, segment: Segment) -> Iterator[tuple[int, int]]:
    """Yield version and `occurred_at` of the events of a segment whose writer gave it, in order."""
    first, page = segment.first, 10
    while first <= segment.last:
        rows = db.rows(
            f"SELECT version, occurred_at{_TIMED} ORDER BY version LIMIT ?", (segment.key, first, segment.last, page)
        )
        yield from rows
        if len(rows) < page:
            return
        first, page = max(first, rows[-1][0]) + 1, min(4 * page, _PAGE)


def _recorded_before(db: Database, stream: Stream, version: int, wanted: str, parameters: tuple[Any, ...]) -> int:
    """Return when the last selected event before `version` was recorded; what no event can be earlier than, if none."""
    for segment in reversed(_pieces(stream, 1, version - 1)):
        row = db.row(
            "SELECT recorded_at FROM events"
            f" WHERE conversation = ? AND version BETWEEN ? AND ?{wanted} ORDER BY version DESC LIMIT 1",
            (*_range(segment), *parameters),
        )
        if row is not None:
            return int(row[0])
    return -(2**63)


def _recorded_at(db: Database, stream: Stream, version: int) -> int:
    segment = stream.owner(version)
    row = db.row(
        "SELECT recorded_at FROM events WHERE conversation = ? AND version <= ? ORDER BY version DESC LIMIT 1",
        (segment.key, version),
    )
    return 0 if row is None else int(row[0])


def _pieces(stream: Stream, first: int, last: int) -> list[Segment]:
    pieces = [segment.within(first, last) for segment in stream.lineage]
    return [piece for piece in pieces if piece.first <= piece.last]


def _range(segment: Segment) -> tuple[int, int, int]:
    return segment.key, segment.first, segment.last
