"""Which events a read selects: the pieces of a lineage in a range of versions, and conditions on type and scope."""

from __future__ import annotations

from collections.abc import Collection
from functools import lru_cache
from typing import Any

from .arguments import text, texts, whole_number
from .errors import InvalidArgument
from .streams import OPEN, Segment, Stream


def pieces(stream: Stream, first: int, last: int | None, backwards: bool) -> list[Segment]:
    """Return what a stream reads of a range of versions, in the order in which it is read.

    :raises InvalidArgument: a version is not a whole number.
    """
    whole_number("first", first, what="a version")
    if last is not None:
        whole_number("last", last, what="a version")
    upto = OPEN if last is None else last
    pieces = [piece for segment in stream.lineage if (piece := segment.within(first, upto)).first <= piece.last]
    return pieces[::-1] if backwards else pieces


def conditions(types: Collection[str] | None, scopes: Collection[str | None] | None) -> tuple[str, tuple[Any, ...]]:
    """Return a condition in SQL for events of some types and some scopes, None for either being all; its parameters.

    None among the scopes is for events that have none.

    :raises InvalidArgument: they are not lists of texts.
    """
    return _conditions(_listed("types", types), _listed("scopes", scopes))


def _listed(field: str, values: Collection[str | None] | None) -> Any:
    if values is None:
        return None
    if isinstance(values, str) or not isinstance(values, Collection):
        raise InvalidArgument(field, values, "is not a list of texts")
    for value in values:
        if value is not None and not isinstance(value, str):
            raise InvalidArgument(field, value, "is not text")
    return tuple(values)


@lru_cache
def _conditions(types: tuple[str, ...] | None, scopes: tuple[str | None, ...] | None) -> tuple[str, tuple[Any, ...]]:
    conditions, parameters = "", []
    if types is not None:
        texts("types", types)
        conditions += f" AND type IN ({', '.join('?' * len(types))})"
        parameters += list(types)
    if scopes is not None:
        named = [text("scopes", scope) for scope in scopes if scope is not None]
        conditions += f" AND (scope IN ({', '.join('?' * len(named))})"
        conditions += " OR scope IS NULL)" if None in scopes else ")"
        parameters += named
    return conditions, tuple(parameters)
