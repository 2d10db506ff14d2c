"""The messages of a history as every wire needs them: results after their calls, legal ids and names."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import msgspec

from turnlog.projections import History, VisibleCall, VisibleMessage
from turnlog.projections.cache_points import Places, parts_of
from turnlog.store.errors import shown
from turnlog.store.events import Messages

NAME_LENGTH = 64  # What both providers take as a tool's or a speaker's name; OpenAI's types say so.
NO_RESULT = "error: this call was never answered"
NOT_SHOWN = "the result of this call is no longer shown"
RUNNING = "this call is still running"
NOWHERE = sys.maxsize  # Inside no prefix of the history: it was added.

_ILLEGAL = re.compile(r"[^a-zA-Z0-9_-]")


class Adjustment(msgspec.Struct, frozen=True):
    """What a wire changed of a history, in one line, and the version of the event concerned."""

    version: int
    what: str


@dataclass(frozen=True)
class Part:
    """A content part as the history has it.

    `inside` is the first place (see `Places`) whose prefix has it; what no prefix has is `NOWHERE`.
    """

    value: dict[str, Any]
    inside: int


@dataclass(frozen=True)
class Call:
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


@dataclass(frozen=True)
class Turn:
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


class Legal:
    """Gives ids and names that a provider takes; what is legal and not yet taken stays as it is."""

    def __init__(self, id_length: int) -> None:
        self._ids = _Unique(id_length)
        self._tools = _Unique(NAME_LENGTH)
        self._given: dict[str, str] = {}

    def call(self, id: str) -> str:
        """The id of a further call: every call of a request has its own."""
        return self._ids.next(id)

    def tool(self, name: str) -> str:
        """The name of a tool: the same one for the tool and all its calls."""
        if name not in self._given:
            self._given[name] = self._tools.next(name)
        return self._given[name]


class _Unique:
    def __init__(self, length: int) -> None:
        self._length = length
        self._taken: set[str] = set()
        self._last: dict[str, int] = {}

    def next(self, name: str) -> str:
        legal = base = legal_name(name, self._length)
        while legal in self._taken:
            self._last[base] = self._last.get(base, 1) + 1
            suffix = f"_{self._last[base]}"
            legal = base[: self._length - len(suffix)] + suffix
        self._taken.add(legal)
        return legal


def legal_name(name: str, length: int = NAME_LENGTH) -> str:
    """The name with `_` for what no provider takes, cut to `length`."""
    return _ILLEGAL.sub("_", name)[:length]


def turns(history: History, legal: Legal, adjustments: list[Adjustment]) -> list[Turn]:
    """The messages in the order of a wire: each call's results right after its message, in the order they came, then
    one for each call that has none to be seen: that it is no longer shown, that the call is running, or an error."""
    return list(_Ordering(history, legal, adjustments))


class _Ordering:
    def __init__(self, history: History, legal: Legal, adjustments: list[Adjustment]) -> None:
        messages = history.messages
        self._messages = messages
        self._legal = legal
        self._adjustments = adjustments
        begins = [index for index, each in enumerate(messages) if each.role == "user" and each.origin == "message"]
        self._last_exchange = begins[-1] if begins else 0
        results = {each.version: index for index, each in enumerate(messages) if each.role == "tool"}
        calls = {
            each.version: index
            for index, each in enumerate(messages)
            if each.role == "assistant" and each.origin in ("message", "response")
        }
        # Of each call that has results, whether one is final, and which of the messages tells of it.
        self._final: set[tuple[int, int]] = set()
        self._begun: set[tuple[int, int]] = set()
        self._answers: dict[tuple[int, int], int] = {}
        for pair in history.pairs:
            if pair.call not in calls:
                continue
            key = calls[pair.call], pair.number
            (self._begun if pair.interim else self._final).add(key)
            if pair.result in results and (not pair.interim or self._is_running(*key)):
                self._answers[key] = results[pair.result]
        places = Places.of(messages)
        self._starts: list[int] = []
        count = 0
        for message in messages:
            self._starts.append(Places.SYSTEM if message.role == "system" else places.place(Messages(count)))
            count += message.role != "system"

    def __iter__(self) -> Iterator[Turn]:
        answering = set(self._answers.values())
        for index, message in enumerate(self._messages):
            if message.role != "tool":
                turn = self._turn(index, message)
                yield turn
                yield from self._results(index, turn)
            elif index not in answering:
                unfinished = "interim result of a call that was never finished dropped"
                self._adjust(message, unfinished if message.interim else "result that answers no call dropped")

    def _is_running(self, index: int, number: int) -> bool:
        """Tell whether a call of the last exchange has interim results and no other."""
        key = index, number
        return key in self._begun and key not in self._final and index >= self._last_exchange

    def _results(self, index: int, turn: Turn) -> Iterator[Turn]:
        results = {
            self._answers[index, number]: call
            for number, call in enumerate(turn.calls)
            if (index, number) in self._answers
        }
        before = index
        for result, call in sorted(results.items(), key=lambda answer: answer[0]):
            if result != before + 1:
                self._adjust(self._messages[result], "result moved to right after its call")
            before = result
            yield self._turn(result, self._messages[result], call.id)
        for number, call in enumerate(turn.calls):
            if (index, number) not in self._answers:
                yield self._missing(index, number, turn, call)

    def _missing(self, index: int, number: int, turn: Turn, call: Call) -> Turn:
        """Return the turn that stands for the result of a call that has none to be seen."""
        text, why, inside = NO_RESULT, f"error result added for call {call.id}, never answered", NOWHERE
        if call.answered:
            # This stays as it is, so that a prefix may go on beyond it.
            text, why, inside = NOT_SHOWN, f"result added for call {call.id}, whose own is no longer shown", call.inside
        elif self._is_running(index, number):
            text, why = RUNNING, f"result added for call {call.id}, still running"
        self._adjust(self._messages[index], why)
        part = Part({"type": "text", "text": text}, inside)
        return Turn("tool", turn.version, turn.origin, (part,), inside, answers=call.id, failed=text == NO_RESULT)

    def _turn(self, index: int, message: VisibleMessage, answers: str | None = None) -> Turn:
        start = self._starts[index]
        parts = parts_of(message)
        step = 0 if message.role == "system" else 1
        end = start + step * (len(parts) + len(message.tool_calls))
        if message.role != "assistant" and message.tool_calls:
            self._adjust(message, f"calls of a {message.role} message dropped")
        calls = enumerate(message.tool_calls) if message.role == "assistant" else ()
        return Turn(
            role=message.role,
            version=message.version,
            origin=message.origin,
            parts=tuple(Part(part, start + step * number) for number, part in enumerate(parts, 1)),
            end=end,
            calls=tuple(self._call(index, number, call, start + len(parts) + number + 1) for number, call in calls),
            name=message.name,
            answers=answers,
            failed=isinstance(message.extra, dict) and message.extra.get("is_error") is True,
        )

    def _call(self, index: int, number: int, call: VisibleCall, inside: int) -> Call:
        message = self._messages[index]
        id, name = self._legal.call(call.id), self._legal.tool(call.name)
        if id != call.id:
            self._adjust(message, f"call {shown(call.id)} named {id}")
        if name != call.name:
            self._adjust(message, f"tool {shown(call.name)} named {name}")
        arguments, text = call_arguments(call.arguments)
        if text != call.arguments:
            self._adjust(message, f"arguments of call {id} made a JSON object: {shown(call.arguments)}")
        return Call(id, name, arguments, text, call.id, inside, (index, number) in self._final)

    def _adjust(self, message: VisibleMessage, what: str) -> None:
        self._adjustments.append(Adjustment(message.version, what))


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
