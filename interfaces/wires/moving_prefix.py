"""What an update of a moving request has left of the request before it: `prefix_of`, by what changed alone."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, islice, zip_longest
from typing import NamedTuple

from turnlog.projections import VisibleMessage
from turnlog.projections.timelines.catch_up import Line
from turnlog.projections.timelines.timeline import Timeline
from turnlog.store import CachePoint
from turnlog.store.events import Messages, System, Tools, Within
from turnlog.store.spans import NEVER

from .adapt import opening
from .breaker import Hiders, breaker
from .moving import Before, MovingRequest, Part, Piece, Sums, Was, Written, pieces_in
from .stable_prefix import Section, StablePrefix, count_alike
from .wire import Block


class _Item(NamedTuple):
    """An item of a request, and the place of its group."""

    block: Block
    place: int


class _Broken(NamedTuple):
    """Where an earlier request is no longer the beginning of a later one: the section, and the two items there.

    `earlier` are the items before it that may have been hidden, the last first.
    """

    section: Section
    lost: _Item | None = None
    came: _Item | None = None
    earlier: Iterable[Block] = ()


class _Cursor:
    """Goes along the pieces of a request from a group on; before an update, if `was` is given."""

    def __init__(self, request: MovingRequest, number: int, was: Was | None = None) -> None:
        self._request = request
        self.go_to(number, was)
        self._left: list[Piece] = []  # Of the group that it is in, the last first.
        self._place = 0
        self.passed: list[Block] = []  # The items of that group that lie behind.
        self.opening: Block | None = None
        if number == 0 and self._next is not None and request.is_opened_by(self._next.written):
            first = next(request.pieces(self._next.written, False)).blocks[0]
            self._place = self._next.place
            self._left = list(pieces_in(opening(first), request.wire, False))
            self.opening = self._left[0].blocks[0]

    @property
    def place(self) -> int:
        """Return the place of the group that it is in."""
        return self._place

    @property
    def ahead(self) -> Part | None:
        """Return the group that begins here, if one does."""
        return None if self._left else self._next

    def go_to(self, number: int, was: Was | None = None) -> None:
        """Go to where a group begins."""
        self._parts = self._request.parts(number, was)
        self._next = next(self._parts, None)

    def piece(self) -> Piece | None:
        """Return the piece that begins here, or None at the end."""
        if not self._left and self._next is not None:
            self._left = list(self._request.pieces(self._next.written, self._next.joins))[::-1]
            self._place = self._next.place
            self.passed = []
            self._next = next(self._parts, None)
        return self._left[-1] if self._left else None

    def take(self) -> None:
        """Pass over the piece that begins here."""
        self.passed += self._left.pop().blocks

    def items(self) -> Iterator[_Item]:
        """Go along the items from here on."""
        while (piece := self.piece()) is not None:
            yield from (_Item(block, self._place) for block in piece.blocks)
            self.take()


def prefix_after(
    request: MovingRequest, before: Before, tools_since: int | None, timeline: Timeline, line: Line, at: int
) -> StablePrefix:
    """Return what an update has left of the request before it.

    The update was by the event of version `at` of a timeline; `tools_since` is the version of the event that gave the
    assistant that is active then its tools.
    """
    point, size, broken = _kept(request, before)
    version = None
    if broken is not None and broken.section == "tools":
        version = tools_since
    elif broken is not None:
        lost, came = broken.lost, broken.came
        version = breaker(
            None if lost is None else lost.block,
            None if came is None else came.block,
            came is not None and not _was_there(request, before.written, came),
            broken.earlier,
            Hiders(timeline, line, at, at - 1, lambda *key: _shown(before.written, *key)),
        )
    gauge = request.gauge
    kept = gauge.tokens_of(size)
    return StablePrefix(
        point=point,
        kept=kept,
        lost=max(0, gauge.tokens_of(before.size) - kept),
        estimated=gauge.tokens is None,
        changed=None if broken is None else broken.section,
        version=version,
    )


def _kept(request: MovingRequest, before: Before) -> tuple[CachePoint | None, int, _Broken | None]:
    """Return the last point to which both requests agree, the size up to there, and where they no longer agree."""
    if before.tools_text != request.tools_text:
        return None, 0, _Broken("tools")
    size = request.tools_size
    if request.wire.hoists:
        broken = _compare_hoisted(request, before.written)
        if broken is not None:
            return Tools(), size, broken
        size += request.hoisted_size
    comparison = _Comparison(request, before.written)
    comparison.run()
    return comparison.point(), size + comparison.agreed.size, comparison.broken()


class _Comparison:
    """Compares the messages of a request before and after an update, from the first group on that changed."""

    def __init__(self, request: MovingRequest, was: Mapping[int, Written | None]) -> None:
        self._request, self._was = request, was
        self._places = sorted(place for place, old in was.items() if old is not None and old.first is not None)
        changed = (place for place in was if (new := request.get(place)) is not None and new.first is not None)
        self._changed = sorted({*self._places, *changed})
        self._number = self._number_of(0)
        self._old = _Cursor(request, self._number, self._was_from(0))
        self._new = _Cursor(request, self._number)
        self.agreed = request.sums_before(self._number)
        self._any = self._number > 0
        self._tail: int | None = None  # Items of the last message so far, if it began from the first group on.
        self._since = 0

    def run(self) -> None:
        """Go on as long as both agree."""
        old, new = self._old, self._new
        while True:
            one, two = old.ahead, new.ahead
            if one is not None and two is not None and one.written is two.written and one.joins == two.joins:
                self._pass_over(one.place)
                continue
            was, now = old.piece(), new.piece()
            if was is None or now is None or was.text != now.text:
                return
            self._agree(self._request.sums_of(now), 1)
            old.take()
            new.take()

    def _pass_over(self, place: int) -> None:
        """Go on to the next group that changed, from one at the same place of both that did not."""
        following = bisect_right(self._changed, place)
        first, last = bisect_left(self._request.order, place), self._number_of(following)
        sums = self._request.sums_between(first, last)
        self._agree(sums, self._request.tail_before(last) if sums.messages else 0)
        self._old.go_to(last, self._was_from(following))
        self._new.go_to(last)

    def _number_of(self, changed: int) -> int:
        """Return the number of the first group from one of those on that changed."""
        order = self._request.order
        return bisect_left(order, self._changed[changed]) if changed < len(self._changed) else len(order)

    def _was_from(self, changed: int) -> Was:
        """Return what there was from one of the groups on that changed."""
        place = self._changed[changed] if changed < len(self._changed) else NEVER
        first = bisect_left(self._places, place)
        return Was(self._was, (self._places[number] for number in range(first, len(self._places))))

    def _agree(self, sums: Sums, tail: int) -> None:
        self.agreed = self.agreed.plus(sums)
        self._any = True
        if sums.messages:
            self._tail = tail
        elif self._tail is not None:
            self._tail += sums.items
        else:
            self._since += sums.items

    def point(self) -> CachePoint:
        """Return the last point to which both agree."""
        following = self._new.piece()
        if not self.agreed.items:
            return System() if self._any or self._request.wire.hoists else Tools()
        if following is None or following.is_system or following.begins:
            return Messages(self.agreed.messages)
        tail = self._since + self._request.tail_before(self._number) if self._tail is None else self._tail
        return Within(self.agreed.messages - 1, tail)

    def broken(self) -> _Broken | None:
        """Return where they no longer agree; None if all of the request before is the beginning of the later one."""
        was, now = self._old.piece(), self._new.piece()
        if was is None:
            return None
        section: Section = "system" if was.is_system and not self.agreed.items else "messages"
        alike = count_alike(was.blocks, () if now is None else now.blocks)
        before = [*self._old.passed, *was.blocks[:alike]][::-1]
        earlier = chain(before, self._earlier(self._old.place))
        lost, came = (next(islice(each.items(), alike, None), None) for each in (self._old, self._new))
        return _Broken(section, lost, came, earlier)

    def _earlier(self, place: int) -> Iterator[Block]:
        """Return the items before a group that may have been hidden, the last first: those of groups that changed."""
        messages = {each: old for each, old in self._was.items() if old and old.first and each < place}
        yield from _backwards(self._request, messages)
        if self._old.opening is not None:
            yield self._old.opening
        yield from _backwards(self._request, {each: old for each, old in self._was.items() if old and old.hoisted})


class _Hoisted(NamedTuple):
    """An item that is hoisted: its group, that one's place, and its number in it."""

    text: str
    written: Written
    place: int
    number: int


def _compare_hoisted(request: MovingRequest, was: Mapping[int, Written | None]) -> _Broken | None:
    """Return where the hoisted system messages no longer agree; None if they do."""
    places = sorted(place for place, old in was.items() if old is not None and old.hoisted)
    changed = [*places, *(place for place in was if (new := request.get(place)) is not None and new.hoisted)]
    number = bisect_left(request.hoisted, min(changed)) if changed else len(request.hoisted)
    first: tuple[_Hoisted | None, _Hoisted | None] | None = None
    both = (request.hoisted_from(number, each) for each in (Was(was, places), None))
    for one, two in zip_longest(*map(_hoisted, both)):
        is_same = one is not None and two is not None and one.text == two.text
        if first is None and not (is_same and _source(one) == _source(two)):
            first = one, two
        if not is_same:
            break
    else:
        return None
    assert first is not None
    lost, came = first
    old_items, new_items = _whole(request, was).items(), _Cursor(request, 0).items()
    place, number = (NEVER, 0) if lost is None else (lost.place, lost.number)
    earlier = {each: old for each, old in was.items() if old and old.hoisted and each < place}
    before = [] if lost is None else _blocks(request, lost.written)[:number]
    return _Broken(
        "system",
        next(old_items, None) if lost is None else _Item(_blocks(request, lost.written)[number], place),
        next(new_items, None) if came is None else _Item(_blocks(request, came.written)[came.number], came.place),
        chain(before[::-1], _backwards(request, earlier)),
    )


def _whole(request: MovingRequest, was: Mapping[int, Written | None]) -> _Cursor:
    """Return a cursor that begins with the messages of the request before an update."""
    places = sorted(place for place, old in was.items() if old is not None and old.first is not None)
    return _Cursor(request, 0, Was(was, places))


def _hoisted(groups: Iterator[tuple[int, Written]]) -> Iterator[_Hoisted]:
    return (_Hoisted(text, each, place, number) for place, each in groups for number, text in enumerate(each.hoisted))


def _source(item: _Hoisted) -> tuple[int, str]:
    return item.written.group.message.version, item.written.group.message.origin


def _blocks(request: MovingRequest, written: Written) -> list[Block]:
    return [block for piece in request.pieces(written, False) for block in piece.blocks]


def _backwards(request: MovingRequest, groups: Mapping[int, Written]) -> Iterator[Block]:
    for place in sorted(groups, reverse=True):
        yield from reversed(_blocks(request, groups[place]))


def _was_there(request: MovingRequest, was: Mapping[int, Written | None], came: _Item) -> bool:
    """Return whether the request before an update had what an item was made of."""
    own = request.get(came.place) if came.place not in was else None
    candidates = [each for each in (own, *was.values()) if each is not None and came.block.version in _versions(each)]
    if any(block.source == came.block.source for each in candidates for block in _blocks(request, each)):
        return True
    opened = _whole(request, was).opening
    return opened is not None and opened.source == came.block.source


def _versions(written: Written) -> list[int]:
    return [written.group.message.version, *(answer.message.version for answer in written.group.answers)]


def _shown(was: Mapping[int, Written | None], version: int, origin: str) -> VisibleMessage | None:
    """Return how a message that changed was shown before an update."""
    messages = (written.group.message for written in was.values() if written is not None)
    return next((each for each in messages if (each.version, each.origin) == (version, origin)), None)
