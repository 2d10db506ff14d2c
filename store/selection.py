"""Which events a read selects: the pieces of a lineage in a range of versions, and conditions on type and scope."""

from __future__ import annotations

from collections.abc import Collection
from functools import lru_cache
from typing import Any

from .streams import OPEN, Segment, Stream


def pieces(stream: Stream, first: int, last: int | None, backwards: bool) -> list[Segment]:
    upto = OPEN if last is None else last
    pieces = [piece for segment in stream.lineage if (piece := segment.within(first, upto)).first <= piece.last]
    return pieces[::-1] if backwards else pieces


def conditions(types: Collection[str] | None, scopes: Collection[str | None] | None) -> tuple[str, tuple[Any, ...]]:
    return _conditions(None if types is None else tuple(types), None if scopes is None else tuple(scopes))


@lru_cache
def _conditions(types: tuple[str, ...] | None, scopes: tuple[str | None, ...] | None) -> tuple[str, tuple[Any, ...]]:
    conditions, parameters = "", []
    if types is not None:
        conditions += f" AND type IN ({', '.join('?' * len(types))})"
        parameters += list(types)
    if scopes is not None:
        named = [scope for scope in scopes if scope is not None]
        conditions += f" AND (scope IN ({', '.join('?' * len(named))})"
        conditions += " OR scope IS NULL)" if None in scopes else ")"
        parameters += named
    return conditions, tuple(parameters)
