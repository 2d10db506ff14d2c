"""What of one request a provider can still have cached for another (DESIGN section 6)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, Literal

import msgspec

from turnlog.projections import History, VisibleMessage
from turnlog.projections.cache_points import Places
from turnlog.store import CachePoint

from .adapt import drafted
from .breaker import Hiders, breaker
from .counting import Gauge
from .wire import Block, Draft, Message, Wire

Section = Literal["tools", "system", "messages"]


@dataclass(frozen=True)
class StablePrefix:
    """How much of an earlier request is the beginning of a later one.

    `point` is the last cache point, of the later request, to which both agree byte for byte; None if not even the
    tools do. `kept` and `lost` are the earlier request's tokens before and after it, `estimated` from characters or
    counted. What broke the prefix is in the section `changed`, by the event of `version`; both are None if it is
    whole.
    """

    point: CachePoint | None
    kept: int
    lost: int
    estimated: bool
    changed: Section | None
    version: int | None

    def to_dict(self) -> dict[str, Any]:
        """As JSON, the point in its own form."""
        return {
            "point": None if self.point is None else self.point.form,
            "kept": self.kept,
            "lost": self.lost,
            "estimated": self.estimated,
            "changed": self.changed,
            "version": self.version,
        }


def stable_prefix(
    before: History, after: History, wire: Wire, tokens: Callable[[str], int] | None = None
) -> StablePrefix:
    """Compare the requests that two histories make on a wire, in the order of prefixes: tools, system, messages.

    `tokens` counts those of a text, and is given a request piece by piece: the tools, the system messages, each item of
    a message. Without it, 4 characters of the requests' JSON are a token.
    """
    return prefix_of(Written.on(before, wire), Written.on(after, wire), tokens)


def request_tokens(history: History, wire: Wire, tokens: Callable[[str], int] | None = None) -> int:
    """The tokens of the request that a history makes on a wire, counted as `stable_prefix` does."""
    return Written.on(history, wire).tokens(tokens)


def prefix_of(before: Written, after: Written, tokens: Callable[[str], int] | None = None) -> StablePrefix:
    """`stable_prefix` of requests that are written already."""
    old, new, gauge = before.pieces, after.pieces, Gauge(tokens)
    agree = 0
    while agree < min(len(old), len(new)) and old[agree].text == new[agree].text:
        agree += 1
    kept, everything = _count(old[:agree], gauge), before.tokens(tokens)
    broken = old[agree] if agree < len(old) else None
    return StablePrefix(
        point=after.places.point(new[agree - 1].place) if agree else None,
        kept=kept,
        lost=max(0, everything - kept),
        estimated=tokens is None,
        changed=None if broken is None else broken.section,
        version=None if broken is None else _breaker(old, new, agree, before.history, after.history),
    )


@dataclass(frozen=True)
class Written:
    """The request of a history on a wire, in the pieces between which a prefix can end."""

    history: History
    places: Places
    pieces: list[_Piece]

    @classmethod
    def on(cls, history: History, wire: Wire) -> Written:
        """Write it; this is what takes the time, once for several comparisons."""
        draft, _ = drafted(history, wire)
        return cls(history, draft.places, [*_pieces(draft, wire)])

    def tokens(self, tokens: Callable[[str], int] | None = None) -> int:
        """Return how many tokens it has."""
        return _count(self.pieces, Gauge(tokens))


@dataclass(frozen=True)
class _Piece:
    """What lies between two places where a prefix can end, as JSON; `place` is the one after it."""

    section: Section
    text: str
    place: int
    blocks: Sequence[Block] = ()


def _pieces(draft: Draft, wire: Wire) -> Iterator[_Piece]:
    yield _Piece("tools", to_text(draft.tools), Places.TOOLS)
    if wire.hoists:
        yield _Piece("system", to_text([block.value for block in draft.system]), Places.SYSTEM, draft.system)
    place = Places.SYSTEM
    for message in draft.messages:
        for text, blocks in pieces_of(message, wire):
            if message.role != "system":
                place += 1
            section: Section = "messages" if place > Places.SYSTEM else "system"
            yield _Piece(section, text, place, blocks)


def pieces_of(message: Message, wire: Wire, joins: bool = False) -> Iterator[tuple[str, Sequence[Block]]]:
    """Return the pieces of a message, each as its JSON and its items; `joins` says that it joins the one before it.

    A system message is one piece, and each item of another message one.
    """
    if message.role == "system":
        yield to_text(wire.written(message)), message.blocks
        return
    for number, block in enumerate(message.blocks):
        # With the first item comes what the message has beside its items.
        is_first = number == 0 and not joins
        yield to_text(wire.written(Message(message.role, [block], message.head)) if is_first else block.value), (block,)


def to_text(value: dict[str, Any] | list[dict[str, Any]]) -> str:
    """Return a part of a request as JSON; nothing if it is empty."""
    return msgspec.json.encode(value).decode() if value else ""


def count_alike(old: Sequence[Block], new: Sequence[Block]) -> int:
    """Return how many of the first items of two pieces are the same, of the same messages."""
    same = (one.value == two.value and one.source == two.source for one, two in zip(old, new, strict=False))
    return sum(takewhile(bool, same))


def _breaker(old: Sequence[_Piece], new: Sequence[_Piece], agree: int, before: History, after: History) -> int | None:
    """Return the version of the event by which piece `agree` of an earlier request is not in its place in a later."""
    if old[agree].section == "tools":
        return after.tools_since
    there = new[agree].blocks if agree < len(new) else ()
    at = sum(len(piece.blocks) for piece in old[:agree]) + count_alike(old[agree].blocks, there)
    was, now = _blocks(old), _blocks(new)
    came = now[at] if at < len(now) else None
    shown: dict[tuple[int, str], VisibleMessage] = {(each.version, each.origin): each for each in before.messages}
    return breaker(
        was[at] if at < len(was) else None,
        came,
        came is not None and came.source not in {block.source for block in was},
        reversed(was[:at]),
        Hiders(
            after.timeline,
            after.timeline.line(after.version),
            after.version,
            before.version,
            lambda version, origin: shown.get((version, origin)),
        ),
    )


def _blocks(pieces: Iterable[_Piece]) -> list[Block]:
    return [block for piece in pieces for block in piece.blocks]


def _count(pieces: Iterable[_Piece], gauge: Gauge) -> int:
    return gauge.tokens_of(sum(gauge.size(piece.text) for piece in pieces))
