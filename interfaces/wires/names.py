"""Ids of calls and names of tools that providers take."""

from __future__ import annotations

import re
from typing import Protocol

NAME_LENGTH = 64  # What both providers take as a tool's or a speaker's name; OpenAI's types say so.

_ILLEGAL = re.compile(r"[^a-zA-Z0-9_-]")


class Naming(Protocol):
    """What gives calls their ids and tools their names on a wire."""

    def call(self, id: str) -> str:
        """Return the id of a further call."""
        ...

    def tool(self, name: str) -> str:
        """Return the name of a tool."""
        ...


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
            legal = _suffixed(base, self._last[base], self._length)
        self._taken.add(legal)
        return legal


def legal_name(name: str, length: int = NAME_LENGTH) -> str:
    """The name with `_` for what no provider takes, cut to `length`."""
    return _ILLEGAL.sub("_", name)[:length]


def _suffixed(name: str, number: int, length: int) -> str:
    suffix = f"_{number}"
    return name[: length - len(suffix)] + suffix
