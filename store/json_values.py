"""JSON values: which there are, and what a text of JSON says twice."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping
from typing import Any

import msgspec

from .errors import InvalidEvent
from .events import CachePoint

MAX_DEPTH = 64
MAX_BITS = 4096

_encode = msgspec.json.Encoder().encode


def repeated_key(text: str) -> str | None:
    """Return a key that one of the objects of a JSON text has twice; None if there is none, or no JSON."""
    found: list[str] = []

    def look(pairs: list[tuple[str, Any]]) -> None:
        if len(dict(pairs)) < len(pairs):
            found.extend(key for key, count in Counter(key for key, _ in pairs).items() if count > 1)

    try:
        # As it would be written; what has a key twice would not.
        if _encode(msgspec.json.decode(text)).decode() != text:
            json.loads(text, object_pairs_hook=look)
    except (ValueError, RecursionError):
        return None
    return found[0] if found else None


def is_plain(value: Any, depth: int) -> bool:
    """Return whether a value is JSON in plain types; where not, `check_json` says why or `plain` makes it so."""
    kind = type(value)
    if kind is str:
        return value.isascii() or _is_unicode(value)
    if kind is dict:
        if depth > MAX_DEPTH:
            return False
        for key, inner in value.items():
            if type(key) is not str or not (key.isascii() or _is_unicode(key)):
                return False
            if not (type(inner) is str and inner.isascii()) and not is_plain(inner, depth + 1):
                return False
        return True
    if kind is list:
        return depth <= MAX_DEPTH and all(is_plain(inner, depth + 1) for inner in value)
    if kind is float:
        return math.isfinite(value)
    if kind is int:
        return bool(value.bit_length() <= MAX_BITS)
    return value is None or kind is bool


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def check_json(value: Any, path: str, depth: int) -> None:
    """Refuse what JSON cannot say, and name where it is.

    :raises InvalidEvent: names the field and the value.
    """
    if isinstance(value, str):
        if not _is_unicode(value):
            raise InvalidEvent(path, value, "is not valid Unicode")
    elif isinstance(value, Mapping):
        _check_depth(path, depth)
        for key, inner in value.items():
            if not isinstance(key, str):
                raise InvalidEvent(path or "event", key, "is not text, as a key must be")
            check_json(key, f"{path}.{ascii(key)[1:-1]}".removeprefix("."), depth)
            check_json(inner, f"{path}.{key}" if path else key, depth + 1)
    elif isinstance(value, list | tuple):
        _check_depth(path, depth)
        for number, inner in enumerate(value):
            check_json(inner, f"{path}[{number}]", depth + 1)
    elif isinstance(value, float):
        if not math.isfinite(value):
            raise InvalidEvent(path, value, "is not a finite number")
    elif isinstance(value, int):
        if value.bit_length() > MAX_BITS:
            raise InvalidEvent(path, f"{value:#x}", f"has more than {MAX_BITS} bits")
    elif value is not None and not isinstance(value, CachePoint):
        raise InvalidEvent(path, type(value).__name__, "is not JSON")


def plain(value: Any) -> Any:
    """Return the same value in the types that JSON is read into, and cache points in their forms."""
    if isinstance(value, Mapping):
        return {str(key): plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [plain(inner) for inner in value]
    if isinstance(value, CachePoint):
        return value.form
    for kind in (str, bool, int, float):
        if isinstance(value, kind):
            return kind(value)
    return value


def _check_depth(path: str, depth: int) -> None:
    if depth > MAX_DEPTH:
        raise InvalidEvent(path.split(".")[0].split("[")[0], "…", f"is nested deeper than {MAX_DEPTH}")
