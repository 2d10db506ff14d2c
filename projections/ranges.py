"""A view as ranges of the log: only the events that shape it are folded, plain messages are read when asked for.

The rules are those of the plain fold (`fold.py`), applied to ranges of versions. What a range cannot say is read from
the log: the last n messages, the first one that a summary covers, the calls that transfers made.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from turnlog.store import Event, Store
from turnlog.store.frames import MessageFrame, ResponseFrame
from turnlog.store.streams import OPEN, Stream

from .fold import said
from .state import SHARED, Assistants
from .transfer import has_said_something
from .view import Hiding, Item

PLAIN = ("message", "response")
# Rows to read at first: from the end few are wanted, from the beginning usually all.
_FEW, _MANY = 64, 1000


@dataclass(frozen=True, slots=True)
class Run:
    """The plain messages of a scope in versions `first` to `last`, said while `assistant` was active.

    `texts_by` is the transfer whose context left only what was said there, as text.
    """

    first: int
    last: int
    assistant: str | None
    texts_by: int | None = None

    @property
    def place(self) -> tuple[int, int]:
        return self.first, 0

    def without(self, first: int, last: int) -> list[Run]:
        """What is left of it without a range of versions."""
        pieces = [replace(self, last=min(self.last, first - 1)), replace(self, first=max(self.first, last + 1))]
        return [piece for piece in pieces if piece.first <= piece.last]

    def within(self, first: int, last: int) -> list[Run]:
        """What of it lies in a range of versions."""
        piece = replace(self, first=max(self.first, first), last=min(self.last, last))
        return [piece] if piece.first <= piece.last else []


Piece: TypeAlias = Run | Item
Call: TypeAlias = tuple[int, int]  # The version of a message and a call's place in it.


class Rows:
    """The plain messages of a conversation up to a version, read as they are asked for; `events` keeps those read."""

    def __init__(self, store: Store, conversation: Stream, last: int, events: dict[int, Event]) -> None:
        self._store = store
        self._conversation = conversation
        self._last = last
        self.events = events

    def items(self, run: Run, scope: str, backwards: bool = False) -> Iterator[Item]:
        """The visible items of a run, in order."""
        last = min(run.last, self._last)
        for event in self._store.events(
            self._conversation,
            run.first,
            last,
            types=PLAIN,
            scopes=(scope,),
            backwards=backwards,
            page=_FEW if backwards or run.first == last else _MANY,
        ):
            frame = event.frame
            if isinstance(frame, MessageFrame) and frame.role == "system":
                continue  # A note, which stands for itself.
            if isinstance(frame, MessageFrame) or (isinstance(frame, ResponseFrame) and frame.status == "completed"):
                self.events[event.version] = event
                item = said(event.version, scope, frame, run.assistant)
                if run.texts_by is None or _reduced(item, run.texts_by):
                    yield item


def _reduced(item: Item, by: int) -> bool:
    """Leave an item's text alone; False if it has none."""
    if not has_said_something(item):
        return False
    item.text_only = True
    hiding = Hiding("context:userAndAssistantMessages", by, transfer=True)
    item.removed = {index: item.removed.get(index, hiding) for index in range(len(item.calls))}
    return True


@dataclass
class Shape(Assistants):
    """One scope's own part of a view: the prompts at its head, newest first, and all else in order.

    `gone` are items that a transfer hid after it had removed a call of theirs whose result had not come; `dropping`
    the transfers that hid messages, of which `choosing` may have kept older ones and hidden newer.
    """

    scope: str = "chat"
    heads: list[Item] = field(default_factory=list)
    pieces: list[Piece] = field(default_factory=list)
    before_active: tuple[Piece, ...] = ()
    calls: list[Call] = field(default_factory=list)
    gone: list[Item] = field(default_factory=list)
    dropping: list[int] = field(default_factory=list)
    choosing: list[int] = field(default_factory=list)

    def copy(self) -> Shape:
        """What a rewind can come back to."""
        pieces: list[Piece] = [
            replace(piece, removed=dict(piece.removed)) if isinstance(piece, Item) else piece for piece in self.pieces
        ]
        return replace(
            self,
            known={name: replace(known) for name, known in self.known.items()},
            heads=list(self.heads),
            pieces=pieces,
            calls=list(self.calls),
            gone=list(self.gone),
            dropping=list(self.dropping),
            choosing=list(self.choosing),
        )

    def end(self, version: int) -> None:
        """Let the run that is open end before an event."""
        if self.pieces and isinstance(self.pieces[-1], Run) and self.pieces[-1].last == OPEN:
            self.pieces[-1:] = self.pieces[-1].within(0, version - 1)

    def begin(self, version: int) -> None:
        """Begin a run after an event."""
        self.pieces.append(Run(version + 1, OPEN, None if self.scope == SHARED else self.active))

    def put(self, item: Item) -> None:
        """Put an item at its place."""
        insort(self.pieces, item, key=lambda piece: piece.place)

    def messages(self) -> list[Piece]:
        """All pieces but the prompts."""
        return [piece for piece in self.pieces if not (isinstance(piece, Item) and piece.is_prompt)]

    def prompts(self) -> list[Piece]:
        """The prompts that do not stand at the head."""
        return [piece for piece in self.pieces if isinstance(piece, Item) and piece.is_prompt]

    def keep(self, pieces: list[Piece]) -> None:
        """Leave these messages and the prompts, by a transfer."""
        stays = {piece for piece in pieces if isinstance(piece, Item)}
        for piece in self.messages():
            if isinstance(piece, Item) and piece not in stays:
                self._lose(piece)
        self.pieces = sorted([*self.prompts(), *pieces], key=lambda piece: piece.place)

    def lift(self, version: int, rows: Rows) -> Item | None:
        """The message of a version, taken out of its run to be an item of its own; None if it is not visible."""
        for at, piece in enumerate(self.pieces):
            if isinstance(piece, Item):
                if piece.version == version and piece.origin in PLAIN:
                    return piece
            elif piece.first <= version <= piece.last:
                item = next(rows.items(replace(piece, first=version, last=version), self.scope), None)
                if item is not None:
                    pieces: list[Piece] = [*piece.without(version, version), item]
                    self.pieces[at : at + 1] = sorted(pieces, key=lambda each: each.place)
                return item
        return None

    def drop(self, version: int) -> None:
        """Hide the message of a version, by a transfer."""
        pieces: list[Piece] = []
        for piece in self.pieces:
            if isinstance(piece, Run):
                pieces += piece.without(version, version)
            elif piece.version == version and piece.origin in PLAIN:
                self._lose(piece)
            else:
                pieces.append(piece)
        self.pieces = pieces

    def _lose(self, item: Item) -> None:
        if any(removal.unanswered for removal in item.removed.values()):
            # Its other calls go with it, and without them no result comes to be seen that was not: see `Unsure`.
            lost = {index: Hiding("transfer", item.version, transfer=True) for index, _ in item.visible_calls}
            self.gone.append(replace(item, removed=item.removed | lost))
