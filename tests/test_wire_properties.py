"""Wires over random histories and random valid points."""

from __future__ import annotations

import json
import re
from collections import Counter
from itertools import pairwise
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from logs import what_ifs
from odd_logs import Events, conversations
from wire_rules import items, obeys, open_calls, read_back

from turnlog.projections import History, history
from turnlog.projections.cache_points import Places, parts_of
from turnlog.store import Store
from turnlog.store.events import CachePoint, Messages, System, Tools, Within
from turnlog.wires import WIRES, adapt

_TAG = re.compile(r"§(\d+)§")


def viewed(events: Events, **query: Any) -> History:
    with Store(":memory:") as store:
        store.append("c", events or [{"type": "clear"}])
        found = history(store, "c", **query)
        found.to_dict()  # All of it is worked out when first asked for, while the store is open.
        return found


@st.composite
def points_of(draw: st.DrawFn, view: History) -> list[CachePoint]:
    """Random valid points, in any order."""
    sizes = sizes_of(view)
    some: list[st.SearchStrategy[CachePoint]] = [
        st.sampled_from((Tools(), System())),
        st.builds(Messages, st.integers(0, len(sizes))),
    ]
    if sizes:
        message = draw(st.integers(0, len(sizes) - 1))
        some.append(st.builds(Within, st.just(message), st.integers(0, sizes[message])))
    return draw(st.lists(st.one_of(some), max_size=6))


def sizes_of(view: History) -> list[int]:
    return [len(parts_of(message)) + len(message.tool_calls) for message in view.messages if message.role != "system"]


def written(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def tags(value: Any) -> set[str]:
    return set(_TAG.findall(written(value)))


@settings(max_examples=75, deadline=None)
@given(conversations(), what_ifs, st.data())
def test_total_legal_and_the_same(events: Events, what_if: dict[str, Any], data: st.DataObject) -> None:
    """Any history with any valid points makes a request that its provider takes, and the same one each time."""
    view = viewed(events, **what_if)
    points = data.draw(points_of(view))
    for wire in WIRES.values():
        adapted = adapt(view, wire, points)
        obeys(wire, adapted.request)
        assert all(change.what and "\n" not in change.what for change in adapted.changes)
        again = adapt(viewed(events, **what_if), wire, reversed(points))
        assert written(again.to_dict()) == written(adapted.to_dict())


@settings(max_examples=75, deadline=None)
@given(conversations(), st.integers(0, 5))
def test_cut_histories(events: Events, last: int) -> None:
    """A history of the last messages makes a legal request too, whatever it begins with."""
    view = viewed(events, last=last)
    for wire in WIRES.values():
        obeys(wire, adapt(view, wire).request)


@settings(max_examples=75, deadline=None)
@given(conversations(), st.data())
def test_idempotent(events: Events, data: st.DataObject) -> None:
    """A request that is read back as a history makes the same request; its own points stay where they are."""
    view = viewed(events)
    points = data.draw(points_of(view))
    for wire in WIRES.values():
        bare = adapt(view, wire).request
        back = viewed(read_back(wire, bare))
        assert adapt(back, wire).request == bare
        if wire.name == "openai":  # Where messages are what they are in a history, the points name the same.
            moved = adapt(view, wire, points).cache_points
            again = adapt(back, wire, moved)
            assert again.cache_points == moved
            assert again.request == bare


@settings(max_examples=75, deadline=None)
@given(conversations(), st.data())
def test_moved_points(events: Events, data: st.DataObject) -> None:
    """A moved point ends the longest prefix made only of what was before it; order stays, equal places stay equal,
    and none lies past a call that has no final result."""
    view = viewed(events)
    source = Places.of(view.messages)
    points = source.canonical([*data.draw(points_of(view)), *map(Messages, range(len(sizes_of(view)) + 1))])
    for wire in WIRES.values():
        adapted = adapt(view, wire)
        flat = [item for message in items(wire, adapted.request) for item in message]
        own = Places(map(len, items(wire, adapted.request)))
        moved = [own.place(point) for (point,) in (adapt(view, wire, [each]).cache_points for each in points)]
        assert moved == sorted(moved)
        stops = {call + 1 for call in open_calls(wire, adapted.request, view)}
        assert all(place <= stop for place in moved for stop in stops)
        for point, place in zip(points, moved, strict=True):
            if place >= 0:
                _ends_the_longest(view, source.place(point), flat, place, place in stops)


def _ends_the_longest(view: History, place: int, flat: list[Any], moved: int, stopped: bool) -> None:
    said = _said(view)
    system = [message.content for message in view.messages if message.role == "system"]
    inside = tags(said[:place]) | tags(system)
    assert tags(flat[:moved]) <= inside
    once = {tag for tag, times in Counter(_TAG.findall(written(said))).items() if times == 1}
    if moved < len(flat) and not stopped and tags(flat[moved]):
        # What comes next was not before the point, unless it is told there a second time.
        assert tags(flat[moved]) - inside or not tags(flat[moved]) <= once


def _said(view: History) -> list[Any]:
    """The items of a history in order."""
    return [
        item
        for message in view.messages
        if message.role != "system"
        for item in [*parts_of(message), *(call.arguments for call in message.tool_calls)]
    ]


@settings(max_examples=75, deadline=None)
@given(conversations(), st.data())
def test_equal_places_move_to_equal_places(events: Events, data: st.DataObject) -> None:
    """`Messages(0)` and `System`, `Within(m, 0)` and `Messages(m)`, `Within(m, all)` and `Messages(m + 1)` are one."""
    view = viewed(events)
    sizes = sizes_of(view)
    pairs: list[tuple[CachePoint, CachePoint]] = [(Messages(0), System())]
    if sizes:
        message = data.draw(st.integers(0, len(sizes) - 1))
        pairs += [(Within(message, 0), Messages(message)), (Within(message, sizes[message]), Messages(message + 1))]
    for wire in WIRES.values():
        for one, other in pairs:
            assert adapt(view, wire, [one]) == adapt(view, wire, [other]) == adapt(view, wire, [one, other])


@settings(max_examples=75, deadline=None)
@given(conversations(), st.data())
def test_points_that_meet_become_one(events: Events, data: st.DataObject) -> None:
    """Moved points are in order, each place once and within the budget; what is lost are the oldest of messages."""
    view = viewed(events)
    points = data.draw(points_of(view))
    for wire in WIRES.values():
        adapted = adapt(view, wire, points)
        own = Places(map(len, items(wire, adapt(view, wire).request)))
        places = [own.place(point) for point in adapted.cache_points]
        assert all(one < other for one, other in pairwise(places))
        alone = {own.place(adapt(view, wire, [point]).cache_points[0]) for point in points}
        kept = [place for place in sorted(alone) if place <= 0]
        newest = [place for place in sorted(alone) if place > 0]
        if wire.budget is not None:
            newest = newest[max(0, len(newest) + len(kept) - wire.budget) :]
        assert places == kept + newest
