"""A view that moves along its timeline: what leaves it, what comes, and which results answer its calls."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from turnlog.store.events import MessageFrame
from turnlog.store.spans import FINAL, INTERIM, NEVER, SpanRow, hash_of, version_of

from .answers import Pair, read_pairs
from .history import messages_of
from .reading import Reading
from .render import VisibleMessage
from .timelines.catch_up import Line
from .timelines.item import TOOL, visible_calls
from .timelines.timeline import Timeline

_ALL = range(NEVER)  # Every call of a message.


class Placed(NamedTuple):
    """A visible message at its place, with the indexes of those of its event's calls that are visible."""

    place: int
    message: VisibleMessage
    calls: tuple[int, ...]


class Move(NamedTuple):
    """What makes one view another: the places that are left, and what is placed then."""

    gone: list[int]
    came: list[Placed]


class MovingView:
    """The view of a timeline at a version, by place, with the results of its calls; it goes on to later versions.

    What changes it returns the places of the messages that changed, or whose results did; results themselves are none
    of these.
    """

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline
        self.version = 0
        self.placed: dict[int, Placed] = {}
        self.results: dict[int, Placed] = {}  # The visible results, by version.
        self._callers: dict[int, int] = {}  # Of each message with visible calls, by version, its place.
        self._pairs: dict[int, list[Pair]] = {}  # The results of each such message, by the indexes of its calls.
        self._caller_of: dict[int, int] = {}
        self._left: list[int] = []  # Versions of such messages that may be gone for good.

    def pairs(self, placed: Placed) -> list[Pair]:
        """Return the results of a message, by the numbers of its visible calls."""
        found = self._pairs.get(placed.message.version, ())
        return [pair._replace(number=placed.calls.index(pair.number)) for pair in found if pair.number in placed.calls]

    def go_to(self, line: Line, reading: Reading) -> set[int]:
        """Go on to the version of a reading, from version 0 at once."""
        since, self.version = self.version, reading.version
        rows, again = line.rows, set[int]()
        if since == 0:
            changed = rows.covering(line.line, self.version)
        else:
            changed = rows.changed_between(line.line, since + 1, self.version) if since < self.version else []
            results = [row for row in changed if row.since > since and row.role == TOOL]
            again = self._paired_with(line, results)
            if any(version > since for version, _, _ in self._rewinds()):
                again |= self._callers.keys()
        gone = [row.place for row in changed if row.since <= since and row.why is None]
        came = [row for row in changed if row.since > since and row.why is None and (row.until or NEVER) > self.version]
        touched = self.apply(Move(gone, self._read(line, reading, came)))
        self._forget()
        again |= {version_of(row) for row in came if row.calls}
        return touched | self._pair(line, again & self._callers.keys())

    def next(self, line: Line, reading: Reading) -> Move:
        """Return what the next event changes, a transfer, after which a conversation is read."""
        rows, number = line
        gone = [row.place for row in rows.ended_at(number, reading.version) if row.why is None]
        came = [row for row in rows.began_at(number, reading.version) if row.why is None]
        return Move(gone, self._read(line, reading, came))

    def apply(self, move: Move) -> set[int]:
        """Change the view."""
        touched: set[int] = set()
        for place in move.gone:
            self._note(self.placed.pop(place), touched, is_gone=True)
        for each in move.came:
            self.placed[each.place] = each
            self._note(each, touched, is_gone=False)
        return touched

    def arrive(self, version: int) -> None:
        """Say that the view is that of a version, after `apply`."""
        self.version = version
        self._forget()

    def opposite(self, move: Move) -> Move:
        """Return the move that undoes one that has yet to be applied."""
        return Move([each.place for each in move.came], [self.placed[place] for place in move.gone])

    def _note(self, placed: Placed, touched: set[int], is_gone: bool) -> None:
        version = placed.message.version
        if placed.message.role != "tool":
            touched.add(placed.place)
        elif is_gone:
            del self.results[version]
        else:
            self.results[version] = placed
        if placed.calls and is_gone:
            del self._callers[version]
            self._left.append(version)
        elif placed.calls:
            self._callers[version] = placed.place
        self._touch(self._caller_of.get(version), touched)

    def _touch(self, caller: int | None, touched: set[int]) -> None:
        place = None if caller is None else self._callers.get(caller)
        if place is not None:
            touched.add(place)

    def _pair(self, line: Line, callers: set[int]) -> set[int]:
        """Read the results of some messages again."""
        touched: set[int] = set()
        found: dict[int, list[Pair]] = {caller: [] for caller in callers}
        for pair in read_pairs(self._timeline, line, self.version, dict.fromkeys(callers, _ALL), self.results):
            found[pair.call].append(pair)
        for caller, pairs in found.items():
            if self._pairs.get(caller, []) != pairs:
                self._keep(caller, pairs)
                self._touch(caller, touched)
        return touched

    def _forget(self) -> None:
        """Forget the results of messages that are gone."""
        for version in self._left:
            if version not in self._callers:
                self._keep(version, [])
        self._left = []

    def _keep(self, caller: int, pairs: list[Pair]) -> None:
        for pair in self._pairs.pop(caller, ()):
            if self._caller_of.get(pair.result) == caller:
                del self._caller_of[pair.result]
        if pairs:
            self._pairs[caller] = pairs
            self._caller_of.update((pair.result, caller) for pair in pairs)

    def _paired_with(self, line: Line, results: Iterable[SpanRow]) -> set[int]:
        """Return the messages whose calls some results are paired with."""
        found: set[int] = set()
        secret = line.rows.secret(line.line)
        for version in {version_of(row) for row in results}:
            frame = self._timeline.frame(version)
            if isinstance(frame, MessageFrame) and frame.tool_call_id is not None:
                id, part = hash_of(frame.tool_call_id, secret), INTERIM if frame.interim else FINAL
                call, _ = line.rows.pair_of(line.line, id, version, part, self.version)
                if call is not None:
                    found.add(call)
        return found

    def _rewinds(self) -> Iterable[tuple[int, object, object]]:
        return self._timeline.store.rewinds(self._timeline.stream, self.version)

    def _read(self, line: Line, reading: Reading, rows: list[SpanRow]) -> list[Placed]:
        messages = messages_of(self._timeline, line, rows, reading.redactions)
        placed = zip(rows, messages, strict=True)
        return [Placed(row.place, message, tuple(visible_calls(row.form, row.removed))) for row, message in placed]
