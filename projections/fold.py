"""The fold of DESIGN section 4: rules 1 to 6 over the frames of a scope's events and of shared memory's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from heapq import merge

from turnlog.store import Event
from turnlog.store.frames import (
    AssistantFrame,
    ClearFrame,
    Frame,
    MessageFrame,
    Mode,
    ResponseFrame,
    RewindFrame,
    Role,
    SummaryFrame,
    TransferFrame,
)

from .pairing import CallKey
from .path import Path
from .transfer import ROLLING, transfer
from .view import Hiding, Item, Origin, View

SHARED = "shared_memory"
RULES = 1  # Raised when a change gives any log another view (DESIGN section 4).


@dataclass(frozen=True)
class Modes:
    """The what-if of rule 9: a mode for every transfer, and one for single transfers, by version."""

    mode: Mode | None = None
    modes: Mapping[int, Mode] = field(default_factory=dict)

    def of(self, version: int, frame: TransferFrame) -> Mode:
        """The mode under which a transfer is projected."""
        return self.modes.get(version) or self.mode or frame.mode or ROLLING


@dataclass(frozen=True)
class Said:
    """The event that said something of an assistant, and whether it was any text."""

    version: int
    text: bool


@dataclass
class Known:
    """What is known of an assistant, field by field: the latest that was said of it."""

    system: Said | None = None
    first_message: Said | None = None
    tools: int | None = None
    model: int | None = None


@dataclass
class State:
    """What the events of a path have come to: the view, the assistants, and what rule 4 remembers."""

    view: View = field(default_factory=View)
    known: dict[str, Known] = field(default_factory=dict)
    active: str | None = None
    visible_before_active: frozenset[Item] = frozenset()
    transfer_calls: list[CallKey] = field(default_factory=list)

    def place(
        self,
        version: int,
        origin: Origin,
        scope: str,
        role: Role,
        assistant: str | None,
        source: int,
        body_field: str,
        head: bool = False,
    ) -> None:
        """Add a text at the end, where its event stands, or at the head before everything."""
        part = {"destination_message": 0, "prompt": 1, "first_message": 2}.get(origin, 0)
        place = (0, -version) if head else (version, part)
        self.view.add(Item(version, origin, place, scope, role, assistant, source, body_field))

    def learn(self, assistant: str, version: int, frame: AssistantFrame | TransferFrame) -> Known:
        """Take in what an event says of an assistant (rule 3)."""
        known = self.known.setdefault(assistant, Known())
        if frame.system is not None:
            known.system = Said(version, frame.system)
        if frame.first_message is not None:
            known.first_message = Said(version, frame.first_message)
        if frame.tools is not None:
            known.tools = version
        if isinstance(frame, AssistantFrame) and frame.model is not None:
            known.model = version
        return known

    def activate(self, assistant: str, scope: str) -> None:
        """Make an assistant the active one, before its prompt and first message are placed."""
        self.active = assistant
        self.visible_before_active = frozenset(self.view.of(scope, lambda item: not item.is_prompt))

    def step(self, event: Event, frame: Frame, modes: Modes) -> None:
        """Apply one event of the path."""
        version, scope = event.version, event.scope or "chat"
        match frame:
            case MessageFrame():
                self._say(version, "message", scope, frame.role, frame)
            case AssistantFrame():
                self._declare(version, scope, frame)
            case TransferFrame():
                transfer(self, version, scope, frame, modes.of(version, frame))
            case SummaryFrame():
                self._summarize(version, scope, frame)
            case ClearFrame():
                self.view.hide(self.view.of(scope, lambda item: not item.is_prompt), Hiding("clear", version))
            case ResponseFrame(status="completed"):
                self._say(version, "response", scope, "assistant", frame)

    def _say(self, version: int, origin: Origin, scope: str, role: Role, frame: MessageFrame | ResponseFrame) -> None:
        speaker = frame.assistant if isinstance(frame, MessageFrame) else None
        self.view.add(
            Item(
                version,
                origin,
                (version, 0),
                scope,
                role,
                speaker or (None if scope == SHARED else self.active),
                version,
                "content" if origin == "message" else "response",
                frame.parts,
                frame.tool_calls,
                frame.tool_call_id if isinstance(frame, MessageFrame) else None,
            )
        )

    def _declare(self, version: int, scope: str, frame: AssistantFrame) -> None:
        """Rule 3."""
        known = self.learn(frame.assistant, version, frame)
        name = frame.assistant
        if self.active is None:
            self.activate(name, scope)
            if known.system is not None and known.system.text:
                self.place(version, "prompt", scope, "system", name, version, "system", head=True)
            if known.first_message is not None and known.first_message.text:
                self.place(version, "first_message", scope, "assistant", name, version, "first_message")
        elif self.active == name and frame.system is not None:
            mine = self.view.of(scope, lambda item: item.is_prompt and item.assistant == name)
            newest = max(mine, key=lambda item: item.version, default=None)
            if newest is not None:
                self.view.hide([newest], Hiding("assistant", version))
            if frame.system:
                place = (0, -version) if newest is None else newest.place
                self.view.add(Item(version, "prompt", place, scope, "system", name, version, "system"))

    def _summarize(self, version: int, scope: str, frame: SummaryFrame) -> None:
        """Rule 5."""
        first, last = frame.first or version, frame.last or version
        covered = self.view.of(scope, lambda item: _covers(first, last, item)) if frame.first is not None else []
        item = Item(
            version,
            "summary",
            covered[0].place if covered else (version, 0),
            scope,
            frame.role,
            None if scope == SHARED else self.active,
            version,
            "text",
            ("text",) if frame.text else (),
            covers=(first, last),
            summary_of=frame.summary_of,
        )
        self.view.hide(covered, Hiding("summary", version))
        self.view.add(item)
        if frame.first is not None and not covered:
            self.view.hide([item], Hiding("summary-covers-nothing-visible", version))


def _covers(first: int, last: int, item: Item) -> bool:
    if item.is_prompt or item.is_note:
        return False
    low, high = item.covers or (item.version, item.version)
    return first <= low and high <= last


class Fold:
    """A scope's view, event by event: feed it the conversation's events in order.

    It can be asked after every event; a rewind folds the path it leaves anew.
    """

    def __init__(self, scope: str, modes: Modes) -> None:
        self.scope = scope
        self.modes = modes
        self.state = State()
        self.abandoned: dict[tuple[int, Origin], tuple[Item, Hiding]] = {}
        self.unknown: list[int] = []
        self._paths = {name: Path() for name in (scope, SHARED)}

    def apply(self, event: Event) -> None:
        """Go on with the next event of the conversation."""
        frame = event.frame
        if event.scope is not None and event.scope not in self._paths:
            return
        if frame is None:
            if not event.type.startswith("x:"):
                self.unknown.append(event.version)
        elif isinstance(frame, RewindFrame):
            self._rewind(event.version, event.scope, frame.to)
        elif event.scope is not None:
            self._paths[event.scope].add(event)
            self.state.step(event, frame, self.modes)

    def on_path(self, version: int) -> bool:
        """Whether an event is still on the path, rewinds considered."""
        return any(version in path for path in self._paths.values())

    def _rewind(self, version: int, scope: str | None, to: int) -> None:
        """Rule 1, and rule 2's merging of the two paths."""
        for name, path in self._paths.items():
            if scope in (None, name):
                path.rewind(version, to)
        before, self.state = self.state, State()
        for event in merge(*(path.events() for path in self._paths.values()), key=lambda event: event.version):
            frame = event.frame
            assert frame is not None
            self.state.step(event, frame, self.modes)
        for key in self.state.view.items:
            self.abandoned.pop(key, None)
        for key, item in before.view.items.items():
            if key not in self.state.view.items:
                self.abandoned[key] = item, Hiding("rewind", version)
