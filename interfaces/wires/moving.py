"""A request of a view that moves along its timeline: only what changed is written again."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from heapq import merge
from itertools import chain
from typing import Any, NamedTuple

import msgspec

from .adapt import messages_of, opening, tools_on
from .counting import Gauge
from .groups import Group
from .moving_groups import MovingGroups
from .names import MovingNames, Named
from .parts import tool_of
from .stable_prefix import pieces_of, to_text
from .wire import Block, Message, Wire

Tools = list[dict[str, Any]]
_KEPT_TOOLS = 16  # Lists of tools whose text is kept.
_MUCH = 0.1  # Of the groups of a request.


class Sums(NamedTuple):
    """The size of a stretch of a request, and how many items and messages that places count begin in it."""

    size: int = 0
    items: int = 0
    messages: int = 0

    def plus(self, other: Sums, sign: int = 1) -> Sums:
        """Return both together or, with the sign -1, what is left without the other."""
        return Sums(
            self.size + sign * other.size, self.items + sign * other.items, self.messages + sign * other.messages
        )


NOTHING = Sums()


class Written(msgspec.Struct, frozen=True):
    """A group as a request has it: its first and last message without their items, and what they add up to.

    `alone` is that if its first message joins none, `joined` if it joins the one before it; `tail` is how many items
    its last message has. `hoisted` are the texts of the items that are hoisted. Nothing is left of a group without
    `first` and `hoisted`.
    """

    group: Group
    named: Named
    first: Message | None = None
    last: Message | None = None
    alone: Sums = NOTHING
    joined: Sums = NOTHING
    tail: int = 0
    hoisted: tuple[str, ...] = ()


class Piece(NamedTuple):
    """A piece of a request: its text, its items, whether it is a system message, and whether a message begins here."""

    text: str
    blocks: Sequence[Block]
    is_system: bool
    begins: bool


class Part(NamedTuple):
    """A group at its place in a request, and whether it joins what comes before it."""

    place: int
    written: Written
    joins: bool

    @property
    def sums(self) -> Sums:
        """Return what the group adds up to here."""
        return self.written.joined if self.joins else self.written.alone


class Before(NamedTuple):
    """What a request was before an update: the groups at the places that changed, its tools, their text, its size."""

    written: dict[int, Written | None]
    tools: Tools
    tools_text: str
    size: int


class Was(NamedTuple):
    """What an update changed, as it was before: by place, and the places of what is asked for, in order."""

    written: Mapping[int, Written | None]
    places: Iterable[int]


class MovingRequest:
    """The request of a moving view on a wire, as the sizes of its groups; the texts are made again when asked for."""

    def __init__(self, wire: Wire, gauge: Gauge) -> None:
        self.wire = wire
        self.gauge = gauge
        self.tools: Tools = []
        self.tools_text = ""
        self.tools_size = 0
        self.order: list[int] = []  # The places of the groups with messages.
        self.hoisted: list[int] = []  # Those of the groups that are hoisted.
        self._hoisted_characters = 0
        self._hoisted_size: int | None = None
        self._written: dict[int, Written] = {}
        self._names = MovingNames(wire.id_length)
        self._sums = NOTHING
        self._known_tools: list[tuple[Tools, str]] = []
        (piece,) = pieces_in(opening(Block({}, 0, 0, "message")), wire, False)
        self.opening = Sums(gauge.size(piece.text), 1, 1)

    def update(
        self,
        places: Collection[int],
        groups: MovingGroups,
        tools: Tools,
        known: Mapping[int, Written | None] | None = None,
    ) -> Before:
        """Take in the groups at some places and the tools as they are now; `known` may have some as they are written.

        Return what was before.
        """
        size = self.size
        if tools != self.tools:
            self._names.set_tools([tool.name for tool in map(tool_of, tools) if tool is not None])
        for place in places:
            self._names.set_calls(place, _calls_of(groups.get(place)))
        written = self._put({place: self._made(place, groups.get(place), known) for place in places})
        renamed = {}
        for place in self._names.changed():
            if place not in written and self._names.of(place) != self._written[place].named:
                renamed[place] = self._made(place, self._written[place].group, known)
        written |= self._put(renamed)
        before = Before(written, self.tools, self.tools_text, size)
        self.tools, self.tools_text = tools, self._text_of(tools)
        self.tools_size = self.gauge.size(self.tools_text)
        return before

    def restore(self, before: Before, groups: MovingGroups) -> None:
        """Undo an update, after the groups are what they were."""
        self.update(list(before.written), groups, before.tools, before.written)

    @property
    def size(self) -> int:
        """Return the size of the whole request."""
        return self.tools_size + self.hoisted_size + self.sums_before(len(self.order)).size

    @property
    def tokens(self) -> int:
        """Return how many tokens the whole request has."""
        return self.gauge.tokens_of(self.size)

    @property
    def hoisted_size(self) -> int:
        """Return the size of the hoisted system messages, which are one piece."""
        if self.gauge.tokens is None:
            return self._hoisted_characters + 1 if self.hoisted else 0
        if self._hoisted_size is None:
            texts = [text for place in self.hoisted for text in self._written[place].hoisted]
            self._hoisted_size = self.gauge.size(f"[{','.join(texts)}]" if texts else "")
        return self._hoisted_size

    def sums_before(self, index: int) -> Sums:
        """Return what comes before the group of a number, what opens the request included."""
        sums = self.sums_between(0, index)
        return sums.plus(self.opening) if index and self.is_opened_by(self._written[self.order[0]]) else sums

    def sums_between(self, first: int, last: int) -> Sums:
        """Return what the groups from a number on add up to, up to before another."""
        count = len(self.order)
        if last - first <= first + count - last:
            return _added(self.part(number).sums for number in range(first, last))
        others = chain(range(first), range(last, count))
        return self._sums.plus(_added(self.part(number).sums for number in others), -1)

    def tail_before(self, index: int) -> int:
        """Return how many items the last message before the group of a number has there."""
        items = 0
        for number in reversed(range(index)):
            part = self.part(number)
            if part.sums.messages:
                return items + part.written.tail
            items += part.sums.items
        return items

    def is_opened_by(self, first: Written) -> bool:
        """Return whether something has to be said before a group, if that is the first."""
        return first.first is not None and first.first.role not in self.wire.opens

    def part(self, number: int) -> Part:
        """Return the group of a number."""
        written = self._written[self.order[number]]
        before = self._written[self.order[number - 1]] if number else None
        return Part(self.order[number], written, self._joins(before, written))

    def parts(self, index: int, was: Was | None = None) -> Iterator[Part]:
        """Return the groups from a number on; before an update, if what changed from that group on is given."""
        before = self._written[self.order[index - 1]] if index else None
        for place, written in self._from(self.order, index, was):
            yield Part(place, written, self._joins(before, written))
            before = written

    def hoisted_from(self, index: int, was: Was | None = None) -> Iterator[tuple[int, Written]]:
        """Return the groups that are hoisted from a number on, as `parts` does."""
        return self._from(self.hoisted, index, was)

    def get(self, place: int) -> Written | None:
        """Return the group at a place; None if there is none."""
        return self._written.get(place)

    def pieces(self, written: Written, joins: bool) -> Iterator[Piece]:
        """Return the pieces of a group."""
        for number, message in enumerate(messages_of(written.group, self.wire, _Given(written.named))):
            yield from pieces_in(message, self.wire, joins and number == 0)

    def _from(self, order: list[int], index: int, was: Was | None) -> Iterator[tuple[int, Written]]:
        there = (order[number] for number in range(index, len(order)))
        if was is None:
            return ((place, self._written[place]) for place in there)
        places = merge((place for place in there if place not in was.written), was.places)
        return ((place, was.written.get(place) or self._written[place]) for place in places)

    def _joins(self, before: Written | None, written: Written) -> bool:
        """Return whether a group joins what comes before it."""
        if before is None or before.last is None or written.first is None:
            return False
        return before.last.is_joined_by(written.first, self.wire)

    def _put(self, new: Mapping[int, Written | None]) -> dict[int, Written | None]:
        """Put groups, or nothing, at places; return what was there."""
        was = {place: self._written.get(place) for place in new}
        # One by one costs what changes; all at once is faster if that is much of the request.
        at_once = len(new) > _MUCH * len(self.order)
        for place, written in new.items():
            if not at_once:
                self._put_one(place, written)
            elif written is None:
                self._written.pop(place, None)
            else:
                self._written[place] = written
            old = was[place]
            self._hoist(place, () if old is None else old.hoisted, () if written is None else written.hoisted)
        if at_once:
            self.order = sorted(place for place, each in self._written.items() if each.first is not None)
            self._sums = _added(self.part(number).sums for number in range(len(self.order)))
        return was

    def _put_one(self, place: int, written: Written | None) -> None:
        old = self._written.get(place)
        number = bisect_left(self.order, place)
        had, has = old is not None and old.first is not None, written is not None and written.first is not None
        self._count(number, number + had, -1)
        if written is not None:
            self._written[place] = written
        elif old is not None:
            del self._written[place]
        if had and not has:
            del self.order[number]
        elif has and not had:
            self.order.insert(number, place)
        self._count(number, number + has, 1)

    def _count(self, first: int, last: int, sign: int) -> None:
        """Add some groups to the sums, or take them off."""
        for number in range(first, min(last + 1, len(self.order))):
            self._sums = self._sums.plus(self.part(number).sums, sign)

    def _hoist(self, place: int, old: tuple[str, ...], new: tuple[str, ...]) -> None:
        if old == new:
            return
        if new and not old:
            insort(self.hoisted, place)
        elif old and not new:
            del self.hoisted[bisect_left(self.hoisted, place)]
        self._hoisted_characters += sum(len(text) + 1 for text in new) - sum(len(text) + 1 for text in old)
        self._hoisted_size = None

    def _made(self, place: int, group: Group | None, known: Mapping[int, Written | None] | None) -> Written | None:
        if group is None:
            return None
        named = self._names.of(place)
        written = known.get(place) if known else None
        if written is not None and written.group is group and written.named == named:
            return written
        messages = messages_of(group, self.wire, _Given(named))
        if not messages:
            return Written(group, named)
        first, last = messages[0], messages[-1]
        if self.wire.hoists and first.role == "system":
            return Written(group, named, hoisted=tuple(to_text(block.value) for block in first.blocks))
        alone = _added(self.sums_of(piece) for message in messages for piece in pieces_in(message, self.wire, False))
        joined = alone
        if first.role in self.wire.joins:
            # What the first item has beside itself, and that a message begins with it, is left out.
            one = Message(first.role, first.blocks[:1], first.head)
            with_head, bare = (to_text(each) for each in (self.wire.written(one), first.blocks[0].value))
            joined = alone.plus(Sums(self.gauge.size(with_head) - self.gauge.size(bare), 0, 1), -1)
        return Written(group, named, _bare(first), _bare(last), alone, joined, len(last.blocks))

    def sums_of(self, piece: Piece) -> Sums:
        """Return what a piece adds up to."""
        return Sums(self.gauge.size(piece.text), not piece.is_system, piece.begins)

    def _text_of(self, tools: Tools) -> str:
        """Return the text of tools, which is long and seldom new."""
        is_regular = self._names.is_regular
        found = next((text for each, text in self._known_tools if each == tools), None) if is_regular else None
        if found is None:
            found = to_text(tools_on(tools, self.wire, self._names.tool, lambda what: None))
            if is_regular:
                self._known_tools = [*self._known_tools[1 - _KEPT_TOOLS :], (tools, found)]
        return found


class _Given:
    """Gives the ids and names that a request has given to the calls of a message."""

    def __init__(self, named: Named) -> None:
        self._ids, self._tools = iter(named.ids), iter(named.tools)

    def call(self, id: str) -> str:
        """Return the id of a further call."""
        return next(self._ids)

    def tool(self, name: str) -> str:
        """Return the name of the tool of that call."""
        return next(self._tools)


def _calls_of(group: Group | None) -> list[tuple[str, str]]:
    """Return the calls of a group that a request has, as ids and names of tools."""
    if group is None or group.message.role != "assistant":
        return []
    return [(call.id, call.name) for call in group.message.tool_calls]


def pieces_in(message: Message, wire: Wire, joins: bool) -> Iterator[Piece]:
    """Return the pieces of a message; `joins` says that it joins the one before it."""
    is_system = message.role == "system"
    for number, (text, blocks) in enumerate(pieces_of(message, wire, joins)):
        yield Piece(text, blocks, is_system, not is_system and number == 0 and not joins)


def _bare(message: Message) -> Message:
    """Return a message without its items."""
    return Message(message.role, [], message.head)


def _added(each: Iterable[Sums]) -> Sums:
    size = items = messages = 0
    for sums in each:
        size, items, messages = size + sums[0], items + sums[1], messages + sums[2]
    return Sums(size, items, messages)
