"""The rules of section 4 on ranges: what each event that shapes a view does to its runs and items."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from heapq import merge

from turnlog.store import Event
from turnlog.store.frames import (
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
from .ranges import PLAIN, Piece, Rows, Run, Shape
from .state import SHARED
from .summary import covers
from .transfer import DELETING, REMOVING, ROLLING, has_said_something
from .view import Hiding, Item, Origin


class Unsure(Exception):
    """A case that ranges cannot tell: the plain fold has to."""


class Shaped:
    """A view of a scope as ranges: its own part, and shared memory's."""

    def __init__(self, scope: str, modes: Modes, events: list[Event], rows: Rows) -> None:
        self.own = Shape(scope=scope)
        self.parts = {scope: self.own}
        self.parts.setdefault(SHARED, Shape(scope=SHARED))
        self._scope = scope
        self._modes = modes
        self._rows = rows
        known = [(event, frame) for event in events if (frame := event.frame) is not None]
        # Only a removing transfer asks for the calls of those before it.
        self._last_removing = max(
            (
                event.version
                for event, frame in known
                if isinstance(frame, TransferFrame) and modes.of(event.version, frame) == REMOVING
            ),
            default=0,
        )
        # A rewind of one part alone makes the other meet a past that it did not have when it was folded.
        self._torn = any(isinstance(frame, RewindFrame) and event.scope is not None for event, frame in known)
        for part in self.parts.values():
            part.begin(0)
        self._fold(known)

    def _fold(self, events: list[tuple[Event, Frame]]) -> None:
        # Where rewinds will come back to: each part is kept as it was there, before the next event shapes it.
        targets = sorted({frame.to for _, frame in events if isinstance(frame, RewindFrame)}, reverse=True)
        kept: dict[int, dict[str, Shape]] = {}
        for event, frame in events:
            while targets and targets[-1] < event.version:
                kept[targets.pop()] = {name: part.copy() for name, part in self.parts.items()}
            if isinstance(frame, RewindFrame):
                for name in [event.scope] if event.scope else list(self.parts):
                    part = kept[frame.to][name].copy()
                    part.end(frame.to + 1)
                    part.begin(event.version)
                    self.parts[name] = part
            elif event.scope is not None:
                part = self.parts[event.scope]
                part.end(event.version)
                self._rows.events[event.version] = event
                self._shape(part, event.version, frame)
                part.begin(event.version)
        self.own = self.parts[self._scope]

    def _shape(self, part: Shape, version: int, frame: Frame) -> None:
        match frame:
            case MessageFrame():
                part.put(said(version, part.scope, frame, part.active))
            case AssistantFrame():
                _declare(part, version, frame)
            case TransferFrame():
                self._transfer(part, version, frame, self._modes.of(version, frame))
            case SummaryFrame():
                self._summarize(part, version, frame)
            case ClearFrame():
                part.pieces = part.prompts()

    def _transfer(self, part: Shape, version: int, frame: TransferFrame, mode: Mode) -> None:
        if frame.tool_call_id is not None and version <= self._last_removing:
            part.calls += self._call_of(part, frame.tool_call_id)
        answers = self._answers(part, version) if mode == REMOVING else {}
        if frame.message:
            part.put(_text(version, "destination_message", part.scope, part.active, version, "message"))
        if mode != DELETING and frame.context is not None and frame.context.type != "all":
            self._filter(part, version, frame.context)
        if mode != ROLLING:
            part.heads = []
            part.pieces = part.messages()
        if mode == DELETING:
            part.keep([])
            part.dropping.append(version)
        elif mode == REMOVING:
            self._remove_calls(part, version, answers)

        part.active, part.active_since = frame.to, version
        part.before_active = tuple(part.messages())
        known = part.learn(frame.to, version, frame)
        if known.system is not None and known.system.text:
            _prompt(part, version, frame.to, known.system.version, head=mode != ROLLING)
        speaks = frame.first_message_mode in (None, "assistant-speaks-first")
        if speaks and known.first_message is not None and known.first_message.text:
            source = known.first_message.version
            part.put(_text(version, "first_message", part.scope, frame.to, source, "first_message"))

    def _filter(self, part: Shape, version: int, context: Context) -> None:
        part.dropping.append(version)
        match context.type:
            case "none":
                part.keep([])
            case "lastNMessages":
                part.keep(self._last(part, context.max_messages or 0))
            case "userAndAssistantMessages":
                part.keep(_texts(part, version))
            case "previousAssistantMessages":
                part.choosing.append(version)
                part.keep([kept for piece in part.messages() for kept in _common(piece, part.before_active)])

    def _last(self, part: Shape, count: int) -> list[Piece]:
        kept: list[Piece] = []
        for piece in reversed(part.messages()):
            if count == 0:
                break
            if isinstance(piece, Item):
                kept.append(piece)
                count -= 1
                continue
            version = None
            for item in self._rows.items(piece, part.scope, backwards=True):
                version = item.version
                count -= 1
                if count == 0:
                    break
            if version is not None:
                kept += piece.within(version, piece.last) if count == 0 else [piece]
        return kept

    def _call_of(self, part: Shape, call_id: str) -> list[tuple[int, int]]:
        for item in self._backwards(part):
            for index, call in reversed(item.visible_calls):
                if call.id == call_id:
                    return [(item.version, index)]
        return []

    def _answers(self, part: Shape, version: int) -> dict[tuple[int, int], Item | None]:
        """The results of the calls of transfers that are still visible, by the view before this transfer."""
        found: dict[tuple[int, int], Item | None] = {}
        for key in dict.fromkeys(part.calls):
            item = part.lift(key[0], self._rows)
            if item is not None and key[1] not in item.removed:
                found[key] = self._answer(part, (item, key[1]), version)
        return found

    def _answer(self, part: Shape, call: CallKey, version: int) -> Item | None:
        item, index = call
        call_id = item.calls[index].id
        waiting: list[CallKey] = []
        for each in self.forwards(item.place, version - 1):
            other_part = each.scope != part.scope and call_id in (each.tool_call_id, *(call.id for call in each.calls))
            if (each.role == "tool" and each.calls) or (other_part and self._torn):
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

    def _remove_calls(self, part: Shape, version: int, answers: dict[tuple[int, int], Item | None]) -> None:
        rule = f"transfer:{REMOVING}"
        here = {piece.version: piece for piece in part.pieces if isinstance(piece, Item) and piece.origin in PLAIN}
        gone = []
        for (message, index), result in answers.items():
            item = here.get(message)
            if item is None or index in item.removed:
                continue
            item.removed[index] = Hiding(rule, version, transfer=True, unanswered=result is None)
            if result is not None and result.scope == part.scope:
                gone.append(result.version)
            if not item.parts and not item.visible_calls:
                gone.append(item.version)
        for each in gone:
            part.drop(each)
        # What is gone now never comes back on this path.
        part.calls = []

    def _summarize(self, part: Shape, version: int, frame: SummaryFrame) -> None:
        first, last = frame.first or version, frame.last or version
        place = (version, 0)
        if frame.first is not None:
            covered = [piece for piece in part.messages() if isinstance(piece, Item) and covers(first, last, piece)]
            places = [item.place for item in covered]
            runs = [run for piece in part.pieces if isinstance(piece, Run) for run in piece.within(first, last)]
            for run in runs:
                item = next(self._rows.items(run, part.scope), None)
                if item is not None:
                    places.append(item.place)
                    break
            if not places:
                return
            place = min(places)
            pieces: list[Piece] = []
            for piece in part.pieces:
                if isinstance(piece, Run):
                    pieces += piece.without(first, last)
                elif piece not in covered:
                    pieces.append(piece)
            part.pieces = pieces
        summary = _text(version, "summary", part.scope, None if part.scope == SHARED else part.active, version, "text")
        summary.role = frame.role
        summary.place = place
        summary.parts = ("text",) if frame.text else ()
        summary.covers = (first, last)
        summary.summary_of = frame.summary_of
        part.put(summary)

    def forwards(self, start: tuple[int, int] = (0, -OPEN), last: int = OPEN) -> Iterator[Item]:
        """The items of the view in order from a place on, and those that are gone with open calls at theirs.

        Of runs, only up to version `last`.
        """
        sources = [self._forwards(part, start, last) for part in self.parts.values()]
        gone = [sorted(part.gone, key=lambda item: item.place) for part in self.parts.values()]
        for item in merge(*sources, *gone, key=lambda item: item.place):
            if item.place >= start:
                yield item

    def backwards(self) -> Iterator[Item]:
        """The same from the end."""
        sources = [self._backwards(part) for part in self.parts.values()]
        gone = [sorted(part.gone, key=lambda item: item.place, reverse=True) for part in self.parts.values()]
        return merge(*sources, *gone, key=lambda item: item.place, reverse=True)

    def _forwards(self, part: Shape, start: tuple[int, int], last: int) -> Iterator[Item]:
        yield from part.heads
        for piece in part.pieces:
            if isinstance(piece, Item):
                yield piece
            else:
                for run in piece.within(start[0], last):
                    yield from self._rows.items(run, part.scope)

    def _backwards(self, part: Shape) -> Iterator[Item]:
        for piece in reversed(part.pieces):
            if isinstance(piece, Item):
                yield piece
            else:
                yield from self._rows.items(piece, part.scope, backwards=True)
        yield from reversed(part.heads)


def _declare(part: Shape, version: int, frame: AssistantFrame) -> None:
    known = part.learn(frame.assistant, version, frame)
    name = frame.assistant
    if part.active is None:
        part.active, part.active_since = name, version
        part.before_active = tuple(part.messages())
        if known.system is not None and known.system.text:
            _prompt(part, version, name, version, head=True)
        if known.first_message is not None and known.first_message.text:
            part.put(_text(version, "first_message", part.scope, name, version, "first_message"))
    elif part.active == name and frame.system is not None:
        mine = [item for item in part.heads if item.assistant == name]
        mine += [item for item in part.prompts() if isinstance(item, Item) and item.assistant == name]
        newest = max(mine, key=lambda item: item.version, default=None)
        prompt = _text(version, "prompt", part.scope, name, version, "system")
        prompt.role = "system"
        prompt.place = (0, -version) if newest is None else newest.place
        part.heads = [item for item in part.heads if item is not newest]
        part.pieces = [piece for piece in part.pieces if piece is not newest]
        if frame.system and prompt.place[0] == 0:
            part.heads = sorted([*part.heads, prompt], key=lambda item: item.place)
        elif frame.system:
            part.put(prompt)


def _prompt(part: Shape, version: int, assistant: str, source: int, head: bool) -> None:
    prompt = _text(version, "prompt", part.scope, assistant, source, "system")
    prompt.role = "system"
    if head:
        prompt.place = (0, -version)
        part.heads.insert(0, prompt)
    else:
        part.put(prompt)


def _text(version: int, origin: Origin, scope: str, assistant: str | None, source: int, body_field: str) -> Item:
    part = {"prompt": 1, "first_message": 2}.get(origin, 0)
    return Item(version, origin, (version, part), scope, "assistant", assistant, source, body_field)


def _texts(part: Shape, version: int) -> list[Piece]:
    """The messages as `userAndAssistantMessages` leaves them."""
    kept: list[Piece] = []
    hiding = Hiding("context:userAndAssistantMessages", version, transfer=True)
    for piece in part.messages():
        if isinstance(piece, Run):
            kept.append(piece if piece.texts_by is not None else replace(piece, texts_by=version))
        elif has_said_something(piece):
            piece.text_only = True
            piece.removed = {index: piece.removed.get(index, hiding) for index in range(len(piece.calls))}
            kept.append(piece)
    return kept


def _common(piece: Piece, before: tuple[Piece, ...]) -> list[Piece]:
    """What of a piece was there before."""
    if isinstance(piece, Run):
        return [kept for run in before if isinstance(run, Run) for kept in piece.within(run.first, run.last)]
    for other in before:
        if isinstance(other, Item):
            if other == piece:
                return [piece]
        elif piece.origin in PLAIN and not piece.is_note and other.first <= piece.version <= other.last:
            return [piece]
    return []
