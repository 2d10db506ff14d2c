"""Cache points: the places of a history at which a stable prefix of a request may end (DESIGN section 6)."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, TypeAlias

from turnlog.store import TurnlogError
from turnlog.store.errors import shown

from .render import VisibleMessage


@dataclass(frozen=True)
class Tools:
    """After the tools."""


@dataclass(frozen=True)
class System:
    """After the system messages, wherever they sit."""


@dataclass(frozen=True)
class Messages:
    """After the first `n` messages that are not system messages."""

    n: int


@dataclass(frozen=True)
class Within:
    """After the first `items` items of a message, counted from 0 as `Messages` counts."""

    message: int
    items: int


CachePoint: TypeAlias = Tools | System | Messages | Within


class InvalidCachePoint(TurnlogError):
    """A cache point is none, or is not one of the history's. `point` is its JSON form, or what was found instead."""

    def __init__(self, point: object, why: str) -> None:
        self.point = point
        self.why = why
        super().__init__(f"cache point {shown(point)} {why}")


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
        """The place that a point names.

        :raises InvalidCachePoint: it is out of range.
        """
        messages = len(self._starts) - 1
        match point:
            case Tools():
                return self.TOOLS
            case System():
                return self.SYSTEM
            case Messages(n):
                if not 0 <= n <= messages:
                    raise InvalidCachePoint(to_json(point), f"is out of range: {messages} messages count")
                return self._starts[n]
            case Within(message, items):
                if not 0 <= message < messages:
                    raise InvalidCachePoint(to_json(point), f"is out of range: {messages} messages count")
                size = self._starts[message + 1] - self._starts[message]
                if not 0 <= items <= size:
                    raise InvalidCachePoint(to_json(point), f"is out of range: that message has {size} items")
                return self._starts[message] + items

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

        :raises InvalidCachePoint: one is out of range.
        """
        return [self.point(place) for place in sorted({self.place(point) for point in points})]


def within_budget(points: Sequence[CachePoint], limit: int) -> list[CachePoint]:
    """At most `limit` of some points in order: tools and system are kept, then the newest."""
    fixed = [point for point in points if isinstance(point, Tools | System)][:limit]
    others = [point for point in points if not isinstance(point, Tools | System)]
    return fixed + others[max(0, len(others) + len(fixed) - limit) :]


def to_json(point: CachePoint) -> Any:
    """`"Tools"`, `"System"`, `{"Messages": 2}` or `{"Within": {"message": 1, "items": 2}}`."""
    match point:
        case Messages(n):
            return {"Messages": n}
        case Within(message, items):
            return {"Within": {"message": message, "items": items}}
        case _:
            return type(point).__name__


def from_json(value: object) -> CachePoint:
    """The point that a JSON value is.

    :raises InvalidCachePoint: it is none; says what one looks like.
    """
    match value:
        case "Tools":
            return Tools()
        case "System":
            return System()
        case {"Messages": n, **more} if not more and _is_count(n):
            return Messages(n)
        case {"Within": {"message": message, "items": items, **deeper}, **more} if not (deeper or more):
            if _is_count(message) and _is_count(items):
                return Within(message, items)
    raise InvalidCachePoint(
        value, 'is not "Tools", "System", {"Messages": 2} or {"Within": {"message": 1, "items": 2}} with such counts'
    )


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
