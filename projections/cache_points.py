"""The places that cache points name in a history, or in a request (docs/design.md, section 6)."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Any

from turnlog.store import InvalidArgument
from turnlog.store.arguments import whole_number
from turnlog.store.events import CachePoint, Messages, System, Tools, Within

from .render import VisibleMessage


def parts_of(message: VisibleMessage) -> list[dict[str, Any]]:
    """The content parts that count as items: a text only if it is not empty."""
    content = message.content
    parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
    return [part for part in parts if part.get("type") != "text" or part.get("text")]


class Places:
    """The places that the points of a history, or of a request, name.

    A place is the number of items before it, after the system; the tools end at -1. So equal places are equal
    numbers, and places sort as numbers do. A message's items are its parts, then its calls; `sizes` has their
    number for each message that is not a system message.
    """

    TOOLS = -1
    SYSTEM = 0

    def __init__(self, sizes: Iterable[int]) -> None:
        self._starts = [0, *accumulate(sizes)]

    @classmethod
    def of(cls, messages: Iterable[VisibleMessage]) -> Places:
        """The places of a history's messages."""
        return cls(len(parts_of(message)) + len(message.tool_calls) for message in messages if message.role != "system")

    def place(self, point: CachePoint) -> int:
        """Return the place that a point names.

        :raises InvalidArgument: it is no point, or is out of range.
        """
        messages = len(self._starts) - 1
        match point:
            case Tools():
                return self.TOOLS
            case System():
                return self.SYSTEM
            case Messages(n):
                if not 0 <= _count(n) <= messages:
                    raise InvalidArgument("cache_points", point.form, f"is out of range: {messages} messages count")
                return self._starts[n]
            case Within(message, items):
                if not 0 <= _count(message) < messages:
                    raise InvalidArgument("cache_points", point.form, f"is out of range: {messages} messages count")
                size = self._starts[message + 1] - self._starts[message]
                if not 0 <= _count(items) <= size:
                    raise InvalidArgument("cache_points", point.form, f"is out of range: that message has {size} items")
                return self._starts[message] + items
        raise InvalidArgument("cache_points", point, "is not a cache point")

    def point(self, place: int) -> CachePoint:
        """The one point that stands for a place: of equal points the first, whole messages before parts of one."""
        if place == self.TOOLS:
            return Tools()
        if place == self.SYSTEM:
            return System()
        message = bisect_left(self._starts, place)
        if self._starts[message] == place:
            return Messages(message)
        return Within(message - 1, place - self._starts[message - 1])

    def canonical(self, points: Iterable[CachePoint]) -> list[CachePoint]:
        """The points in order of place, each place once.

        :raises InvalidArgument: one is no point, or is out of range.
        """
        return [self.point(place) for place in sorted({self.place(point) for point in points})]


def within_budget(points: Sequence[CachePoint], limit: int) -> list[CachePoint]:
    """At most `limit` of some points in order: tools and system are kept, then the newest."""
    fixed = [point for point in points if isinstance(point, Tools | System)][:limit]
    others = [point for point in points if not isinstance(point, Tools | System)]
    return fixed + others[max(0, len(others) + len(fixed) - limit) :]


def _count(value: object) -> int:
    return whole_number("cache_points", value, what="a number of messages or items")
