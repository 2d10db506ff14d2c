"""Which event broke a prefix: why an item of an earlier request is not where it was in a later one."""

from __future__ import annotations

from collections.abc import Sequence

from turnlog.projections import History
from turnlog.store.spans import ORIGINS, TEXT_ONLY

from .wire import Block


def breaker(was: Sequence[Block], now: Sequence[Block], at: int, before: History, after: History) -> int | None:
    """The version of the event by which item `at` of an earlier request is not the one of a later request.

    The items are those of system and messages in order. Looked for are what hid the earlier one, what put another in
    its place and, if the next one only moved up, what hid one before it that reads the same.
    """
    lost = was[at] if at < len(was) else None
    came = now[at] if at < len(now) else None
    hiders = _Hiders(after)
    if lost is not None:
        by = hiders.of(lost) or hiders.of_form(lost, before.version)
        if by is not None:
            return by
    if came is not None and came.source not in {block.source for block in was}:
        return came.version
    for block in reversed(was[:at]):
        by = hiders.of(block)
        if by is not None:
            return by
    return None if lost is None else lost.version


class _Hiders:
    """Says which event hid what an earlier history showed, from the spans that ended between two histories."""

    def __init__(self, after: History) -> None:
        self._timeline, self._at = after.timeline, after.version
        self._line = self._timeline.line(self._at)

    def of(self, block: Block) -> int | None:
        """Return the event that hid an item, or the whole message it was of; None if it is visible."""
        version, origin, call = block.source
        for item in self._timeline.items(self._line, version, version, self._at):
            if ORIGINS[item.origin] != origin:
                continue
            if item.why is not None:
                return item.why.by
            for index, reason in item.removed.items():
                if self._timeline.call_id(version, index) == call:
                    return reason.by
        return None

    def of_form(self, block: Block, since: int) -> int | None:
        """Return the event that has left a message only its text after version `since`, if one did."""
        rows = self._line.rows.of_message(self._line.line, block.source[0])
        forms = [row for row in rows if ORIGINS[row.origin] == block.source[1] and row.parts & TEXT_ONLY]
        found = [row.since for row in forms if since < row.since <= self._at]
        return found[0] if found else None
