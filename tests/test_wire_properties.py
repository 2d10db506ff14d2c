"""Wires over random histories and random valid points."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable
from itertools import count, pairwise
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from logs import logs, what_ifs
from wire_rules import items, obeys, open_calls, read_back

from turnlog.projections import History, history
from turnlog.projections.cache_points import Places, parts_of
from turnlog.store import Store
from turnlog.store.events import CachePoint, Messages, System, Tools, Within
from turnlog.wires import WIRES, adapt

Events = list[dict[str, Any]]
PNG = "aGVsbG8="
ODD_TEXTS = ("x", "x ", " ", "\n\t", "{}")
ODD_IDS = ("t1", "t 1", "t_1", "ü" * 60)
ODD_NAMES = ("f", "f.g", "f_g", "n" * 90)
ODD_ARGUMENTS = ("{}", '{"a": 1}', "", "null", "[1]", '{"a": NaN}', "{")
ODD_PARTS: tuple[dict[str, Any], ...] = (
    {"type": "image_url", "image_url": {"url": "https://a/b.png"}},
    {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}},
    {"type": "image", "url": "u"},
    {"type": "input_audio", "input_audio": {"data": PNG, "format": "mp3"}},
    {"type": "file", "file": {"filename": "a.pdf", "file_data": f"data:application/pdf;base64,{PNG}"}},
    {"type": "file", "file": {"file_id": "f"}},
    {"type": "document", "source": {"type": "url", "url": "https://a/b.pdf"}},
    {"type": "reasoning", "text": "hm"},
    {"type": "thinking", "thinking": "hm", "signature": "s"},
    {"type": "redacted_thinking", "data": "d"},
    {"type": "note", "text": "so"},
    {"type": "sticker"},
)
ODD_TOOLS: tuple[dict[str, Any], ...] = (
    {"name": "f"},
    {"name": "f.g", "parameters": {"properties": {}}},
    {"type": "function", "function": {"name": "f_g", "parameters": {"type": "object"}, "strict": True}},
    {"name": "s", "description": "d", "input_schema": {"type": "string"}},
    {"type": "web_search"},
)
_TAG = re.compile(r"§(\d+)§")


@st.composite
def conversations(draw: st.DrawFn) -> Events:
    """Random logs with odd texts, parts, ids, names, arguments and tools; whatever is said has a tag of its own."""
    tags = count()

    def said(text: str) -> str:
        if not text or draw(st.integers(0, 5)) == 0:
            return text and " "
        return f"{draw(st.sampled_from(ODD_TEXTS))}§{next(tags)}§"

    def content(value: Any) -> Any:
        return [part(each) for each in value] if isinstance(value, list) else said(value)

    def part(value: dict[str, Any]) -> dict[str, Any]:
        text = value["type"] == "text"
        return value | {"text": said(value["text"])} if text else dict(draw(st.sampled_from(ODD_PARTS)))

    def call(value: dict[str, Any]) -> dict[str, Any]:
        arguments = draw(st.sampled_from((*ODD_ARGUMENTS, f'{{"a": "§{next(tags)}§"}}')))
        name, id = draw(st.sampled_from(ODD_NAMES)), draw(st.sampled_from(ODD_IDS))
        return value | {"name": name, "arguments": arguments, "id": id}

    write: dict[str, Callable[[Any], Any]] = {
        "content": content,
        "response": content,
        "text": said,
        "system": said,
        "first_message": said,
        "tool_calls": lambda calls: [call(each) for each in calls],
        "tool_call_id": lambda _: draw(st.sampled_from(ODD_IDS)),
        "tools": lambda _: draw(st.lists(st.sampled_from(ODD_TOOLS), max_size=4)),
    }
    events = draw(logs(max_size=20))
    for event in events:
        for key in write.keys() & event.keys():
            event[key] = write[key](event[key])
        if event["type"] == "transfer" and event.get("message"):
            event["message"] = said(event["message"])
        if event["type"] == "message" and draw(st.integers(0, 5)) == 0:
            event["name"] = draw(st.sampled_from(ODD_NAMES))
    return events


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
