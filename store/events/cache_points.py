"""Cache points: the places of a history at which a stable prefix of a request may end (docs/design.md, section 6)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, TypeAlias

from ..errors import InvalidArgument

Form: TypeAlias = str | dict[str, Any]


class CachePoint(ABC):
    """A place at which a prefix ends: `Tools`, `System`, `Messages` or `Within`."""

    @property
    @abstractmethod
    def form(self) -> Form:
        """Return the point as JSON, as it is stored."""


@dataclass(frozen=True)
class Tools(CachePoint):
    """After the tools."""

    @property
    def form(self) -> Form:
        """Return `"Tools"`."""
        return "Tools"


@dataclass(frozen=True)
class System(CachePoint):
    """After the system messages, wherever they are."""

    @property
    def form(self) -> Form:
        """Return `"System"`."""
        return "System"


@dataclass(frozen=True)
class Messages(CachePoint):
    """After the first `n` messages that are not system messages."""

    n: int

    @property
    def form(self) -> Form:
        """Return `{"Messages": 2}`."""
        return {"Messages": self.n}


@dataclass(frozen=True)
class Within(CachePoint):
    """After the first `items` items of a message, counted from 0 as `Messages` counts."""

    message: int
    items: int

    @property
    def form(self) -> Form:
        """Return `{"Within": {"message": 1, "items": 2}}`."""
        return {"Within": {"message": self.message, "items": self.items}}


def read_point(value: object) -> CachePoint:
    """Return the point that a JSON value is.

    :raises InvalidArgument: it is none; says what one looks like.
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
    why = 'is not "Tools", "System", {"Messages": 2} or {"Within": {"message": 1, "items": 2}} with counts from 0'
    raise InvalidArgument("cache_points", value, why)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63
