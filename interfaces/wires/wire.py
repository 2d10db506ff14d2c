"""A wire: the form of one provider's requests, and what its rules are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import msgspec

from turnlog.projections.cache_points import Places

from .groups import Adjustment
from .parts import Tool
from .turns import Call, Turn


class Block(msgspec.Struct, frozen=True):
    """One item of a wire's message, as the wire writes it.

    `inside` is the first place of the history whose prefix has all that it was made of. `version`, `origin` and
    `call` say what that was. No cache point lies past an `open` call.
    """

    value: dict[str, Any]
    inside: int
    version: int
    origin: str
    call: str | None = None
    open: bool = False

    @property
    def source(self) -> tuple[int, str, str | None]:
        """What it was made of, as the hidden list of a history names it."""
        return self.version, self.origin, self.call


class Message(msgspec.Struct):
    """A wire's message; `head` is what it has beside its role and its items."""

    role: str
    blocks: list[Block]
    head: dict[str, str] = msgspec.field(default_factory=dict)

    def is_joined_by(self, following: Message, wire: Wire) -> bool:
        """Return whether the message that follows becomes one with this on a wire."""
        return self.role == following.role and following.role in wire.joins and self.head == following.head


@dataclass
class Draft:
    """A request before it is written: every rule is kept, no cache point is marked. `system` is what was hoisted."""

    tools: list[dict[str, Any]]
    system: list[Block]
    messages: list[Message]

    @property
    def places(self) -> Places:
        """The places that the request's own cache points name."""
        return Places(len(message.blocks) for message in self.messages if message.role != "system")

    def items(self) -> Iterator[Block]:
        """The items that places count."""
        return (block for message in self.messages if message.role != "system" for block in message.blocks)

    def moved(self, place: int) -> int:
        """The end of the longest prefix of this request that is made only of what the history has before `place`."""
        if place == Places.TOOLS:
            return place
        count = 0
        for block in self.items():
            if block.inside > place:
                break
            count += 1
            if block.open:
                break
        return count


@runtime_checkable
class Wire(Protocol):
    """What differs between providers.

    `budget` is how many cache points a request can mark (None: it marks none). `hoists` says that system messages
    stand before all others. Adjacent messages of a role in `joins` become one; only a role in `opens` may come first.
    Ids of calls are at most `id_length` long.
    """

    name: str
    budget: int | None
    hoists: bool
    joins: frozenset[str]
    opens: frozenset[str]
    id_length: int

    def tool(self, tool: Tool, name: str) -> dict[str, Any]:
        """A tool, under its legal name."""
        ...

    def part(self, role: str, part: dict[str, Any]) -> dict[str, Any] | None:
        """A part that is no text, as a message of that role may have it; None if it may not."""
        ...

    def call(self, call: Call) -> dict[str, Any]:
        """A call."""
        ...

    def message(self, turn: Turn, blocks: list[Block], adjustments: list[Adjustment]) -> Message:
        """A turn, given its items; a message without any is dropped."""
        ...

    def written(self, message: Message) -> dict[str, Any]:
        """A message as the request has it."""
        ...

    def request(self, draft: Draft, places: Sequence[int]) -> dict[str, Any]:
        """The request: arguments for the provider's client, with cache points marked at these places of its own."""
        ...
