"""The requests of a view on every wire, while it goes along its timeline."""

from __future__ import annotations

from turnlog.projections import History
from turnlog.projections.history import read_history
from turnlog.projections.moves import MovingView
from turnlog.projections.reading import Reading
from turnlog.projections.timelines.catch_up import Line
from turnlog.projections.timelines.timeline import Timeline
from turnlog.store.events import Mode

from ..wires import WIRES
from ..wires.counting import Gauge
from ..wires.moving import MovingRequest
from ..wires.moving_groups import MovingGroups
from ..wires.moving_prefix import prefix_after
from .cost import Cost


class Requests:
    """The requests of a view on every wire, which goes along its timeline; texts are as redactions leave them."""

    def __init__(self, timeline: Timeline, gauge: Gauge) -> None:
        self._timeline = timeline
        self._reading = Reading(timeline.store, timeline.stream)
        self.redactions = timeline.store.redaction_count(timeline.stream)
        self._view = MovingView(timeline)
        self._groups = MovingGroups(self._view)
        self._on = {name: MovingRequest(wire, gauge) for name, wire in WIRES.items()}
        self._is_whole = True  # Not left by an error in the midst of a change.

    def can_go_to(self, version: int) -> bool:
        """Return whether a version is not behind, and nothing more has been redacted."""
        count = self._timeline.store.redaction_count(self._timeline.stream)
        return self._is_whole and self._view.version <= version and count == self.redactions

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
