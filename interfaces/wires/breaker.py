"""Which event broke a prefix: why an item of an earlier request is not where it was in a later one."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from turnlog.projections import VisibleMessage
from turnlog.projections.timelines.catch_up import Line
from turnlog.projections.timelines.timeline import Timeline
from turnlog.store.spans import ORIGINS, TEXT_ONLY

from .wire import Block


def breaker(
    lost: Block | None, came: Block | None, is_new: bool, earlier: Iterable[Block], hiders: Hiders
) -> int | None:
    """Return the version of the event by which an earlier request is not the beginning of a later one.

    `lost` is the first item of the earlier request that is not in its place, `came` what is there instead, which
    `is_new` if the earlier request did not have it. Looked for are what hid the one, what put the other there and, if
    that only moved up, what hid one of the items before, which are `earlier`, the last first.
    """
    if lost is not None:
        by = hiders.of(lost) or hiders.of_form(lost)
        if by is not None:
            return by
    if came is not None and is_new:
        return came.version
    for block in earlier:
        by = hiders.of(block)
        if by is not None:
            return by
    return None if lost is None else lost.version


class Hiders:
    """Says which event hid what an earlier view showed, from the spans of the timeline of a later one.

    `before` is the version of the earlier view, and `shown` says how a message was shown there.
    """

    def __init__(
        self,
        timeline: Timeline,
        line: Line,
        at: int,
        before: int,
        shown: Callable[[int, str], VisibleMessage | None],
    ) -> None:
        self._timeline, self._line, self._at = timeline, line, at
        self._before, self._shown = before, shown

    def of(self, block: Block) -> int | None:
        """Return the event that hid an item, or the whole message it was of; None if it is visible."""
        version, origin, call = block.source
        for item in self._timeline.items(self._line, version, version, self._at):
            if ORIGINS[item.origin] != origin:
                continue
            if item.why is not None:
                return item.why.by
            if call is not None and item.removed:
                left = sum(self._timeline.call_id(version, index) == call for index in item.visible_calls)
                was = self._shown(version, origin)
                if was is not None and left < sum(each.id == call for each in was.tool_calls):
                    taken = item.removed.items()
                    return max(by.by for index, by in taken if self._timeline.call_id(version, index) == call)
        return None

    def of_form(self, block: Block) -> int | None:
        """Return the event that has left a message only its text since the earlier view, if one did."""
        version, origin, _ = block.source
        rows = self._line.rows.of_message(self._line.line, version)
        forms = [row for row in rows if ORIGINS[row.origin] == origin and row.parts & TEXT_ONLY]
        found = [row.since for row in forms if self._before < row.since <= self._at]
        return found[0] if found else None
