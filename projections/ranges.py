"""A view as ranges of the log: only the events that shape it are folded, plain messages are read when asked for.

The rules are those of the plain fold (`fold.py`), applied to ranges of versions. What a range cannot say is read from
the log: the last n messages, the first one that a summary covers, the calls that transfers made.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import TypeAlias

import msgspec

from turnlog.store import Row, Store
from turnlog.store.events import Frame, MessageFrame, ResponseFrame, RewindFrame, read_frame
from turnlog.store.streams import OPEN, Stream

from .fold import said
from .state import SHARED, Assistants
from .transfer import has_said_something
from .view import Hiding, Item, Place

PLAIN = ("message", "response")
MANY = 1000  # Rows to read at once where all are wanted.
# Runs that are no further apart are read together, and what lies between them is passed over.
_NEAR = 64

Shaping: TypeAlias = tuple[int, str | None, Frame]  # Version, scope and frame of an event that shapes a view.
Range: TypeAlias = tuple[int, int]  # The first and the last version.
Call: TypeAlias = tuple[int, int]  # The version of a message and a call's place in it.


class Run(msgspec.Struct, frozen=True, gc=False):
    """The plain messages of a scope in versions `first` to `last`, said while `assistant` was active.

    `texts_by` is the transfer whose context left only what was said there, as text.
    """

    first: int
    last: int
    assistant: str | None
    texts_by: int | None = None

    @property
    def place(self) -> Place:
        return self.first, 0

    def without(self, first: int, last: int) -> list[Run]:
        """What is left of it without a range of versions."""
        return [*self.within(self.first, first - 1), *self.within(last + 1, self.last)]

    def within(self, first: int, last: int) -> list[Run]:
        """What of it lies in a range of versions."""
        first, last = max(self.first, first), min(self.last, last)
        return [Run(first, last, self.assistant, self.texts_by)] if first <= last else []


Piece: TypeAlias = Run | Item
place_of = attrgetter("place")


class Rows:
    """The plain messages of a conversation up to a version, read as they are asked for; `kept` has those read."""

    def __init__(self, store: Store, conversation: Stream, last: int, kept: dict[int, Row]) -> None:
        self._store = store
        self._conversation = conversation
        self._last = last
        self.kept = kept

    def items(
        self, runs: Mapping[str, Sequence[Run]], backwards: bool = False, page: int = MANY, bodies: bool = True
    ) -> Iterator[Item]:
        """The visible items of runs of one or two scopes, in order; `page` rows are read at first, then more.

        Without `bodies` what was said is not read, and nothing is kept.
        """
        firsts = {scope: [run.first for run in own] for scope, own in runs.items()}
        stretches = _stretches(runs, self._last)
        for first, last, scopes in reversed(stretches) if backwards else stretches:
            for rows in self._store.said(self._conversation, first, last, scopes, backwards, page, bodies):
                for row in rows:
                    version, scope = row.version, row.scope
                    assert scope is not None
                    at = bisect_right(firsts[scope], version) - 1
                    run = runs[scope][at]
                    if at < 0 or version > run.last:
                        continue
                    item = _said(row, scope, run.assistant)
                    if item is not None and (run.texts_by is None or _reduced(item, run.texts_by)):
                        if bodies:
                            self.kept[version] = row
                        yield item


def _said(row: Row, scope: str, active: str | None) -> Item | None:
    """The item of a message that is no note, which stands for itself, or of a completed response."""
    frame = read_frame(row.type, row.v, row.version, scope, row.frame_text)
    if isinstance(frame, MessageFrame):
        return None if frame.role == "system" else said(row.version, scope, frame, active)
    if isinstance(frame, ResponseFrame) and frame.status == "completed":
        return said(row.version, scope, frame, active)
    return None


def _stretches(runs: Mapping[str, Sequence[Run]], last: int) -> list[tuple[int, int, list[str]]]:
    """The ranges of versions to read, in order, each with the scopes that have runs there."""
    if len(runs) == 1:
        ((scope, own),) = runs.items()
        if len(own) == 1:
            first, upto = own[0].first, min(own[0].last, last)
            return [(first, upto, [scope])] if first <= upto else []
    edges = []
    for scope, own in runs.items():
        begun = ended = 0
        for run in own:
            if not ended or run.first - ended > _NEAR:
                if ended:
                    edges += [(begun, True, scope), (ended + 1, False, scope)]
                begun = run.first
            ended = run.last
        if ended:
            edges += [(begun, True, scope), (ended + 1, False, scope)]
    found = []
    here: list[str] = []
    since = 0
    for version, begins, scope in sorted(edges):
        if here and since < version and since <= last:
            found.append((since, min(version - 1, last), list(here)))
        since = version
        if begins:
            here.append(scope)
        else:
            here.remove(scope)
    return found


def _reduced(item: Item, by: int) -> bool:
    """Leave an item's text alone; False if it has none."""
    if not has_said_something(item):
        return False
    item.text_only = True
    hiding = Hiding("context:userAndAssistantMessages", by, transfer=True)
    item.removed = {index: item.removed.get(index, hiding) for index in range(len(item.calls))}
    return True


def path_of_ranges(events: Sequence[Shaping], scope: str) -> list[Range]:
    """The versions on a scope's path, as the rewinds among the events leave it (rule 1)."""
    since = [0]
    paths: list[list[Range]] = [[(1, OPEN)]]
    for version, rewound, frame in events:
        if isinstance(frame, RewindFrame) and rewound in (None, scope):
            earlier = paths[bisect_right(since, frame.to) - 1]
            since.append(version)
            kept = [(first, min(last, frame.to)) for first, last in earlier if first <= frame.to]
            paths.append([*kept, (version + 1, OPEN)])
    return paths[-1]


@dataclass
class Shape(Assistants):
    """One scope's own part of a view: its path, its prompts, and all else in order.

    `gone` are items that a transfer hid after it had removed a call of theirs whose result had not come; `dropping`
    the transfers that hid messages, of which `choosing` may have kept older ones and hidden newer. What stood before
    `reset` is hidden by then.
    """

    scope: str = "chat"
    path: list[Range] = field(default_factory=list)
    reset: int = 0
    prompts: list[Item] = field(default_factory=list)
    pieces: list[Piece] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    gone: list[Item] = field(default_factory=list)
    dropping: list[int] = field(default_factory=list)
    choosing: list[int] = field(default_factory=list)

    def has(self, version: int) -> bool:
        """Whether a version is on the path."""
        at = bisect_right(self.path, (version, OPEN)) - 1
        return at >= 0 and version <= self.path[at][1]

    def say(self, first: int, last: int) -> None:
        """Add what was said in versions `first` to `last` of the path, which no event shapes."""
        said = Run(first, last, None if self.scope == SHARED else self.active)
        for begun, ended in self.path[max(0, bisect_right(self.path, (first, OPEN)) - 1) :]:
            if begun > last:
                break
            self.pieces += said.within(begun, ended)

    def put(self, item: Item) -> None:
        """Put an item at its place."""
        insort(self.pieces, item, key=place_of)

    def between(self, first: int, last: int) -> slice:
        """Where the pieces of a range of versions are."""
        start = bisect_left(self.pieces, (first, -1), key=place_of)
        if start and isinstance(before := self.pieces[start - 1], Run) and before.last >= first:
            start -= 1
        return slice(start, bisect_right(self.pieces, (last, OPEN), key=place_of))

    def keep(self, pieces: list[Piece]) -> None:
        """Leave these messages, by a transfer."""
        stays = {piece for piece in pieces if isinstance(piece, Item)}
        for piece in self.pieces:
            if isinstance(piece, Item) and piece not in stays:
                self._lose(piece)
        self.pieces = pieces

    def item(self, version: int) -> Item | None:
        """The message of a version, if it has been lifted and is still visible."""
        at = self._at(version)
        piece = None if at is None else self.pieces[at]
        return piece if isinstance(piece, Item) else None

    def lift(self, version: int, rows: Rows) -> Item | None:
        """The message of a version, taken out of its run to be an item of its own; None if it is not visible."""
        at = self._at(version)
        piece = None if at is None else self.pieces[at]
        if at is None or not isinstance(piece, Run):
            return piece if isinstance(piece, Item) else None
        item = next(rows.items({self.scope: piece.within(version, version)}, page=1), None)
        if item is not None:
            before, after = piece.within(piece.first, version - 1), piece.within(version + 1, piece.last)
            self.pieces[at : at + 1] = [*before, item, *after]
        return item

    def drop(self, version: int) -> None:
        """Hide the message of a version, by a transfer."""
        at = self._at(version)
        if at is not None:
            piece = self.pieces[at]
            self.pieces[at : at + 1] = piece.without(version, version) if isinstance(piece, Run) else []
            if isinstance(piece, Item):
                self._lose(piece)

    def _at(self, version: int) -> int | None:
        """Where the piece is that has the message of a version. Nothing else stands inside of a run."""
        for at in range(bisect_right(self.pieces, (version, 0), key=place_of) - 1, -1, -1):
            piece = self.pieces[at]
            if isinstance(piece, Run):
                return at if piece.first <= version <= piece.last else None
            if piece.version == version and piece.origin in PLAIN:
                return at
            if piece.place < (version, 0):
                return None
        return None

    def _lose(self, item: Item) -> None:
        if any(removal.unanswered for removal in item.removed.values()):
            # Its other calls go with it, and without them no result comes to be seen that was not: see `Unsure`.
            lost = {index: Hiding("transfer", item.version, transfer=True) for index, _ in item.visible_calls}
            self.gone.append(msgspec.structs.replace(item, removed=item.removed | lost))
