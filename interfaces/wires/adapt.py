"""Adapt: from a history to a provider's request, its cache points moved with it (DESIGN section 6)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import msgspec

from turnlog.projections import History
from turnlog.projections.cache_points import Places, within_budget
from turnlog.store import CachePoint, InvalidArgument
from turnlog.store.arguments import instance_of
from turnlog.store.errors import shown

from .groups import Adjustment, Group, groups
from .names import Legal, Naming
from .parts import REASONING, told, tool_of
from .turns import Part, Turn, turns
from .wire import Block, Draft, Message, Wire

# Said in the user's place where a provider wants the user to begin, or wants a message at all.
OPENING = "(the conversation begins)"
NO_CONTENT = "(no content)"


@dataclass(frozen=True)
class Adapted:
    """A request, and what became of the history in it.

    `request` has the arguments for the provider's client beside the model and its parameters. `cache_points` name
    places of the request, counted as in a history. `changes` are in the order they were made.
    """

    request: dict[str, Any]
    cache_points: list[CachePoint]
    changes: list[Adjustment]

    def to_dict(self) -> dict[str, Any]:
        """As JSON: `{"request", "cache_points", "changes": [{"version", "what"}]}`."""
        return {
            "request": self.request,
            "cache_points": [point.form for point in self.cache_points],
            "changes": msgspec.to_builtins(self.changes),
        }


def adapt(history: History, wire: Wire, cache_points: Iterable[CachePoint] = ()) -> Adapted:
    """The request that a history makes on a wire; the points name the history as it is written.

    Blank messages are dropped, results put right after their call, a result is added for a call that has none to be
    seen (an error if it was never answered), adjacent messages joined and system messages hoisted as the wire says. A
    moved point ends the longest prefix of the request made only of what was before it; points that meet become one, and
    over the wire's budget tools and system are kept, then the newest.

    :raises InvalidArgument: a point is out of range, or an argument is not what it has to be; nothing else is refused.
    """
    instance_of("history", history, History, "a history")
    if not isinstance(cache_points, Iterable):
        raise InvalidArgument("cache_points", cache_points, "is not a list of cache points")
    places = Places.of(history.messages)
    wanted = [places.place(point) for point in cache_points]
    draft, changes = drafted(history, wire)
    own = draft.places
    points = [own.point(place) for place in sorted({draft.moved(place) for place in wanted})]
    if wire.budget is not None:
        points = within_budget(points, wire.budget)
    if not draft.messages:
        draft.messages.append(_opening(history.version, Places.SYSTEM, "message"))
        changes.append(Adjustment(history.version, "user message added: nothing else is said"))
    return Adapted(wire.request(draft, [own.place(point) for point in points]), points, changes)


def drafted(history: History, wire: Wire) -> tuple[Draft, list[Adjustment]]:
    """The request before it is written, and what was changed for it; without messages if nothing is said."""
    instance_of("wire", wire, Wire, "a wire")
    instance_of("history", history, History, "a history")
    changes: list[Adjustment] = []
    legal = Legal(wire.id_length)
    draft = Draft(tools_on(history.tools, wire, legal.tool, lambda what: _note_tools(history, what, changes)), [], [])
    for turn in [turn for group in groups(history, changes) for turn in turns(group, legal, changes)]:
        message = _written(turn, wire, changes)
        if message is None:
            continue
        if message.role == "system" and wire.hoists:
            draft.system += message.blocks
            if draft.messages:
                changes.append(Adjustment(turn.version, "system message hoisted before all others"))
        else:
            _add(draft.messages, message, turn, wire, changes)
    if draft.messages and draft.messages[0].role not in wire.opens:
        first = draft.messages[0].blocks[0]
        draft.messages.insert(0, opening(first))
        changes.append(Adjustment(first.version, "user message added before the first: the user has to begin"))
    return draft, changes


def messages_of(group: Group, wire: Wire, naming: Naming) -> list[Message]:
    """Return the messages that a group makes on a wire, joined among themselves."""
    messages: list[Message] = []
    changes: list[Adjustment] = []
    for turn in turns(group, naming, changes):
        message = _written(turn, wire, changes)
        if message is not None:
            _add(messages, message, turn, wire, changes)
    return messages


def _written(turn: Turn, wire: Wire, changes: list[Adjustment]) -> Message | None:
    """Return a turn as a wire has it, or None if nothing is left of it."""
    message = wire.message(turn, _blocks(turn, wire, changes), changes)
    if not message.blocks:
        changes.append(Adjustment(turn.version, f"blank {turn.role} message dropped"))
        return None
    return message


def _add(messages: list[Message], message: Message, turn: Turn, wire: Wire, changes: list[Adjustment]) -> None:
    if not messages or not messages[-1].is_joined_by(message, wire):
        messages.append(message)
        return
    messages[-1].blocks += message.blocks
    if turn.role != "tool":
        changes.append(Adjustment(turn.version, f"joined to the {message.role} message before it"))


def opening(first: Block) -> Message:
    """Return what the user says before the first item of a request, where the user has to begin."""
    return _opening(first.version, first.inside, first.origin)


def _opening(version: int, inside: int, origin: str) -> Message:
    return Message("user", [Block({"type": "text", "text": OPENING}, inside, version, origin)])


def _blocks(turn: Turn, wire: Wire, changes: list[Adjustment]) -> list[Block]:
    """The items of a turn: what can be shown in its place, the rest told in words."""
    values = [(part, _shown(turn, part, wire, changes)) for part in turn.parts]
    blocks = [Block(value, part.inside, turn.version, turn.origin) for part, value in values if value is not None]
    if turn.role == "tool" and not blocks:
        changes.append(Adjustment(turn.version, f"empty result written as {NO_CONTENT}"))
        blocks.append(Block({"type": "text", "text": NO_CONTENT}, turn.end, turn.version, turn.origin))
    return blocks + [
        Block(wire.call(call), call.inside, turn.version, turn.origin, call.source, not call.answered)
        for call in turn.calls
    ]


def _shown(turn: Turn, part: Part, wire: Wire, changes: list[Adjustment]) -> dict[str, Any] | None:
    value, kind = part.value, part.value.get("type")
    if kind == "text":
        if value["text"].strip():
            return {"type": "text", "text": value["text"]}
        if len(turn.parts) > 1:
            changes.append(Adjustment(turn.version, "blank text dropped"))
        return None
    block = wire.part(turn.role, value)
    if block is not None:
        return block
    if kind in REASONING:
        # Told as text it would look like something said, and models imitate what they see.
        changes.append(Adjustment(turn.version, f"{shown(kind)} dropped"))
        return None
    changes.append(Adjustment(turn.version, f"{shown(kind)} told as text"))
    return {"type": "text", "text": told(value)}


def tools_on(
    given: Iterable[dict[str, Any]], wire: Wire, named: Callable[[str], str], note: Callable[[str], None]
) -> list[dict[str, Any]]:
    """Return tools as a wire has them, once each.

    `named` returns the legal name of a tool, and `note` is given each change in one line.
    """
    tools: list[dict[str, Any]] = []
    names: set[str] = set()
    for each in given:
        tool = tool_of(each)
        if tool is None or tool.name in names:
            why = "is no function" if tool is None else "is there already"
            note(f"tool {shown(each)} dropped: it {why}")
            continue
        names.add(tool.name)
        name = named(tool.name)
        if name != tool.name:
            note(f"tool {shown(tool.name)} named {name}")
        if tool.refused:
            note(f"parameters of tool {name} dropped: they are no object's")
        tools.append(wire.tool(tool, name))
    return tools


def _note_tools(history: History, what: str, changes: list[Adjustment]) -> None:
    changes.append(Adjustment(history.tools_since or history.version, what))
