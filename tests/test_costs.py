"""What handoffs cost in cache, from what changes between two requests."""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from logs import logs, what_ifs
from odd_logs import Events, conversations
from views import DELETE, REMOVE, ROLLING, SWAP, assistant, reply, result, rewind, summary, to, user

from turnlog.costs import Cost, costs
from turnlog.projections import MODES, Handoff, handoffs, history
from turnlog.store import Store
from turnlog.wires import WIRES
from turnlog.wires.adapt import messages_of
from turnlog.wires.moving_prefix import prefix_after
from turnlog.wires.stable_prefix import Written, prefix_of

Tokens = Callable[[str], int]
TOOLS = [{"name": "f"}]


def plain(
    store: Store, handoff: Handoff, what_if: Any, tokens: Tokens | None = None, compare: bool = False
) -> list[Cost]:
    """Return what a handoff costs by writing its requests as a whole: the definition."""
    mode, modes = what_if
    found = []
    for each in MODES if compare else (handoff.mode,):
        before = history(store, "c", handoff.scope, handoff.version - 1, mode, modes)
        after = history(store, "c", handoff.scope, handoff.version, mode, {**modes, handoff.version: each})
        was = {name: Written.on(before, wire) for name, wire in WIRES.items()}
        now = {name: Written.on(after, wire) for name, wire in WIRES.items()}
        prefixes = {name: prefix_of(was[name], now[name], tokens) for name in WIRES}
        found.append(Cost(each, len(after), {name: now[name].tokens(tokens) for name in WIRES}, prefixes))
    return found


def thirds(text: str) -> int:
    """Count tokens so that those of two texts are not those of both together."""
    return len(text) // 3 + 1


def every_cost(store: Store, **options: Any) -> list[list[Cost]]:
    return list(costs(store, handoffs(store, "c"), **options))


@settings(max_examples=120, deadline=None)
@given(st.one_of(logs(max_size=40), conversations()), what_ifs, st.sampled_from((None, len, thirds)), st.booleans())
def test_costs_are_those_of_whole_requests(
    events: Events, given_modes: dict[str, Any], tokens: Tokens | None, compare: bool
) -> None:
    """Over random logs and what-ifs: in every mode, on every wire and with any counter, what a handoff costs is what
    its two requests give that are written as a whole."""
    what_if = given_modes.get("mode"), given_modes.get("modes", {})
    with Store(":memory:") as store:
        store.append("c", events)
        found = handoffs(store, "c", None, *what_if)
        right = [plain(store, each, what_if, tokens, compare) for each in found]
        assert list(costs(store, found, what_if, tokens, compare)) == right
        assert list(costs(store, found, what_if, tokens, compare)) == right


@settings(max_examples=30, deadline=None)
@given(conversations(), st.randoms(use_true_random=False))
def test_costs_in_any_order(events: Events, random: Any) -> None:
    """Handoffs may be asked for in any order, one twice and some never: each costs the same."""
    with Store(":memory:") as store:
        store.append("c", events)
        found = handoffs(store, "c")
        some = random.choices(found, k=5) if found else []
        assert list(costs(store, some, compare=True)) == [plain(store, each, (None, {}), compare=True) for each in some]


def test_a_result_that_is_covered_at_once() -> None:
    """A result that a summary covers as soon as it comes changes what the call before it shows."""
    events = [
        assistant("a", tools=TOOLS),
        user("go"),
        reply("", "t1"),
        to("b", ROLLING),
        result("t1"),
        summary("s", 5, 5),
        to("c", ROLLING),
        rewind(5),
        to("d", DELETE),
        rewind(4),
        to("e", SWAP),
    ]
    with Store(":memory:") as store:
        store.append("c", events)
        found = handoffs(store, "c")
        assert every_cost(store) == [plain(store, each, (None, {})) for each in found]


@pytest.mark.parametrize("compare", [False, True])
def test_only_what_changes_is_written(compare: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each message is written once on each wire, whatever the number of handoffs that come after it."""
    written = 0

    def counted(*arguments: Any) -> Any:
        nonlocal written
        written += 1
        return messages_of(*arguments)

    monkeypatch.setattr("turnlog.wires.moving.messages_of", counted)
    transfers, each = 40, 25
    with Store(":memory:") as store:
        store.append("c", [assistant("a", "You are a.", tools=TOOLS)])
        for number in range(transfers):
            talk = [event for step in range(each) for event in (user("x"), reply("y", f"t{number}-{step}"))]
            results = [result(f"t{number}-{step}") for step in range(each)]
            store.append("c", [*talk, *results, to("b", MODES[number % 3], f"You are {number}.")])
        every_cost(store, compare=compare)
    messages = transfers * 2 * each
    # The rest is what each transfer changes, in each mode, and what is looked at where a prefix breaks.
    assert written <= len(WIRES) * messages + transfers * (30 if compare else 10)


def test_a_redaction_meanwhile() -> None:
    """Costs that are asked for one after the other are of what is left of texts that are redacted meanwhile."""
    events = [assistant("a", tools=TOOLS), user("a secret of some length"), to("b", SWAP), user("x"), to("c", DELETE)]
    with Store(":memory:") as store:
        store.append("c", events)
        found = handoffs(store, "c")
        giver = costs(store, found)
        assert next(giver) == plain(store, found[0], (None, {}))
        before = plain(store, found[1], (None, {}))
        store.redact("c", [2], reason="asked")
        assert next(giver) == plain(store, found[1], (None, {})) != before


def test_damage_that_is_mended(monkeypatch: pytest.MonkeyPatch) -> None:
    """An error that damaged rows raise in the midst of a comparison changes no figure."""
    events = [assistant("a", "p", tools=TOOLS), user("x"), to("b", SWAP, "q"), user("y"), to("c", REMOVE, "r")]
    with Store(":memory:") as store:
        store.append("c", events)
        right = every_cost(store, tokens=len)
        left = [1, 1]

        def fails_at_times(*arguments: Any) -> Any:
            if left and left[0] == 0:
                left.pop(0)
                raise sqlite3.DatabaseError("database disk image is malformed")
            if left:
                left[0] -= 1
            return prefix_after(*arguments)

        monkeypatch.setattr("turnlog.costs.requests.prefix_after", fails_at_times)
        assert every_cost(store, tokens=len) == right
        assert not left


def calls_made(work: Callable[[], object]) -> int:
    """Return how many Python functions are called."""
    count = 0

    def note(frame: object, event: str, argument: object) -> None:
        nonlocal count
        count += event == "call"

    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize("mode", [ROLLING, SWAP, REMOVE])
@pytest.mark.parametrize("prompt", ["You are {}.", "You are."])
@pytest.mark.parametrize("call", ["t{}", "t"])
def test_the_work_does_not_grow_with_the_view(mode: str, prompt: str, call: str) -> None:
    """A handoff late in a long view costs as much as an early one, also where prompts or ids are always the same."""
    work = []
    with Store(":memory:") as store:
        store.append("c", [assistant("a", "You are.", tools=TOOLS)])
        for number in range(1, 61):
            talk = [user("x"), reply("y", call.format(number)), result(call.format(number)), user("z")]
            store.append("c", [*talk, to(f"a{number % 3}", mode, prompt.format(number))])
        found = handoffs(store, "c")
        giver = costs(store, found, tokens=len)
        work = [calls_made(lambda: next(giver)) for _ in found]
    early, late = sum(work[10:20]), sum(work[50:60])
    assert late <= 1.3 * early
