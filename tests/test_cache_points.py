"""Cache points as values: their places, their order, what is refused, their JSON, and the plan of them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from views import IMAGE, assistant, note, reply, result, to, user, view

from turnlog.projections import history
from turnlog.projections.cache_points import Places, within_budget
from turnlog.projections.plan import plan
from turnlog.store import CachePoint, InvalidArgument, InvalidEvent, Request, Store
from turnlog.store.events import Messages, System, Tools, Within, read_point

TOOLS = [{"name": "f"}]
FORMS: list[tuple[CachePoint, Any]] = [
    (Tools(), "Tools"),
    (System(), "System"),
    (Messages(2), {"Messages": 2}),
    (Within(1, 2), {"Within": {"message": 1, "items": 2}}),
]

NO_POINTS: list[Any] = [
    "tools",
    "Messages",
    None,
    2,
    [],
    {},
    {"Messages": "2"},
    {"Messages": 2.0},
    {"Messages": True},
    {"Messages": -1},
    {"Messages": 1, "System": 1},
    {"Within": 1},
    {"Within": {"message": 1}},
    {"Within": {"message": 1, "items": None}},
    {"Within": {"message": 1, "items": -2}},
    {"Within": {"message": 1, "items": 2, "more": 3}},
    {"Within": {"message": 1, "items": 2}, "Messages": 1},
    {"System": {}},
]


def places(*events: dict[str, Any]) -> Places:
    return Places.of(view(*events).messages)


def parts(*texts: str) -> Any:
    return [{"type": "text", "text": text} for text in texts]


@pytest.mark.parametrize(("point", "form"), FORMS)
def test_json_form(point: CachePoint, form: Any) -> None:
    """The JSON form of each kind is the one of DESIGN section 6, both ways."""
    assert point.form == form
    assert read_point(json.loads(json.dumps(form))) == point


@pytest.mark.parametrize("value", NO_POINTS, ids=repr)
def test_json_is_read_strictly(value: object) -> None:
    """Anything but the four forms is refused with one line that names what was found."""
    with pytest.raises(InvalidArgument) as caught:
        read_point(value)
    assert (caught.value.field, caught.value.value) == ("cache_points", value)
    assert "\n" not in str(caught.value)
    assert value is None or repr(value) in str(caught.value)


def test_equal_places_are_equal() -> None:
    """`Messages(0)` is `System`, `Within(m, 0)` is `Messages(m)`, `Within(m, all)` is `Messages(m + 1)`."""
    here = places(user("a"), reply(parts("b", "c"), "t1"), result("t1"))
    assert here.canonical([Messages(0), System(), Within(0, 0)]) == [System()]
    assert here.canonical([Within(1, 0), Within(0, 1), Messages(1)]) == [Messages(1)]
    assert here.canonical([Within(1, 3), Messages(2), Within(2, 0)]) == [Messages(2)]
    assert here.canonical([Within(1, 2)]) == [Within(1, 2)]


def test_points_of_a_message_without_items_are_one() -> None:
    """`Within(m, 0)` is both `Messages(m)` and, if that is all of it, `Messages(m + 1)`: so these are equal."""
    here = places(user("a"), reply(""), user("b"))
    assert here.canonical([Messages(1), Messages(2), Within(1, 0)]) == [Messages(1)]


def test_points_sort_by_place() -> None:
    """Tools, system, then by message and item."""
    here = places(user("a"), reply(parts("b", "c")))
    points: list[CachePoint] = [Messages(2), Within(1, 1), Messages(1), System(), Tools()]
    assert here.canonical(points) == [Tools(), System(), Messages(1), Within(1, 1), Messages(2)]


def test_what_counts_as_a_message() -> None:
    """System messages never count, wherever they sit; a tool result counts."""
    here = places(assistant("a", "prompt"), user("a"), note("n"), reply("", "t1"), result("t1"), note("n"))
    assert here.canonical([Messages(3)]) == [Messages(3)]
    with pytest.raises(InvalidArgument):
        here.place(Messages(4))


def test_what_counts_as_an_item() -> None:
    """Items are content parts, a text only if it is not empty, then calls."""
    here = places(reply([*parts("", "a"), IMAGE], "t1", "t2"))
    assert here.place(Within(0, 4)) == here.place(Messages(1))
    with pytest.raises(InvalidArgument):
        here.place(Within(0, 5))


@pytest.mark.parametrize("point", [Messages(3), Messages(-1), Within(2, 0), Within(-1, 0), Within(0, 2), Within(0, -1)])
def test_out_of_range(point: CachePoint) -> None:
    """A point that is out of range is an error that names it."""
    with pytest.raises(InvalidArgument, match="out of range") as caught:
        places(user("a"), reply("b")).place(point)
    assert caught.value.value == point.form
    assert str(point.form) in str(caught.value)


def test_over_budget() -> None:
    """Over a budget tools and system are kept, then the newest."""
    points: list[CachePoint] = [Tools(), System(), Messages(1), Messages(2), Messages(3)]
    assert within_budget(points, 5) == points
    assert within_budget(points, 4) == [Tools(), System(), Messages(2), Messages(3)]
    assert within_budget(points, 2) == [Tools(), System()]
    assert within_budget(points, 1) == [Tools()]
    assert within_budget(points[2:], 2) == [Messages(2), Messages(3)]
    assert within_budget(points, 0) == []


def test_plan() -> None:
    """Proposed are tools, system, what the previous request had too, and the newest message."""
    before = [assistant("a", "prompt", tools=TOOLS), user("a"), reply("b")]
    now = view(*before, user("c"), reply("d"))
    assert plan(now) == [Tools(), System(), Messages(4)]
    assert plan(now, view(*before)) == [Tools(), System(), Messages(2), Messages(4)]
    assert plan(now, view(*before), limit=3) == [Tools(), System(), Messages(4)]


def test_plan_of_little() -> None:
    """What is not there is not proposed."""
    assert plan(view(user("a"), at=0)) == []
    assert plan(view(user("a"))) == [Messages(1)]
    assert plan(view(note("n"))) == [System()]


def test_plan_stops_at_an_open_call() -> None:
    """The newest message proposed is one that no open call precedes."""
    assert plan(view(user("a"), reply("", "t1"), user("b"))) == [Messages(2)]
    assert plan(view(user("a"), reply("", "t1"), user("b"), result("t1"))) == [Messages(4)]
    assert plan(view(user("a"), reply("", "t1", "t2"), result("t2"), user("b"))) == [Messages(2)]


def test_plan_shares_nothing_past_other_tools_or_another_prompt() -> None:
    """The prefix shared with the previous request ends at its first difference, and tools come first."""
    before = [assistant("a", "prompt", tools=TOOLS), user("a"), reply("b")]
    for transfer in (to("b", tools=[{"name": "g"}]), to("b", "swap-system-message-in-history", "other", tools=TOOLS)):
        assert plan(view(*before, transfer, user("c")), view(*before)) == [Tools(), System(), Messages(3)]
    rolling = view(*before, to("b", system="other", tools=TOOLS), user("c"))
    assert plan(rolling, view(*before)) == [Tools(), System(), Messages(2), Messages(3)]


class TestRequest:
    """What a `request` event records of cache points."""

    POINTS: tuple[CachePoint, ...] = tuple(point for point, _ in FORMS)
    FORMS: tuple[Any, ...] = tuple(form for _, form in FORMS)

    @pytest.mark.parametrize("given", ["points", "forms", "tuple"])
    @pytest.mark.parametrize("typed", [True, False], ids=["struct", "mapping"])
    def test_points_are_stored_in_their_forms(self, store: Store, given: str, typed: bool) -> None:
        """Points and their JSON are recorded alike, in the forms of section 6 of the design, and can be read again."""
        points: Any = {"points": list(self.POINTS), "forms": list(self.FORMS), "tuple": self.POINTS}[given]
        store.append("c", [user("one")])
        event: Any = (
            Request(at=1, cache_points=points) if typed else {"type": "request", "at": 1, "cache_points": points}
        )
        store.append("c", [event])
        recorded = store.event("c", 2).body["cache_points"]
        assert recorded == list(self.FORMS)
        assert [read_point(form) for form in recorded] == list(self.POINTS)

    def test_a_plan(self, store: Store) -> None:
        """What `plan` gives is recorded as what it means, the tools and the system prompt told apart."""
        store.append("c", [assistant("a", "prompt", tools=TOOLS), user("one")])
        seen = history(store, "c")
        store.append("c", [seen.request(cache_points=plan(seen))])
        assert store.event("c", 3).body["cache_points"] == ["Tools", "System", {"Messages": 1}]

    @pytest.mark.parametrize("typed", [True, False], ids=["struct", "mapping"])
    @pytest.mark.parametrize("value", [*NO_POINTS, Messages(-1), Within(0, 2**70), Messages(True), len], ids=repr)
    def test_anything_else_is_refused(self, store: Store, value: Any, typed: bool) -> None:
        """What is no cache point is refused by its place in the list."""
        store.append("c", [user("one")])
        points: Any = ["Tools", value]
        event: Any = (
            Request(at=1, cache_points=points) if typed else {"type": "request", "at": 1, "cache_points": points}
        )
        with pytest.raises(InvalidEvent) as caught:
            store.append("c", [event])
        assert caught.value.field == ("event" if typed and value is len else "cache_points[1]")
        assert store.version("c") == 1

    @pytest.mark.parametrize("value", ["Tools", {"Messages": 1}, 5, Tools()], ids=repr)
    def test_a_list_is_asked_for(self, store: Store, value: Any) -> None:
        """One point is no list of points."""
        store.append("c", [user("one")])
        for event in (Request(at=1, cache_points=value), {"type": "request", "at": 1, "cache_points": value}):
            with pytest.raises(InvalidEvent) as caught:
                store.append("c", [event])
            assert caught.value.field == "cache_points"
