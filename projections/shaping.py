"""The rules of section 4 on ranges: what each event that shapes a view does to its runs and items."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

import msgspec

from turnlog.store.events import (
    AssistantFrame,
    ClearFrame,
    Context,
    Frame,
    MessageFrame,
    Mode,
    RewindFrame,
    SummaryFrame,
    TransferFrame,
)
from turnlog.store.streams import OPEN

from .fold import Modes, said
from .pairing import CallKey, nearest
from .ranges import MANY, Call, Piece, Rows, Run, Shape, Shaping, path_of_ranges, place_of
from .state import SHARED
from .summary import covers
from .transfer import DELETING, REMOVING, ROLLING, has_said_something
from .view import Hiding, Item, Origin, Place

# Rows and pieces to read at first where what is looked for is usually near.
_FEW = 4
_FIRST: Place = (-1, -OPEN)


class Unsure(Exception):
    """A case that ranges cannot tell: the plain fold has to."""


class Shaped:
    """A view of a scope as ranges: its own part, and shared memory's."""

    def __init__(self, scope: str, modes: Modes, events: Sequence[Shaping], rows: Rows) -> None:
        self.parts = {name: Shape(scope=name, path=path_of_ranges(events, name)) for name in (scope, SHARED)}
        self.own = self.parts[scope]
        self._modes = modes
        self._rows = rows
        self._last_removing = 0
        path = []
        for version, name, frame in events:
            if name is not None and not isinstance(frame, RewindFrame) and self.parts[name].has(version):
                path.append((version, self.parts[name], frame))
        self._fold(path)

    def _fold(self, path: list[tuple[int, Shape, Frame]]) -> None:
        following = {}
        upto = dict.fromkeys(self.parts, OPEN)
        for version, part, frame in reversed(path):
            following[version] = upto[part.scope]
            upto[part.scope] = version - 1
            hides_all = isinstance(frame, ClearFrame)
            if isinstance(frame, TransferFrame):
                mode = self._modes.of(version, frame)
                hides_all = mode == DELETING
                if mode == REMOVING:
                    self._last_removing = max(self._last_removing, version)
            # What shared memory had before it was cleared can have answered calls that transfers removed meanwhile.
            if hides_all and part is self.own:
                part.reset = max(part.reset, version)
        for part in self.parts.values():
            if not part.reset:
                part.say(1, upto[part.scope])
        for version, part, frame in path:
            self._shape(part, version, frame)
            if version >= part.reset:
                part.say(version + 1, following[version])

    def _shape(self, part: Shape, version: int, frame: Frame) -> None:
        counts = version >= part.reset
        match frame:
            case MessageFrame():
                if counts:
                    part.put(said(version, part.scope, frame, part.active))
            case AssistantFrame():
                _declare(part, version, frame)
            case TransferFrame():
                mode = self._modes.of(version, frame)
                if counts:
                    self._hand_over(part, version, frame, mode)
                elif mode in (REMOVING, DELETING) or frame.context is not None:
                    part.dropping.append(version)
                _receive(part, version, frame, mode)
            case SummaryFrame():
                if counts:
                    self._summarize(part, version, frame)
            case ClearFrame():
                part.pieces = []

    def _hand_over(self, part: Shape, version: int, frame: TransferFrame, mode: Mode) -> None:
        """What a transfer does to the messages before `to` becomes active."""
        if frame.tool_call_id is not None and version <= self._last_removing:
            part.calls += self._call_of(part, frame.tool_call_id)
        answers = self._answers(part, version) if mode == REMOVING else {}
        if frame.message:
            part.put(_text(version, "destination_message", part.scope, part.active, version, "message"))
        if mode != DELETING and frame.context is not None and frame.context.type != "all":
            self._filter(part, version, frame.context)
        if mode == DELETING:
            part.keep([])
            part.dropping.append(version)
        elif mode == REMOVING:
            _remove_calls(part, version, answers)

    def _filter(self, part: Shape, version: int, context: Context) -> None:
        part.dropping.append(version)
        match context.type:
            case "none":
                part.keep([])
            case "lastNMessages":
                part.keep(self._last(part, min(context.max_messages or 0, OPEN)))
            case "userAndAssistantMessages":
                part.keep(_texts(part, version))
            case "previousAssistantMessages":
                part.choosing.append(version)
                part.keep(_before_active(part))

    def _last(self, part: Shape, count: int) -> list[Piece]:
        if not count:
            return []
        last = next(islice(self._backwards_in(part, min(count + _FEW, MANY)), count - 1, None), None)
        if last is None:
            return list(part.pieces)
        kept: list[Piece] = []
        for piece in part.pieces[part.between(last.place[0], OPEN)]:
            if isinstance(piece, Run):
                kept += piece.within(last.place[0], piece.last)
            elif piece.place >= last.place:
                kept.append(piece)
        return kept

    def _call_of(self, part: Shape, call_id: str) -> list[Call]:
        for item in self._backwards_in(part, _FEW):
            for index, call in reversed(item.visible_calls):
                if call.id == call_id:
                    return [(item.version, index)]
        return []

    def _answers(self, part: Shape, version: int) -> dict[Call, Item | None]:
        """The results of the calls of transfers that are still visible, by the view before this transfer."""
        found: dict[Call, Item | None] = {}
        for key in dict.fromkeys(part.calls):
            item = part.lift(key[0], self._rows)
            if item is not None and key[1] not in item.removed:
                found[key] = self._answer(part, (item, key[1]), version)
        return found

    def _answer(self, part: Shape, call: CallKey, version: int) -> Item | None:
        item, index = call
        call_id = item.calls[index].id
        waiting: list[CallKey] = []
        for each in self.forwards(item.place, version - 1, _FEW):
            if each.role == "tool" and each.calls:
                raise Unsure
            if each.hidden is None and each.role == "tool" and each.tool_call_id == call_id:
                key = nearest(waiting, each)
                if key is None:
                    continue
                waiting.remove(key)
                if key == call:
                    if any(item.version < transfer < each.version for transfer in part.choosing):
                        raise Unsure
                    return each
            for place, other in enumerate(each.calls):
                removal = each.removed.get(place)
                if other.id == call_id and (removal is None or removal.unanswered) and (each != item or place >= index):
                    waiting.append((each, place))
        return None

    def _summarize(self, part: Shape, version: int, frame: SummaryFrame) -> None:
        first, last = frame.first or version, frame.last or version
        place = (version, 0)
        if frame.first is not None:
            region = part.between(first, last)
            pieces = part.pieces[region]
            covered = {piece for piece in pieces if isinstance(piece, Item) and covers(first, last, piece)}
            places = [item.place for item in covered]
            runs = [run for piece in pieces if isinstance(piece, Run) for run in piece.within(first, last)]
            places += [item.place for item in islice(self._rows.items({part.scope: runs}, page=1), 1)]
            if not places:
                return
            place = min(places)
            part.pieces[region] = [
                left
                for piece in pieces
                if piece not in covered
                for left in (piece.without(first, last) if isinstance(piece, Run) else [piece])
            ]
        summary = _text(version, "summary", part.scope, None if part.scope == SHARED else part.active, version, "text")
        summary.role = frame.role
        summary.place = place
        summary.parts = ("text",) if frame.text else ()
        summary.covers = (first, last)
        summary.summary_of = frame.summary_of
        part.put(summary)

    def forwards(
        self, start: Place = _FIRST, last: int = OPEN, page: int = MANY, bodies: bool = True
    ) -> Iterator[Item]:
        """The items of the view in order from a place on, and those that are gone with open calls at theirs.

        Of runs, only up to version `last`; `page` and `bodies` as in `Rows.items`.
        """
        items: list[Item] = []
        runs: dict[str, list[Run]] = {}
        for part in self.parts.values():
            pieces = part.pieces[part.between(start[0], last)]
            items += [each for each in (*part.prompts, *part.gone, *_items(pieces)) if each.place >= start]
            runs[part.scope] = [
                run for piece in pieces if isinstance(piece, Run) for run in piece.within(start[0], last)
            ]
        return _in_order(items, self._rows.items(runs, page=page, bodies=bodies))

    def backwards(self, page: int) -> Iterator[Item]:
        """The same from the end; `page` rows are read at first."""
        items = [each for part in self.parts.values() for each in (*part.prompts, *part.gone, *_items(part.pieces))]
        runs = {name: [piece for piece in part.pieces if isinstance(piece, Run)] for name, part in self.parts.items()}
        return _in_order(items, self._rows.items(runs, True, page), backwards=True)

    def _backwards_in(self, part: Shape, page: int) -> Iterator[Item]:
        """The messages of one part from the end."""
        for end in range(len(part.pieces), 0, -_FEW):
            pieces = part.pieces[max(0, end - _FEW) : end]
            runs = [piece for piece in pieces if isinstance(piece, Run)]
            yield from _in_order(_items(pieces), self._rows.items({part.scope: runs}, True, page), backwards=True)


def _items(pieces: Iterable[Piece]) -> list[Item]:
    return [piece for piece in pieces if isinstance(piece, Item)]


def _in_order(items: list[Item], read: Iterator[Item], backwards: bool = False) -> Iterator[Item]:
    """Items and those that are read, by place; a few of the former among many of the latter."""
    # The next one is at the end.
    waiting = sorted(items, key=place_of, reverse=not backwards)
    for item in read:
        while waiting and (waiting[-1].place > item.place if backwards else waiting[-1].place < item.place):
            yield waiting.pop()
        yield item
    yield from reversed(waiting)


def _declare(part: Shape, version: int, frame: AssistantFrame) -> None:
    known = part.learn(frame.assistant, version, frame)
    name = frame.assistant
    if part.active is None:
        part.active, part.active_since = name, version
        if known.system is not None and known.system.text:
            part.prompts.append(_prompt(version, part.scope, name, version, (0, -version)))
        if known.first_message is not None and known.first_message.text and version >= part.reset:
            part.put(_text(version, "first_message", part.scope, name, version, "first_message"))
    elif part.active == name and frame.system is not None:
        mine = [item for item in part.prompts if item.assistant == name]
        newest = max(mine, key=lambda item: item.version, default=None)
        part.prompts = [item for item in part.prompts if item is not newest]
        if frame.system:
            place = (0, -version) if newest is None else newest.place
            part.prompts.append(_prompt(version, part.scope, name, version, place))


def _receive(part: Shape, version: int, frame: TransferFrame, mode: Mode) -> None:
    """Make the transfer's destination the active assistant, with its prompt and first message."""
    part.active, part.active_since = frame.to, version
    if mode != ROLLING:
        part.prompts = []
    known = part.learn(frame.to, version, frame)
    if known.system is not None and known.system.text:
        place = (version, 1) if mode == ROLLING else (0, -version)
        part.prompts.append(_prompt(version, part.scope, frame.to, known.system.version, place))
    speaks = frame.first_message_mode in (None, "assistant-speaks-first")
    if speaks and known.first_message is not None and known.first_message.text and version >= part.reset:
        source = known.first_message.version
        part.put(_text(version, "first_message", part.scope, frame.to, source, "first_message"))


def _remove_calls(part: Shape, version: int, answers: dict[Call, Item | None]) -> None:
    gone = []
    for (message, index), result in answers.items():
        # Lifted out of its run; the context may have hidden it, or its call, since.
        item = part.item(message)
        if item is None or index in item.removed:
            continue
        item.removed[index] = Hiding(f"transfer:{REMOVING}", version, transfer=True, unanswered=result is None)
        if result is not None and result.scope == part.scope:
            gone.append(result.version)
        if not item.parts and not item.visible_calls:
            gone.append(item.version)
    for each in gone:
        part.drop(each)
    # What is gone now never comes back on this path.
    part.calls = []


def _prompt(version: int, scope: str, assistant: str, source: int, place: Place) -> Item:
    return Item(version, "prompt", place, scope, "system", assistant, source, "system")


def _text(version: int, origin: Origin, scope: str, assistant: str | None, source: int, body_field: str) -> Item:
    place = (version, 2 if origin == "first_message" else 0)
    return Item(version, origin, place, scope, "assistant", assistant, source, body_field)


def _texts(part: Shape, version: int) -> list[Piece]:
    """The messages as `userAndAssistantMessages` leaves them."""
    kept: list[Piece] = []
    hiding = Hiding("context:userAndAssistantMessages", version, transfer=True)
    for piece in part.pieces:
        if isinstance(piece, Run):
            kept.append(piece if piece.texts_by is not None else msgspec.structs.replace(piece, texts_by=version))
        elif has_said_something(piece):
            piece.text_only = True
            piece.removed = {index: piece.removed.get(index, hiding) for index in range(len(piece.calls))}
            kept.append(piece)
    return kept


def _before_active(part: Shape) -> list[Piece]:
    """What is left of what was visible when the active assistant became active: all that was placed before."""
    kept: list[Piece] = []
    for piece in part.pieces:
        if isinstance(piece, Run):
            kept += piece.within(piece.first, part.active_since)
        elif piece.version < part.active_since + (piece.origin == "destination_message"):
            kept.append(piece)
    return kept
