"""What every format reads a file into, and how it says where a file is broken."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec
import pydantic

from turnlog.store import Event, TurnlogError
from turnlog.store.errors import shown
from turnlog.store.json_values import repeated_key


class BrokenFile(TurnlogError):
    """A file, or a part of it, is not what its format says; nothing of it was imported.

    `place` is where in the file, `field` and `value` what was found there.
    """

    def __init__(self, file: str, place: str, field: str, value: object, why: str) -> None:
        self.file = file
        self.place = place
        self.field = field
        self.value = value
        self.why = why
        where = ", ".join(part for part in (file, place, field) if part)
        super().__init__(f"{where} {why}" if value is None else f"{where}: {shown(value)} {why}")


@dataclass
class Document:
    """A conversation as a file has it: events to append, and where in the file each of them stands.

    `could_hold` tells the recorded events that the format has a place for, so that others are no difference; None if
    the document is a whole log.
    """

    name: str | None
    events: list[dict[str, Any]]
    places: list[str]
    could_hold: Callable[[Event], bool] | None


@dataclass(frozen=True)
class Value:
    """A JSON value of a file and where it stands."""

    place: str
    value: Any


def values(file: str, data: bytes) -> list[Value]:
    """The JSON values of a file: one document, or one a line.

    :raises BrokenFile: names the line and column.
    """
    try:
        text = data.decode().removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        raise BrokenFile(file, f"byte {error.start}", "", data[error.start : error.start + 8], "is not UTF-8") from None
    lines = [(number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
    if not lines:
        raise BrokenFile(file, "", "", text, "is empty")
    if len(lines) > 1 and _is_json(lines[0][1]):
        return [Value(f"line {number}", _decoded(file, line, number)) for number, line in lines]
    return [Value("", _decoded(file, text, 1))]


def validate(model: type[pydantic.BaseModel], value: object, file: str, place: str) -> None:
    """Hold a value against its model.

    :raises BrokenFile: names the first field that does not fit, and its value.
    """
    try:
        model.model_validate(value)
    except pydantic.ValidationError as error:
        # Of a value that could be one of several things, what came furthest says most.
        first = error.errors(include_url=False)[0]
        same = [each for each in error.errors(include_url=False) if each["loc"][:3] == first["loc"][:3]]
        worst = max(same, key=lambda each: len(each["loc"]))
        field = ".".join(str(step) for step in worst["loc"] if not _is_branch(step))
        if worst["type"] == "missing":
            raise BrokenFile(file, place, field, None, "is missing") from None
        raise BrokenFile(file, place, field, worst["input"], _reason(worst["msg"])) from None


def within(place: str, inner: str) -> str:
    """A place inside another."""
    return f"{place}, {inner}" if place else inner


def encoded(document: dict[str, Any]) -> str:
    """A document as one line of JSON."""
    return msgspec.json.encode(document).decode()


def _reason(message: str) -> str:
    return "is refused: " + message.removeprefix("Value error, ").removeprefix("Input ")


def _is_branch(step: int | str) -> bool:
    # pydantic names the branch of a union too, such as `str` or `list[…]`.
    return isinstance(step, str) and (step in ("str", "dict") or "[" in step)


def _is_json(text: str) -> bool:
    try:
        msgspec.json.decode(text)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return False
    return True


def _decoded(file: str, text: str, line: int) -> Any:
    try:
        value = msgspec.json.decode(text)
        if (key := repeated_key(text)) is not None:
            why = "stands twice in one object: only one of the two could be kept"
            raise BrokenFile(file, f"line {line}", key, None, why)
        return value
    except RecursionError:
        raise BrokenFile(file, f"line {line}", "", text, "is nested too deeply") from None
    except (msgspec.MsgspecError, UnicodeError) as error:
        problem = str(error)
    try:
        # Only to say where: msgspec counts bytes.
        json.loads(text)
    except json.JSONDecodeError as error:
        place = f"line {line + error.lineno - 1}, column {error.colno}"
        raise BrokenFile(file, place, "", text[error.pos : error.pos + 20], f"is not JSON: {error.msg}") from None
    except (ValueError, RecursionError):
        pass
    raise BrokenFile(file, f"line {line}", "", text, f"is not JSON: {problem}")
