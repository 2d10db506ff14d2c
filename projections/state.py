"""What the events of a path have come to: the view, the assistants, and what a later transfer has to know."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec

from turnlog.store.events import AssistantFrame, Role, TransferFrame

from .pairing import CallKey
from .view import Item, Origin, View

SHARED = "shared_memory"


class Said(msgspec.Struct, frozen=True, gc=False):
    """The event that said something of an assistant, and whether it was any text."""

    version: int
    text: bool


class Known(msgspec.Struct, gc=False):
    """What is known of an assistant, field by field: the latest that was said of it."""

    system: Said | None = None
    first_message: Said | None = None
    tools: tuple[int, tuple[str, ...]] | None = None
    model: int | None = None


@dataclass
class Assistants:
    """What is known of the assistants of a scope, and which of them is active since which event."""

    known: dict[str, Known] = field(default_factory=dict)
    active: str | None = None
    active_since: int = 0

    def learn(self, assistant: str, version: int, frame: AssistantFrame | TransferFrame) -> Known:
        """Take in what an event says of an assistant (rule 3)."""
        known = self.known.setdefault(assistant, Known())
        if frame.system is not None:
            known.system = Said(version, frame.system)
        if frame.first_message is not None:
            known.first_message = Said(version, frame.first_message)
        if frame.tools is not None:
            known.tools = (version, frame.tools)
        if isinstance(frame, AssistantFrame) and frame.model is not None:
            known.model = version
        return known

    def latest(self, said: Callable[[Known], int | None]) -> int | None:
        """The event that said something last of the active assistant or, if none did, of any."""
        active = self.known.get(self.active or "")
        own = None if active is None else said(active)
        return own or max((version for each in self.known.values() if (version := said(each))), default=None)


@dataclass
class State(Assistants):
    """What the events of a path have come to: the view, the assistants, and what rule 4 remembers."""

    view: View = field(default_factory=View)
    visible_before_active: frozenset[Item] = frozenset()
    transfer_calls: list[CallKey] = field(default_factory=list)
    self_transfers: list[int] = field(default_factory=list)
    unknown_froms: list[int] = field(default_factory=list)

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

    def activate(self, assistant: str, version: int, scope: str) -> None:
        """Make an assistant the active one, before its prompt and first message are placed."""
        self.active = assistant
        self.active_since = version
        self.visible_before_active = frozenset(self.view.of(scope, lambda item: not item.is_prompt))
