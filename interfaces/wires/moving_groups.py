"""The groups of a view that moves along its timeline: only those that changed are made again."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Collection, Mapping

from turnlog.projections.cache_points import Places
from turnlog.projections.moves import MovingView

from .groups import Answer, Group, answered, begins_exchange, has_answers


class MovingGroups:
    """The groups of a moving view, by place; where they begin in the history is left out of them."""

    def __init__(self, view: MovingView) -> None:
        self._view = view
        self._groups: dict[int, Group] = {}
        self._beginnings: list[int] = []  # The places of the messages with which exchanges begin.
        self._unfinished: set[int] = set()  # Those of the groups with calls that have interim results alone.

    def get(self, place: int) -> Group | None:
        """Return the group at a place."""
        return self._groups.get(place)

    def update(self, touched: Collection[int]) -> dict[int, Group | None]:
        """Make the groups at some places again; return what was at all that changed, None where nothing was."""
        latest = self._latest
        for place in touched:
            self._note_beginning(place)
        changed = {*touched, *(self._unfinished if self._latest != latest else ())}
        was = {place: self._groups.get(place) for place in changed}
        for place in changed:
            self._put(place, self._made(place))
        return was

    def restore(self, was: Mapping[int, Group | None]) -> None:
        """Undo an update, after the view is what it was."""
        for place, group in was.items():
            self._note_beginning(place)
            self._put(place, group)

    @property
    def _latest(self) -> int | None:
        return self._beginnings[-1] if self._beginnings else None

    def _note_beginning(self, place: int) -> None:
        placed = self._view.placed.get(place)
        at = bisect_left(self._beginnings, place)
        there = self._beginnings[at : at + 1] == [place]
        if placed is not None and begins_exchange(placed.message):
            if not there:
                insort(self._beginnings, place)
        elif there:
            del self._beginnings[at]

    def _put(self, place: int, group: Group | None) -> None:
        self._unfinished.discard(place)
        if group is None:
            self._groups.pop(place, None)
            return
        self._groups[place] = group
        if group.has_unfinished:
            self._unfinished.add(place)

    def _made(self, place: int) -> Group | None:
        placed = self._view.placed.get(place)
        if placed is None or placed.message.role == "tool":
            return None
        if not placed.calls or not has_answers(placed.message):
            return Group(placed.message)
        results = self._view.results
        known = answered(self._view.pairs(placed), results, self._latest is None or place >= self._latest)
        found = sorted((results[version].place, number, version) for number, version in known.results.items())
        answers = tuple(
            Answer(number, results[version].message, Places.SYSTEM, moved=False) for _, number, version in found
        )
        return Group(placed.message, Places.SYSTEM, answers, *known[1:])
