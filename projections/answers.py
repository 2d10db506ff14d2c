"""Which results answer the calls of a view: what rule 7 has paired, read from the rows of its timeline."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import count
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from turnlog.store.spans import INTERIM

from .render import VisibleMessage
from .timelines.catch_up import Line
from .timelines.frames import SHARED

if TYPE_CHECKING:
    from .timelines.timeline import Timeline


class Pair(NamedTuple):
    """A result and its call: the version of the message that calls, and which of its visible calls it is."""

    call: int
    number: int
    result: int
    interim: bool


def read_pairs(
    timeline: Timeline, line: Line, at: int, callers: Mapping[int, Sequence[int]], shown: Collection[int]
) -> list[Pair]:
    """Return the results on the path, visible or not, of some calls, in order.

    `callers` has the indexes of the visible calls of each message, `shown` the versions of results that are visible.
    """
    if not callers:
        return []
    rows = line.rows.pairs_with(line.line, list(callers), at)
    found = [
        Pair(call, callers[call].index(index), result, part == INTERIM)
        for call, index, result, part, _ in rows
        if index in callers[call]
    ]
    found.sort(key=lambda pair: pair.result)
    if all(pair.result in shown for pair in found):
        return found
    # A result that is not shown may have been rewound away.
    paths = timeline.paths(at)

    def is_on_path(result: int) -> bool:
        is_shared = timeline.scope == SHARED or timeline.is_shared(result)
        return (paths.shared if is_shared else paths.own).has(result)

    return [pair for pair in found if pair.result in shown or is_on_path(pair.result)]


def with_own_ids(messages: Sequence[VisibleMessage], pairs: Iterable[Pair]) -> list[VisibleMessage]:
    """Return the messages with an id of its own for each call, which its results have too and no others."""
    calls = {
        (message.version, number): call.id
        for message in messages
        for number, call in enumerate(message.tool_calls)
        if message.origin in ("message", "response")
    }
    pair_of = {pair.result: (pair.call, pair.number) for pair in pairs}
    results = {message.version: message.tool_call_id or "" for message in messages if message.role == "tool"}
    taken = {*calls.values(), *results.values()}
    used: set[str] = set()

    def own(id: str) -> str:
        if id in used:
            id = next(fresh for fresh in (f"{id}#{number}" for number in count(2)) if fresh not in taken)
            taken.add(id)
        used.add(id)
        return id

    ids = {key: own(id) for key, id in calls.items()}
    answered = {
        version: ids[pair_of[version]] if pair_of.get(version) in ids else own(id) for version, id in results.items()
    }
    return [_named(message, ids, answered) for message in messages]


def _named(message: VisibleMessage, ids: Mapping[tuple[int, int], str], answered: Mapping[int, str]) -> VisibleMessage:
    if message.role == "tool" and answered[message.version] != message.tool_call_id:
        message = msgspec.structs.replace(message, tool_call_id=answered[message.version])
    calls = tuple(
        msgspec.structs.replace(call, id=ids.get((message.version, number), call.id))
        for number, call in enumerate(message.tool_calls)
    )
    return message if calls == message.tool_calls else msgspec.structs.replace(message, tool_calls=calls)
