"""The messages of a history as every wire needs them: results after their calls, under legal ids and names."""

from __future__ import annotations

import sys
from collections.abc import Container, Iterator
from typing import Any

import msgspec

from turnlog.projections import VisibleCall, VisibleMessage
from turnlog.projections.cache_points import parts_of
from turnlog.store.errors import shown

from .groups import Adjustment, Group
from .names import Naming

NO_RESULT = "error: this call was never answered"
NOT_SHOWN = "the result of this call is no longer shown"
RUNNING = "this call is still running"
NOWHERE = sys.maxsize  # Inside no prefix of the history: it was added.


class Part(msgspec.Struct, frozen=True):
    """A content part as the history has it.

    `inside` is the first place (see `Places`) whose prefix has it; what no prefix has is `NOWHERE`.
    """

    value: dict[str, Any]
    inside: int


class Call(msgspec.Struct, frozen=True):
    """A call under a legal id and name; `source` is its id in the history, `arguments` always a JSON object.

    It is `answered` if it has a final result, which may be hidden.
    """

    id: str
    name: str
    arguments: dict[str, Any]
    text: str
    source: str
    inside: int
    answered: bool


class Turn(msgspec.Struct, frozen=True):
    """A message before a wire has written it. `end` is the place after it; of a result, `answers` is the call's legal
    id and `failed` whether it is an error."""

    role: str
    version: int
    origin: str
    parts: tuple[Part, ...]
    end: int
    calls: tuple[Call, ...] = ()
    name: str | None = None
    answers: str | None = None
    failed: bool = False


def turns(group: Group, naming: Naming, adjustments: list[Adjustment]) -> Iterator[Turn]:
    """Return a message as a wire needs it, then the results of its calls in the order in which they came, then one for
    each call that has none to be seen: that it is no longer shown, that the call is running, or an error."""
    message = group.message
    turn = _turn(message, group.start, naming, adjustments, final=group.final)
    yield turn
    for answer in group.answers:
        if answer.number < len(turn.calls):
            if answer.moved:
                adjustments.append(Adjustment(answer.message.version, "result moved to right after its call"))
            yield _turn(answer.message, answer.start, naming, adjustments, answers=turn.calls[answer.number].id)
    shown = {answer.number for answer in group.answers}
    for number, call in enumerate(turn.calls):
        if number not in shown:
            yield _missing(turn, call, number in group.running, adjustments)


def _missing(turn: Turn, call: Call, runs: bool, adjustments: list[Adjustment]) -> Turn:
    """Return the turn that stands for the result of a call that has none to be seen."""
    text, why, inside = NO_RESULT, f"error result added for call {call.id}, never answered", NOWHERE
    if call.answered:
        # This stays as it is, so that a prefix may go on beyond it.
        text, why, inside = NOT_SHOWN, f"result added for call {call.id}, whose own is no longer shown", call.inside
    elif runs:
        text, why = RUNNING, f"result added for call {call.id}, still running"
    adjustments.append(Adjustment(turn.version, why))
    part = Part({"type": "text", "text": text}, inside)
    return Turn("tool", turn.version, turn.origin, (part,), inside, answers=call.id, failed=text == NO_RESULT)


def _turn(
    message: VisibleMessage,
    start: int,
    naming: Naming,
    adjustments: list[Adjustment],
    answers: str | None = None,
    final: Container[int] = (),
) -> Turn:
    parts = parts_of(message)
    step = 0 if message.role == "system" else 1
    if message.role != "assistant" and message.tool_calls:
        adjustments.append(Adjustment(message.version, f"calls of a {message.role} message dropped"))
    calls = enumerate(message.tool_calls) if message.role == "assistant" else ()
    return Turn(
        role=message.role,
        version=message.version,
        origin=message.origin,
        parts=tuple(Part(part, start + step * number) for number, part in enumerate(parts, 1)),
        end=start + step * (len(parts) + len(message.tool_calls)),
        calls=tuple(
            _call(message, call, start + len(parts) + number + 1, number in final, naming, adjustments)
            for number, call in calls
        ),
        name=message.name,
        answers=answers,
        failed=isinstance(message.extra, dict) and message.extra.get("is_error") is True,
    )


def _call(
    message: VisibleMessage,
    call: VisibleCall,
    inside: int,
    is_answered: bool,
    naming: Naming,
    adjustments: list[Adjustment],
) -> Call:
    id, name = naming.call(call.id), naming.tool(call.name)
    if id != call.id:
        adjustments.append(Adjustment(message.version, f"call {shown(call.id)} named {id}"))
    if name != call.name:
        adjustments.append(Adjustment(message.version, f"tool {shown(call.name)} named {name}"))
    arguments, text = call_arguments(call.arguments)
    if text != call.arguments:
        what = f"arguments of call {id} made a JSON object: {shown(call.arguments)}"
        adjustments.append(Adjustment(message.version, what))
    return Call(id, name, arguments, text, call.id, inside, is_answered)


def call_arguments(text: str) -> tuple[dict[str, Any], str]:
    """The arguments of a call as a JSON object, and its text: as it was written if it is one, `{}` if nothing was,
    else the text as the value of `arguments`."""
    if not text.strip():
        return {}, "{}"
    try:
        return msgspec.json.decode(text, type=dict[str, Any]), text
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        wrapped = {"arguments": text}
        return wrapped, msgspec.json.encode(wrapped).decode()
