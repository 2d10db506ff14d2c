"""What handoffs cost in cache, per provider, for the mode used and for every other (docs/design.md, section 6)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from turnlog.projections import MODES, Handoff, History
from turnlog.projections.history import read_history
from turnlog.projections.moves import MovingView
from turnlog.projections.reading import Reading
from turnlog.projections.timelines.catch_up import Line
from turnlog.projections.timelines.timeline import Timeline, timeline_of
from turnlog.store import Store
from turnlog.store.events import Mode, TransferFrame

from .wires import WIRES, StablePrefix
from .wires.counting import Gauge
from .wires.moving import MovingRequest
from .wires.moving_groups import MovingGroups
from .wires.moving_prefix import prefix_after

Tokens = Callable[[str], int]


@dataclass(frozen=True)
class Cost:
    """One mode of a transfer: messages and, per wire, the request's tokens and what it keeps of the one before."""

    mode: Mode
    messages: int
    tokens: dict[str, int]
    prefixes: dict[str, StablePrefix]

    def to_dict(self) -> dict[str, Any]:
        """As JSON: per wire the tokens of the request, and of the one before those kept and lost."""
        return {
            "mode": self.mode,
            "messages": self.messages,
            "wires": {name: {"tokens": self.tokens[name]} | prefix.to_dict() for name, prefix in self.prefixes.items()},
        }


def costs(
    store: Store,
    handoffs: Iterable[Handoff],
    what_if: tuple[Mode | None, Mapping[int, Mode]] = (None, {}),
    tokens: Tokens | None = None,
    compare: bool = False,
) -> Iterator[list[Cost]]:
    """Give for each of some handoffs what it costs in the mode used or, to `compare`, in each of the four modes.

    The handoffs of one scope of a conversation cost least in order: then only what changes from one to the next is
    looked at. `what_if` are the modes under which they were found. Tokens are 4 characters of the requests' JSON unless
    `tokens` counts those of a text, which it is given piece by piece.
    """
    mode, modes = what_if
    accounts: dict[tuple[str, str], _Account] = {}
    for handoff in handoffs:
        key = handoff.conversation, handoff.scope
        if key not in accounts:
            timeline = timeline_of(store, store.stream(handoff.conversation), handoff.scope, mode, modes)
            accounts[key] = _Account(timeline, Gauge(tokens))
        yield accounts[key].costs(handoff.version, MODES if compare else (handoff.mode,))


class _Account:
    """The requests of one scope on every wire, which go along its timeline from handoff to handoff."""

    def __init__(self, timeline: Timeline, gauge: Gauge) -> None:
        self._timeline = timeline
        self._gauge = gauge
        self._requests: _Requests | None = None

    def costs(self, version: int, modes: Sequence[Mode]) -> list[Cost]:
        """Return what the transfer of a version costs in some modes."""
        timeline = self._timeline
        frame = timeline.frame(version)
        assert isinstance(frame, TransferFrame)
        own = timeline.what_if.of(version, frame)
        found = {mode: self._tried(version, mode) for mode in modes if mode != own}
        if own in modes:
            # Last, since the requests go on with it.
            found[own] = timeline.ask(version, lambda line, _: self._before(line, version).go_on(line, own))
        return [found[mode] for mode in modes]

    def _tried(self, version: int, mode: Mode) -> Cost:
        requests = self._timeline.ask(version, lambda line, _: self._before(line, version))
        return self._timeline.tried(version, mode, lambda line: requests.go_on(line, mode, and_back=True))

    def _before(self, line: Line, version: int) -> _Requests:
        """Return the requests as they were before an event."""
        if self._requests is None or not self._requests.can_go_to(version - 1):
            self._requests = _Requests(self._timeline, self._gauge)
        self._requests.go_to(line, version - 1)
        return self._requests


class _Requests:
    """The requests of a view on every wire, which goes along its timeline; texts are as redactions leave them."""

    def __init__(self, timeline: Timeline, gauge: Gauge) -> None:
        self._timeline = timeline
        self._reading = Reading(timeline.store, timeline.stream)
        self._redactions = timeline.store.redaction_count(timeline.stream)
        self._view = MovingView(timeline)
        self._groups = MovingGroups(self._view)
        self._on = {name: MovingRequest(wire, gauge) for name, wire in WIRES.items()}
        self._is_whole = True  # Not left by an error in the midst of a change.

    def can_go_to(self, version: int) -> bool:
        """Return whether a version is not behind, and nothing more has been redacted."""
        count = self._timeline.store.redaction_count(self._timeline.stream)
        return self._is_whole and self._view.version <= version and count == self._redactions

    def go_to(self, line: Line, version: int) -> None:
        """Go on to a version."""
        if version == self._view.version:
            return
        self._is_whole = False
        reading = self._reading.at(version)
        was = self._groups.update(self._view.go_to(line, reading))
        tools = self._given(line, reading).tools
        for request in self._on.values():
            request.update(was, self._groups, tools)
        self._is_whole = True

    def go_on(self, line: Line, mode: Mode, and_back: bool = False) -> Cost:
        """Go on to the next event, a transfer that has a mode on a timeline, and return what it costs.

        With `and_back` go back to before it then.
        """
        version = self._view.version + 1
        reading = self._reading.at(version)
        given = self._given(line, reading)
        move = self._view.next(line, reading)
        back = self._view.opposite(move)
        self._is_whole = False
        was = self._groups.update(self._view.apply(move))
        before = {name: request.update(was, self._groups, given.tools) for name, request in self._on.items()}
        cost = Cost(
            mode=mode,
            messages=len(self._view.placed),
            tokens={name: request.tokens for name, request in self._on.items()},
            prefixes={
                name: prefix_after(request, before[name], given.tools_since, self._timeline, line, version)
                for name, request in self._on.items()
            },
        )
        if and_back:
            self._view.apply(back)
            self._groups.restore(was)
            for name, request in self._on.items():
                request.restore(before[name], self._groups)
        else:
            self._view.arrive(version)
        self._is_whole = True
        return cost

    def _given(self, line: Line, reading: Reading) -> History:
        """Return a view without its messages."""
        return read_history(self._timeline, line, reading, None, 0, None)
