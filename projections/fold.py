"""The fold of DESIGN section 4, over the frames of a scope's events and of shared memory's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from heapq import merge

from turnlog.store import Row
from turnlog.store.events import (
    AssistantFrame,
    ClearFrame,
    Frame,
    MessageFrame,
    Mode,
    ResponseFrame,
    RewindFrame,
    SummaryFrame,
    TransferFrame,
)

from .assistant import declare
from .path import Path
from .state import SHARED, State
from .summary import summarize
from .transfer import ROLLING, transfer
from .view import Hiding, Item, Origin

RULES = 1  # Raised when a change gives any log another view (DESIGN section 4).


@dataclass(frozen=True)
class Modes:
    """The what-if of rule 9: a mode for every transfer, and one for single transfers, by version."""

    mode: Mode | None = None
    modes: Mapping[int, Mode] = field(default_factory=dict)

    def of(self, version: int, frame: TransferFrame) -> Mode:
        """The mode under which a transfer is projected."""
        return self.modes.get(version) or self.mode or frame.mode or ROLLING


def step(state: State, event: Row, frame: Frame, modes: Modes) -> None:
    """Apply one event of the path."""
    version, scope = event.version, event.scope
    assert scope is not None
    match frame:
        case MessageFrame() | ResponseFrame(status="completed"):
            state.view.add(said(version, scope, frame, state.active))
        case AssistantFrame():
            declare(state, version, scope, frame)
        case TransferFrame():
            transfer(state, version, scope, frame, modes.of(version, frame))
        case SummaryFrame():
            summarize(state, version, scope, frame)
        case ClearFrame():
            state.view.hide(state.view.of(scope, lambda item: not item.is_prompt), Hiding("clear", version))


def said(version: int, scope: str, frame: MessageFrame | ResponseFrame, active: str | None) -> Item:
    """The item of a message or response, said while `active` was the active assistant."""
    place = (version, 0)
    assistant = None if scope == SHARED else active
    if isinstance(frame, ResponseFrame):
        parts, calls = frame.parts, frame.tool_calls
        return Item(version, "response", place, scope, "assistant", assistant, version, "response", parts, calls)
    return Item(
        version,
        "message",
        place,
        scope,
        frame.role,
        frame.assistant or assistant,
        version,
        "content",
        frame.parts,
        frame.tool_calls,
        frame.tool_call_id,
        frame.name,
    )


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
        self._paths: dict[str, Path[Row]] = {name: Path() for name in (scope, SHARED)}

    def apply(self, event: Row) -> None:
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
            step(self.state, event, frame, self.modes)

    def path(self, scope: str) -> list[Row]:
        """The events on the path of this scope or of shared memory, rewinds considered."""
        return self._paths[scope].events()

    def _rewind(self, version: int, scope: str | None, to: int) -> None:
        """Rule 1, and rule 2's merging of the two paths."""
        for name, path in self._paths.items():
            if scope in (None, name):
                path.rewind(version, to)
        before, self.state = self.state, State()
        for event in merge(*(path.events() for path in self._paths.values()), key=lambda event: event.version):
            frame = event.frame
            assert frame is not None
            step(self.state, event, frame, self.modes)
        for key in self.state.view.items:
            self.abandoned.pop(key, None)
        for key, item in before.view.items.items():
            if key not in self.state.view.items:
                self.abandoned[key] = item, Hiding("rewind", version)
