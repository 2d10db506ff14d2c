"""The ids and names that a request gives while calls come and go are those that it gives as a whole."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from turnlog.wires.names import Legal, MovingNames, Named

LENGTH = 8
IDS = ("a", "a_2", "a_3", "a b", "a_b", "longlong", "longlo_2", "longlonger", "longlongest")
NAMES = ("f", "f.g", "f_g", "f_g_2", "n" * 64, "n" * 70, "n" * 80)
CALLS = st.lists(st.tuples(st.sampled_from(IDS), st.sampled_from(NAMES[:2] + NAMES)), max_size=3)
STEPS = st.lists(st.tuples(st.integers(0, 6), CALLS), max_size=12)
TOOLS = st.lists(st.sampled_from(NAMES), max_size=4)


def whole(calls: dict[int, list[tuple[str, str]]], tools: list[str]) -> tuple[list[str], dict[int, Named]]:
    """Return the names of the tools and what the calls are given, in the order of a request."""
    legal = Legal(LENGTH)
    named = [legal.tool(name) for name in tools]
    found = {}
    for place in sorted(calls):
        each = [(legal.call(id), legal.tool(name)) for id, name in calls[place]]
        found[place] = Named(tuple(id for id, _ in each), tuple(name for _, name in each))
    return named, found


@settings(max_examples=400, deadline=None)
@given(st.lists(st.tuples(STEPS, TOOLS), max_size=4))
def test_names_of_what_moves(rounds: list[tuple[list[tuple[int, list[tuple[str, str]]]], list[str]]]) -> None:
    """After any changes the ids and names are those of the whole request, and all that have changed are reported."""
    moving = MovingNames(LENGTH)
    calls: dict[int, list[tuple[str, str]]] = {}
    known: dict[int, Named] = {}
    for steps, tools in rounds:
        moving.set_tools(tools)
        for place, some in steps:
            moving.set_calls(place, some)
            calls[place] = some
        named, given_ = whole(calls, tools)
        assert [moving.tool(name) for name in tools] == named
        assert {place: moving.of(place) for place in calls} == given_
        touched = {place for place, _ in steps}
        changed = {place for place, was in known.items() if given_[place] != was}
        assert changed - touched <= set(moving.changed())
        known = given_
