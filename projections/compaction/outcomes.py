"""What a call was given and what came of it, from JSON or text: its key arguments, errors, states and new ids."""

from __future__ import annotations

import re
from collections.abc import Container, Iterator
from typing import Any

import msgspec

from .facts import READ, begins_telling, clean, cut, legible

# One argument, all of them, and what came of the call, in characters: a call is told in about three lines.
LONGEST_ARGUMENT = 60
LONGEST_ARGUMENTS = 140
LONGEST_OUTCOME = 140

_OUTCOME_KEYS = re.compile(
    r"errors?|message|details?|reason|status|state|result|outcome|success|ok|code|exit_?code|returncode|stderr|total|"
    r"summary",
    re.IGNORECASE,
)
_KEY_OF_ID = re.compile(
    r"(?:.*_)?(?:id|uuid|number|no|ref|reference|key|sha|url|amount|price|cost)|.*[a-z](?:Id|ID|Number|Url)", re.ASCII
)
# A line of a log, a traceback or a test run that says how it went, as against source code that mentions errors.
_REPORT = re.compile(
    r"(?:[\w.:/\\-]{1,80}[:\s]\s*)?(?:\w{0,60}(?:Error|Exception)\b|error\b|fatal\b|failed\b|panic\b|ERR!)"
    r"|=*\s*\d+ (?:failed|passed|errors?|tests?)\b",
    re.IGNORECASE,
)


def decoded(text: str) -> Any:
    """The value of a text that is a JSON object or list; any other text as it is."""
    if text.lstrip()[:1] not in ("{", "["):
        return text
    try:
        return msgspec.json.decode(text)
    except (msgspec.MsgspecError, RecursionError):
        return text


def leaves(value: Any, key: str = "") -> Iterator[tuple[str, str]]:
    """The values in a JSON value in order, as texts on one line, each with the key nearest above it."""
    pending = [(key, value)]
    while pending:
        key, value = pending.pop()
        if isinstance(value, dict):
            pending += [(str(name), each) for name, each in reversed(value.items())]
        elif isinstance(value, list):
            pending += [(key, each) for each in reversed(value)]
        elif isinstance(value, str):
            yield key, clean(value[:READ])
        elif value is not None:
            yield key, str(value).lower() if isinstance(value, bool) else str(value)


def is_key_of_id(key: str) -> bool:
    """Whether a JSON key says that its value identifies something."""
    return _KEY_OF_ID.fullmatch(key) is not None


def arguments(value: Any) -> str:
    """A call's arguments as `key=value, …`: long ones cut, nested ones as the values in them."""
    if not isinstance(value, dict):
        return cut(" ".join(leaf for _, leaf in leaves(value)), LONGEST_ARGUMENT)
    told = []
    for key, each in value.items():
        shown = " ".join(dict.fromkeys(leaf for _, leaf in leaves(each) if leaf))
        if shown:
            told.append(f"{clean(str(key))}={cut(shown, LONGEST_ARGUMENT)}")
    return cut(", ".join(told), LONGEST_ARGUMENTS)


def outcome(value: Any, known: Container[str]) -> str:
    """What a tool's result, decoded, says: the error, the state and new ids, or how much was found.

    `known` values need no repeating.
    """
    if isinstance(value, list):
        return f"{len(value)} found"
    return _of_object(value, known) if isinstance(value, dict) else _of_text(value)


def _of_object(value: dict[str, Any], known: Container[str]) -> str:
    told = []
    for key, each in value.items():
        is_outcome = _OUTCOME_KEYS.fullmatch(key) is not None
        if each in (None, "") or (isinstance(each, dict | list) and not is_outcome):
            continue
        shown = cut(" ".join(leaf for _, leaf in leaves(each) if leaf), LONGEST_OUTCOME)
        if shown and (is_outcome or (is_key_of_id(key) and shown not in known)):
            told.append(f"{clean(key)}={shown}")
    return cut(", ".join(told), LONGEST_OUTCOME)


def _of_text(text: str) -> str:
    lines = [line for line in map(clean, legible(text).splitlines()) if line]
    if sum(map(len, lines)) <= LONGEST_OUTCOME:
        return " ".join(lines)
    told = [line for line in lines if _REPORT.match(line)]
    if begins_telling(lines[-1]):
        told.append(lines[-1])
    ends = dict.fromkeys(line.strip("=-*# ") for line in (*told[:1], *told[-1:]))
    return cut(" … ".join(filter(None, ends)), LONGEST_OUTCOME)
