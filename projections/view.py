"""What a fold works on: the items of a view, in order, and what hid those that are gone."""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Literal

import msgspec

from turnlog.store.events import Call, Role

Place = tuple[int, int]  # Orders a view: mostly an event's version, and which of the things it places.
Origin = Literal["prompt", "first_message", "message", "response", "destination_message", "summary"]


class Hiding(msgspec.Struct, frozen=True, gc=False):
    """The rule that hid an item or a call, the version of the event that did, and whether it was a transfer.

    `unanswered`: of a call, that no result had answered it by then.
    """

    rule: str
    by: int
    transfer: bool = False
    unanswered: bool = False


class Item(msgspec.Struct, eq=False, gc=False):
    """A message that is or was visible.

    `version` and `origin` say which item of its view it is: `version` is the event that placed it, `source` the event
    whose `body_field` is its content, since a transfer can place a prompt that an earlier event declared. `place`
    orders the view.
    """

    version: int
    origin: Origin
    place: Place
    scope: str
    role: Role
    assistant: str | None
    source: int
    body_field: str
    parts: tuple[str, ...] = ("text",)
    calls: tuple[Call, ...] = ()
    tool_call_id: str | None = None
    name: str | None = None
    covers: tuple[int, int] | None = None
    summary_of: int | None = None
    text_only: bool = False
    hidden: Hiding | None = None
    removed: dict[int, Hiding] = {}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Item) and (self.version, self.origin) == (other.version, other.origin)

    def __hash__(self) -> int:
        return self.version

    @property
    def is_prompt(self) -> bool:
        return self.origin == "prompt"

    @property
    def is_note(self) -> bool:
        return self.origin == "message" and self.role == "system"

    @property
    def visible_calls(self) -> list[tuple[int, Call]]:
        """The calls that are still visible, each with its place in the message."""
        return [(index, call) for index, call in enumerate(self.calls) if index not in self.removed]


@dataclass
class View:
    """The items of a view: `visible` in order, and every one there ever was on this path by (version, origin)."""

    visible: list[Item] = field(default_factory=list)
    items: dict[tuple[int, Origin], Item] = field(default_factory=dict)

    def add(self, item: Item) -> None:
        """Put an item at its place."""
        self.items[item.version, item.origin] = item
        if not self.visible or self.visible[-1].place < item.place:
            self.visible.append(item)
        else:
            insort(self.visible, item, key=lambda other: other.place)

    def hide(self, items: Iterable[Item], hiding: Hiding) -> None:
        """Take items out of the view."""
        for item in items:
            item.hidden = hiding
        self.visible = [item for item in self.visible if item.hidden is None]

    def of(self, scope: str, wanted: Callable[[Item], bool] = lambda _: True) -> list[Item]:
        """The visible items of one scope."""
        return [item for item in self.visible if item.scope == scope and wanted(item)]
