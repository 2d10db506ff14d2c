"""The digest: a summary made without a model, of what identifies, decides, fails and comes of each exchange."""

from __future__ import annotations

import re
from collections import ChainMap, Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ..redactions import REDACTED
from ..render import VisibleCall, VisibleMessage
from .compressor import (
    CHARACTERS_A_TOKEN,
    DEFAULT_SUMMARY_TOKENS,
    LEAST_SUMMARY_TOKENS,
    Compressed,
    checked_bound,
)
from .facts import READ, SEPARATOR, answered, asked, clean, cut, legible, tells
from .identifiers import LONGEST
from .lines import (
    CALL,
    GAVE,
    SUMMARY,
    Fact,
    Line,
    Noted,
    consolidated,
    distinct,
    exchanges,
    is_single,
    note,
    noted,
    read,
)
from .media import media, media_line, read_media
from .outcomes import arguments, decoded, is_key_of_id, leaves, outcome

# How much of an exchange is told in the words of the user and of each answer, in characters.
ASKED = 320
ANSWERED = 160
# Of more calls than this the last and the failed ones are told, the others counted.
CALLS = 6
LONGEST_NAME = 64

_SPEAKER = re.compile(r"[\w.-]{1,40}")
_KEY = re.compile(r"[^\W\d][\w-]{0,39}")
_NOT_IN_NAMES = re.compile(r"[\s(]+")


class DigestCompressor:
    """Compresses without a model. Each exchange becomes a line; lines that do not fit are merged, oldest first.

    `max_tokens` bounds the text, at 4 characters a token.

    :raises InvalidArgument: `max_tokens` is below `LEAST_SUMMARY_TOKENS`.
    """

    method = "digest"

    def __init__(self, max_tokens: int = DEFAULT_SUMMARY_TOKENS) -> None:
        self.max_tokens = checked_bound("max_tokens", max_tokens, LEAST_SUMMARY_TOKENS)

    def compress(self, previous: str, messages: Sequence[VisibleMessage]) -> Compressed:
        """`previous` with a line for each exchange; over the bound, both are consolidated within it."""
        most = self.max_tokens * CHARACTERS_A_TOKEN
        before, counts = _without_media(legible(previous, max(READ, most)))
        for message in messages:
            counts += media(message.content) if isinstance(message.content, list) else Counter()
        last = media_line(counts)
        room = most - (len(last) + 1 if last else 0)
        old = read(before)
        new = [exchange.line() for exchange in _exchanges(messages)]
        text = _extended(before, old, new, room)
        if text is None:
            text = consolidated([*old, *new], room)
        return Compressed("\n".join(filter(None, (text, last))))


def _without_media(previous: str) -> tuple[str, Counter[str]]:
    """A summary without its media lines, and what they count."""
    counts: Counter[str] = Counter()
    kept = []
    for line in previous.splitlines(keepends=True):
        found = read_media(line.strip())
        counts += found
        if not found:
            kept.append(line)
    return "".join(kept).rstrip(), counts


def _extended(before: str, old: list[Line], new: list[Line], room: int) -> str | None:
    """The summary so far and the new lines, without what was told before; None if there is no room for it."""
    known: Noted = {}
    keys: set[str] = set()
    for line in old:
        note(known, line.all_noted)
        keys.update(fact.key for fact in line.facts)
    told = [before] if before else []
    room -= len(before)
    for number, line in enumerate(distinct(new, keys), exchanges(old) + 1):
        if room < 0:
            break
        fresh = {text: told_with for text, told_with in line.noted.items() if text not in known}
        note(known, line.all_noted)
        told.append(replace(line, noted=fresh).told(number))
        room -= len(told[-1]) + (1 if len(told) > 1 else 0)
    return "\n".join(told) if room >= 0 else None


def _exchanges(messages: Sequence[VisibleMessage]) -> list[_Exchange]:
    """Each user message with all that follows it up to the next one; what precedes the first is one too."""
    found: list[_Exchange] = []
    for message in messages:
        if message.origin == "prompt":
            continue
        if not found or (message.role == "user" and message.origin == "message"):
            found.append(_Exchange())
        found[-1].read(message)
    return found


@dataclass
class _Call:
    """A call of an exchange, the values it was given, and what came of it."""

    name: str
    arguments: str
    values: frozenset[str]
    gave: str = ""

    @property
    def fact(self) -> Fact:
        text = f"{self.name}({self.arguments})" + (GAVE + self.gave if self.gave else "")
        return Fact(CALL, text.replace(SEPARATOR, " "))


@dataclass
class _Exchange:
    """An exchange as it is read: what was told in order, what was noted, and the JSON keys that values stood at."""

    told: list[Fact | _Call] = field(default_factory=list)
    noted: Noted = field(default_factory=dict)
    keys: dict[str, str] = field(default_factory=dict)
    calls: dict[str, _Call] = field(default_factory=dict)

    def read(self, message: VisibleMessage) -> None:
        """Take in what a message says and the calls it makes."""
        text = legible(_text(message)) if message.role != "tool" else _text(message)
        match message.role:
            case "tool":
                self._result(message.tool_call_id or "", text)
            case "user" if message.origin == "message":
                self._said("user", text, asked(text, ASKED))
            case "assistant":
                sentences = answered(text, ANSWERED)
                # What comes with calls only announces them, unless it tells something.
                self._said(_speaker(message), text, [*filter(tells, sentences)] if message.tool_calls else sentences)
            case role:
                self._said(SUMMARY if role == "user" else "note", text, answered(text, ANSWERED))
        for call in message.tool_calls:
            if call.arguments != REDACTED:
                self._call(call)

    def line(self) -> Line:
        """The exchange as a line."""
        calls = [each for each in self.told if isinstance(each, _Call)]
        if len(calls) > CALLS:
            failed = [call for call in calls[: -CALLS // 2] if tells(call.gave)]
            kept = [*failed[-CALLS // 2 :], *calls[-CALLS // 2 :]]
        else:
            kept = calls
        facts = [
            each.fact if isinstance(each, _Call) else each
            for each in self.told
            if isinstance(each, Fact) or any(each is call for call in kept)
        ]
        others = Counter(call.name for call in calls)
        others.subtract(call.name for call in kept)
        if +others:
            facts.append(Fact(CALL, "also " + ", ".join(f"{name} {count}x" for name, count in (+others).items())))
        found: Noted = {}
        for text, kind in self.noted.items():
            found[text] = f"{self.keys[text]}=" if kind in ("code", "name") and text in self.keys else kind
        return distinct([Line(1, facts, found)])[0]

    def _said(self, speaker: str, text: str, sentences: list[str]) -> None:
        self.told += [Fact(speaker, sentence) for sentence in sentences]
        note(self.noted, noted(text, was_cut=False))

    def _call(self, call: VisibleCall) -> None:
        given = decoded(call.arguments)
        values = list(leaves(given))
        self._remember(values)
        for key, value in values:
            if is_key_of_id(key) and is_single(value):
                note(self.noted, {value: f"{key}="})
            elif len(value) <= LONGEST:
                note(self.noted, {text: kind for text, kind in noted(value, was_cut=False).items() if kind != "name"})
        name = cut(_NOT_IN_NAMES.sub("_", clean(call.name)) or "tool", LONGEST_NAME)
        found = _Call(name, arguments(given), frozenset(value for _, value in values))
        self.told.append(found)
        self.calls[call.id] = found

    def _result(self, call_id: str, text: str) -> None:
        value = decoded(text)
        call = self.calls.get(call_id)
        gave = outcome(value, ChainMap(self.noted, dict.fromkeys(call.values if call else (), "")))
        if call:
            call.gave = gave
            self._remember(leaves(value) if not isinstance(value, str) else ())
        elif gave and tells(gave):
            self.told.append(Fact("tool", gave))

    def _remember(self, values: Iterable[tuple[str, str]]) -> None:
        for key, value in values:
            if len(value) <= LONGEST and _KEY.fullmatch(key):
                self.keys.setdefault(value, key)


def _speaker(message: VisibleMessage) -> str:
    name = message.assistant or ""
    return f"assistant {name}" if name != "assistant" and _SPEAKER.fullmatch(name) else "assistant"


def _text(message: VisibleMessage) -> str:
    """The text of a message and the names of its files; what is redacted says nothing."""
    if isinstance(message.content, str):
        return "" if message.content == REDACTED else message.content
    return "\n".join(filter(None, map(_part, message.content)))


def _part(part: dict[str, Any]) -> str:
    file = part.get("file")
    for value in (part.get("text"), part.get("filename"), file.get("filename") if isinstance(file, dict) else None):
        if isinstance(value, str) and part.get("type") not in ("reasoning", "thinking"):
            return value
    return ""
