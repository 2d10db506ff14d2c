"""Ids of calls and names of tools that providers take."""

from __future__ import annotations

import re
from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Collection
from itertools import islice
from typing import NamedTuple, Protocol

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


class Named(NamedTuple):
    """The ids of the calls of a message, and the names of their tools, as a request has them."""

    ids: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()


class MovingNames:
    """Gives what `Legal` gives, while messages with calls come and go anywhere in a request.

    Messages are known by their places, in the order of a request. Where no id and no name meets one that was made of
    another, the place of a call among those of its id says all; else `Legal` is asked again for the whole request.
    """

    def __init__(self, id_length: int) -> None:
        self._id_length = id_length
        self._calls: dict[int, list[tuple[str, str]]] = {}
        self._uses: dict[str, list[tuple[int, int]]] = {}  # Of each legal id, where it is used: place and number.
        self._claims: Counter[str] = Counter()  # How many calls would have an id, if each were numbered by its own.
        self._met = 0
        self._tools: list[str] = []
        self._spellings: dict[str, Counter[str]] = {}  # Of each legal name, how often it stands for which names.
        self._changed: dict[str, tuple[int, int]] = {}
        self._everything = False
        self._asked: tuple[Legal, dict[int, Named]] | None = None

    def set_tools(self, names: list[str]) -> None:
        """Say what tools the request has, by their names."""
        if names != self._tools:
            for name in self._tools:
                self._spell(name, -1)
            for name in names:
                self._spell(name, 1)
            self._tools = names

    def set_calls(self, place: int, calls: list[tuple[str, str]]) -> None:
        """Say what calls a message has, as ids and names of tools; none if it is gone."""
        if calls == self._calls.get(place, []):
            return
        for number, (id, name) in enumerate(self._calls.pop(place, ())):
            self._use(id, (place, number), False)
            self._spell(name, -1)
        for number, (id, name) in enumerate(calls):
            self._use(id, (place, number), True)
            self._spell(name, 1)
        if calls:
            self._calls[place] = calls

    def changed(self) -> Collection[int]:
        """Return the places of the messages whose ids or names may be others than when this was last asked."""
        everything = self._everything or not self.is_regular
        self._everything = not self.is_regular
        found: Collection[int] = (
            self._calls
            if everything
            else {
                place
                for id, first in self._changed.items()
                for place, _ in islice(self._uses.get(id, ()), bisect_left(self._uses.get(id, []), first), None)
            }
        )
        self._changed = {}
        return found

    def of(self, place: int) -> Named:
        """Return the ids and the names of a message's calls."""
        calls = self._calls.get(place)
        if not calls:
            return Named()
        if not self.is_regular:
            return self._legal()[1][place]
        ids = [self._numbered(legal_name(id, self._id_length), (place, number)) for number, (id, _) in enumerate(calls)]
        return Named(tuple(ids), tuple(legal_name(name) for _, name in calls))

    def tool(self, name: str) -> str:
        """Return the name of a tool of the request."""
        return legal_name(name) if self.is_regular else self._legal()[0].tool(name)

    @property
    def is_regular(self) -> bool:
        """Return whether no id or name that would be given meets another."""
        return self._met == 0

    def _numbered(self, id: str, use: tuple[int, int]) -> str:
        uses = self._uses[id]
        return id if uses[0] == use else _suffixed(id, bisect_left(uses, use) + 1, self._id_length)

    def _use(self, id: str, use: tuple[int, int], comes: bool) -> None:
        legal = legal_name(id, self._id_length)
        uses = self._uses.setdefault(legal, [])
        self._asked = None
        if comes:
            insort(uses, use)
            self._claim(legal, len(uses), 1)
        else:
            self._claim(legal, len(uses), -1)
            del uses[bisect_left(uses, use)]
        if len(uses) > 1 or not comes:
            self._changed[legal] = min(use, self._changed.get(legal, use))
        if not uses:
            del self._uses[legal]

    def _claim(self, id: str, number: int, change: int) -> None:
        claimed = id if number == 1 else _suffixed(id, number, self._id_length)
        before = self._claims[claimed]
        self._claims[claimed] += change
        self._met += max(0, before + change - 1) - max(0, before - 1)
        if not self._claims[claimed]:
            del self._claims[claimed]

    def _spell(self, name: str, change: int) -> None:
        legal = legal_name(name)
        spellings = self._spellings.setdefault(legal, Counter())
        before = len(spellings)
        spellings[name] += change
        if not spellings[name]:
            del spellings[name]
        self._met += max(0, len(spellings) - 1) - max(0, before - 1)
        self._asked = None
        if not spellings:
            del self._spellings[legal]

    def _legal(self) -> tuple[Legal, dict[int, Named]]:
        if self._asked is None:
            legal = Legal(self._id_length)
            for name in self._tools:
                legal.tool(name)
            found = {}
            for place in sorted(self._calls):
                given = [(legal.call(id), legal.tool(name)) for id, name in self._calls[place]]
                found[place] = Named(*zip(*given, strict=True))
            self._asked = legal, found
        return self._asked
