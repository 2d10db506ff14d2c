"""The messages of a history in groups: each message with the results that answer its calls."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

from turnlog.projections import History, VisibleMessage
from turnlog.projections.answers import Pair
from turnlog.projections.cache_points import Places
from turnlog.store.events import Messages


class Adjustment(msgspec.Struct, frozen=True):
    """What a wire changed of a history, in one line, and the version of the event concerned."""

    version: int
    what: str


class Answer(msgspec.Struct, frozen=True, gc=False):
    """A result and which call of a message it answers; `moved` says that it does not follow right after that."""

    number: int
    message: VisibleMessage
    start: int
    moved: bool


class Group(msgspec.Struct, frozen=True):
    """A message that is no result, with what answers its calls.

    `start` is the place before it in the history. `answers` are the results to be seen, in order. `final` has the
    numbers of the calls that have a final result, which may be hidden, `running` those of the calls that still run.
    `has_unfinished` says that a call has only interim results, and may run as long as its exchange is the last.
    """

    message: VisibleMessage
    start: int = Places.SYSTEM
    answers: tuple[Answer, ...] = ()
    final: frozenset[int] = frozenset()
    running: frozenset[int] = frozenset()
    has_unfinished: bool = False


class Answered(NamedTuple):
    """Which results of a message's calls are to be seen, by the call's number, and what `Group` has of the calls."""

    results: dict[int, int]
    final: frozenset[int]
    running: frozenset[int]
    has_unfinished: bool


def answered(pairs: Iterable[Pair], shown: Container[int], is_latest: bool) -> Answered:
    """Return what answers the calls of a message.

    `pairs` are the message's own, in order, `shown` the versions of the results that are visible. Interim results are
    to be seen while the message `is_latest`: of the last exchange.
    """
    final: set[int] = set()
    begun: set[int] = set()
    results: dict[int, int] = {}
    for pair in pairs:
        (begun if pair.interim else final).add(pair.number)
        if pair.result in shown and (not pair.interim or (is_latest and pair.number not in final)):
            results[pair.number] = pair.result
    unfinished = frozenset(begun - final)
    return Answered(results, frozenset(final), unfinished if is_latest else frozenset(), bool(unfinished))


def has_answers(message: VisibleMessage) -> bool:
    """Return whether results may answer the calls of a message."""
    return message.role == "assistant" and message.origin in ("message", "response")


def begins_exchange(message: VisibleMessage) -> bool:
    """Return whether an exchange begins with a message."""
    return message.role == "user" and message.origin == "message"


def groups(history: History, adjustments: list[Adjustment]) -> Iterator[Group]:
    """Return the messages of a history in order, results with the calls that they answer; others are dropped."""
    messages = history.messages
    latest = max((index for index, each in enumerate(messages) if begins_exchange(each)), default=0)
    results = {each.version: index for index, each in enumerate(messages) if each.role == "tool"}
    pairs: dict[int, list[Pair]] = {}
    for pair in history.pairs:
        pairs.setdefault(pair.call, []).append(pair)
    known = {
        index: answered(pairs[each.version], results, index >= latest)
        for index, each in enumerate(messages)
        if each.version in pairs and has_answers(each)
    }
    answering = {result for each in known.values() for result in each.results.values()}
    starts = _starts(messages)
    for index, message in enumerate(messages):
        if message.role != "tool":
            yield _group(messages, index, starts, known.get(index), results)
        elif message.version not in answering:
            unfinished = "interim result of a call that was never finished dropped"
            what = unfinished if message.interim else "result that answers no call dropped"
            adjustments.append(Adjustment(message.version, what))


def _starts(messages: Sequence[VisibleMessage]) -> list[int]:
    """Return the place before each message."""
    places = Places.of(messages)
    starts, count = [], 0
    for message in messages:
        starts.append(Places.SYSTEM if message.role == "system" else places.place(Messages(count)))
        count += message.role != "system"
    return starts


def _group(
    messages: Sequence[VisibleMessage],
    index: int,
    starts: Sequence[int],
    known: Answered | None,
    results: Mapping[int, int],
) -> Group:
    if known is None:
        return Group(messages[index], starts[index])
    answers = []
    before = index
    for at, number in sorted((results[version], number) for number, version in known.results.items()):
        answers.append(Answer(number, messages[at], starts[at], moved=at != before + 1))
        before = at
    return Group(messages[index], starts[index], tuple(answers), *known[1:])
