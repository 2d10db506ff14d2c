"""Checks of what callers give, so that a bad value is one clear error that names it and never an accident inside."""

from __future__ import annotations

import os
from collections.abc import Collection
from datetime import datetime
from typing import Any, TypeVar

from .chain import microseconds_of
from .errors import InvalidArgument

T = TypeVar("T")


def whole_number(field: str, value: object, least: int | None = None, what: str = "a whole number") -> int:
    """Return a whole number that is not below `least`; `what` says what it counts, for the error's text.

    :raises InvalidArgument: it is something else.
    """
    if not isinstance(value, int) or isinstance(value, bool) or (least is not None and value < least):
        raise InvalidArgument(field, value, f"is not {what}" + (f" of at least {least}" if least else ""))
    return value


def whole_numbers(field: str, values: object, what: str = "a whole number") -> Collection[int]:
    """Return several whole numbers.

    :raises InvalidArgument: it is something else.
    """
    if isinstance(values, str | bytes) or not isinstance(values, Collection):
        raise InvalidArgument(field, values, f"is not a list, each {what}")
    for value in values:
        whole_number(field, value, what=what)
    return values


def seconds(field: str, value: object) -> float:
    """Return a number of seconds.

    :raises InvalidArgument: it is something else, or below 0.
    """
    if not isinstance(value, int | float) or isinstance(value, bool) or not value >= 0:
        raise InvalidArgument(field, value, "is not a number of seconds")
    return float(value)


def one_of(field: str, value: T, choices: Collection[T]) -> T:
    """Return a value that is one of the choices.

    :raises InvalidArgument: it is none of them.
    """
    # Not `in`, for which 1 is True, and which asks some collections for a value that can be hashed.
    if not any(type(value) is type(choice) and value == choice for choice in choices):
        raise InvalidArgument(field, value, f"is not one of {', '.join(map(str, choices))}")
    return value


def instance_of(field: str, value: T, kind: Any, what: str) -> T:
    """Return an object of a class, or of a protocol, that `what` names.

    :raises InvalidArgument: it is something else.
    """
    if not isinstance(value, kind):
        raise InvalidArgument(field, value, f"is not {what}")
    return value


def text(field: str, value: object) -> str:
    """Return a text that can be stored and looked for.

    :raises InvalidArgument: it is no text, or not valid Unicode.
    """
    if not isinstance(value, str):
        raise InvalidArgument(field, value, "is not text")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise InvalidArgument(field, value, "is not valid Unicode") from None
    return value


def texts(field: str, values: object) -> tuple[str, ...]:
    """Return several texts.

    :raises InvalidArgument: it is one text, or something that is not a collection of texts.
    """
    if isinstance(values, str) or not isinstance(values, Collection):
        raise InvalidArgument(field, values, "is not a list of texts")
    return tuple(text(field, value) for value in values)


def microseconds(field: str, value: object) -> int:
    """Return a time that has a time zone as microseconds since 1970 UTC.

    :raises InvalidArgument: it is no time, or has no time zone.
    """
    if not isinstance(value, datetime):
        raise InvalidArgument(field, value, "is not a time")
    if value.utcoffset() is None:
        raise InvalidArgument(field, value.isoformat(), "has no time zone")
    return microseconds_of(value)


def file_path(field: str, value: object) -> str:
    """Return the path of a file as text.

    :raises InvalidArgument: it is something else, or no file can have it.
    """
    try:
        path = os.fsdecode(value)  # type: ignore[arg-type]
        possible = bool(path) and b"\0" not in os.fsencode(path)
    except (TypeError, UnicodeError):
        possible = False
    if not possible:
        raise InvalidArgument(field, value, "is not the path of a file")
    return path
