"""What a handoff leaves of the prompt that a provider has cached."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from logs import logs
from views import DELETE, REMOVE, ROLLING, SWAP, assistant, clear, note, reply, result, summary, to, user, view
from wire_rules import ANTHROPIC, OPENAI

from turnlog.projections import MODES, Handoff, handoffs, history
from turnlog.store import Store
from turnlog.store.events import Messages, System, Tools, Within
from turnlog.wires import WIRES, StablePrefix, Wire, request_tokens, stable_prefix

TOOLS = [{"name": "f"}]
BEGUN = [
    assistant("greeter", "You greet.", tools=TOOLS, first_message="Hello!"),
    user("I need help."),
    reply("", "t1"),
    result("t1"),
]
both = pytest.mark.parametrize("wire", WIRES.values(), ids=WIRES)
every_mode = pytest.mark.parametrize("mode", MODES)


def across(transfer: dict[str, Any], wire: Wire, **query: Any) -> StablePrefix:
    """What an event leaves of the request before it."""
    events = [*BEGUN, transfer]
    return stable_prefix(view(*events, at=len(BEGUN), **query), view(*events, **query), wire)


def billing(mode: str, tools: list[Any] = TOOLS) -> dict[str, Any]:
    return to("billing", mode, "You bill.", tools=tools, message="One moment.", first_message="Billing here.")


def test_rolling_history_on_openai() -> None:
    """Across a rolling transfer the whole earlier request stays a stable prefix where system messages stay in place."""
    found = across(billing(ROLLING), OPENAI)
    assert (found.point, found.lost, found.changed, found.version) == (Messages(4), 0, None, None)
    assert found.kept > 0


def test_rolling_history_on_anthropic() -> None:
    """Where a later prompt is hoisted, the system prefix changed, by the transfer, and only the tools are kept."""
    found = across(billing(ROLLING), ANTHROPIC)
    assert (found.point, found.changed, found.version) == (Tools(), "system", 5)
    assert 0 < found.kept < found.lost


@both
def test_rolling_history_without_a_prompt(wire: Wire) -> None:
    """A rolling transfer that says nothing of a prompt leaves all of the request on any wire."""
    found = across(to("billing", tools=TOOLS, message="One moment."), wire)
    assert (found.lost, found.changed) == (0, None)


@both
@every_mode
@pytest.mark.parametrize("tools", [[{"name": "g"}], [*TOOLS, {"name": "g"}], []])
def test_other_tools(wire: Wire, mode: str, tools: list[Any]) -> None:
    """Other tools keep nothing, on any wire, in any mode."""
    found = across(billing(mode, tools), wire)
    assert (found.point, found.kept, found.changed, found.version) == (None, 0, "tools", 5)


@both
def test_tools_declared_before_the_transfer(wire: Wire) -> None:
    """If an assistant had its tools before, the event that broke the prefix is the one that made it active."""
    events = [*BEGUN, assistant("billing", tools=[{"name": "g"}]), to("billing")]
    found = stable_prefix(view(*events, at=5), view(*events), wire)
    assert (found.changed, found.version) == ("tools", 6)


@both
@pytest.mark.parametrize("mode", [SWAP, REMOVE, DELETE])
def test_a_swap_keeps_the_tools(wire: Wire, mode: str) -> None:
    """A swap changes the first prompt: it keeps the tools, and so does deleting."""
    found = across(billing(mode), wire)
    assert (found.point, found.changed, found.version) == (Tools(), "system", 5)
    assert found.kept > 0


@both
def test_a_swap_to_no_prompt(wire: Wire) -> None:
    """What broke the prefix is the transfer, although the message that now comes first is older."""
    found = across(to("billing", SWAP, tools=TOOLS), wire)
    assert (found.changed, found.version) == ("system", 5)


@both
def test_a_removed_call(wire: Wire) -> None:
    """Where a transfer removed its call, the prefix ends before it, by that transfer."""
    events = [*BEGUN[:2], reply("a", "t1"), result("t1"), to("b", REMOVE, tool_call_id="t1", tools=TOOLS)]
    events[0] = assistant("a", tools=TOOLS)
    found = stable_prefix(view(*events, at=4), view(*events), wire)
    assert (found.point, found.changed, found.version) == (Messages(2), "messages", 5)


@both
def test_the_event_that_took_a_call(wire: Wire) -> None:
    """What broke a prefix is the event that took a call between two requests, not one that had taken another of its id
    in the same message before."""
    removing = to("b", REMOVE, tool_call_id="t1", tools=TOOLS)
    begun = [assistant("a", tools=TOOLS), user("go"), reply("x", "t1", "t1"), result("t1"), result("t1")]
    events = [*begun, removing, removing]
    for at in (6, 7):
        found = stable_prefix(view(*events, at=at - 1), view(*events, at=at), wire)
        assert (found.changed, found.version) == ("messages", at)


@both
def test_summaries_and_clears(wire: Wire) -> None:
    """A summary or a clear breaks the prefix at the first message it hides."""
    begun = 0 if wire is OPENAI else 1  # Anthropic's user has to begin.
    found = across(summary("s", 2, 4), wire)
    assert (found.point, found.changed, found.version) == (Messages(1 + begun), "messages", 5)
    found = across(clear(), wire)
    assert (found.point, found.changed, found.version) == (System(), "messages", 5)


def test_the_point_names_the_later_request() -> None:
    """A message joined to the last one leaves the request whole up to within that."""
    events = [user("a"), user("b")]
    found = stable_prefix(view(*events, at=1), view(*events), ANTHROPIC)
    assert (found.point, found.lost) == (Within(0, 1), 0)


def test_an_answer_to_an_open_call() -> None:
    """The error that stood for a result goes when that comes: the prefix ends at the call, by the result."""
    events = [user("a"), reply("", "t1"), result("t1")]
    found = stable_prefix(view(*events, at=2), view(*events), OPENAI)
    assert (found.point, found.changed, found.version) == (Messages(2), "messages", 3)


def test_a_note_in_place() -> None:
    """Where system messages stay in place, a request that ends in one is kept whole, too."""
    events = [user("a"), note("n"), user("b")]
    found = stable_prefix(view(*events, at=2), view(*events), OPENAI)
    assert (found.point, found.lost) == (Messages(1), 0)


@both
def test_tokens(wire: Wire) -> None:
    """Tokens are estimated at 4 characters each, or counted by any callable, and the report says which."""
    events = [*BEGUN, billing(SWAP)]
    before, after = view(*events, at=4), view(*events)
    estimated = stable_prefix(before, after, wire)
    counted = stable_prefix(before, after, wire, tokens=len)
    assert (estimated.estimated, counted.estimated) == (True, False)
    assert estimated.kept == -(-counted.kept // 4)
    assert request_tokens(before, wire) == estimated.kept + estimated.lost
    assert request_tokens(before, wire, len) == counted.kept + counted.lost


@both
def test_tokens_of_pieces_add_up(wire: Wire) -> None:
    """A request is counted piece by piece, so that with any counter what is kept and what is lost add up to all."""
    events = [*BEGUN, billing(SWAP)]
    before, after = view(*events, at=4), view(*events)
    texts: list[str] = []

    def words(text: str) -> int:
        texts.append(text)
        return len(text.split()) + 1

    found = stable_prefix(before, after, wire, words)
    assert found.kept + found.lost == request_tokens(before, wire, words)
    assert all(texts)
    assert max(map(len, texts)) < request_tokens(before, wire, len)


def test_tiktoken() -> None:
    """A tokenizer such as tiktoken's is a callable away."""
    tiktoken = pytest.importorskip("tiktoken")
    encoding = tiktoken.Encoding(
        "bytes", pat_str=r".", mergeable_ranks={bytes([n]): n for n in range(256)}, special_tokens={}
    )
    events = [*BEGUN, billing(SWAP)]
    found = stable_prefix(view(*events, at=4), view(*events), OPENAI, lambda text: len(encoding.encode(text)))
    assert found == stable_prefix(view(*events, at=4), view(*events), OPENAI, len)


def test_to_dict() -> None:
    """What is printed has the point in its JSON form."""
    assert across(billing(SWAP), OPENAI).to_dict() == {
        "point": "Tools",
        "kept": 12,
        "lost": 93,
        "estimated": True,
        "changed": "system",
        "version": 5,
    }


@settings(max_examples=100, deadline=None)
@given(logs(max_size=15), st.booleans())
def test_every_transfer(events: list[dict[str, Any]], rolling: bool) -> None:
    """Over random logs: with equal tools a rolling transfer keeps all of an OpenAI request, and the tools on any
    wire; with other tools nothing is kept in any mode."""
    with Store(":memory:") as store:
        store.append("c", events)
        mode = ROLLING if rolling else None
        for handoff in handoffs(store, "c", mode=mode):
            for wire in WIRES.values():
                _holds(store, handoff, wire)


def _holds(store: Store, handoff: Handoff, wire: Wire) -> None:
    modes = {handoff.version: handoff.mode}
    before, after = (
        history(store, "c", handoff.scope, at, modes=modes) for at in (handoff.version - 1, handoff.version)
    )
    found = stable_prefix(before, after, wire)
    if before.tools != after.tools:
        assert (found.point, found.kept, found.changed, found.version) == (None, 0, "tools", handoff.version)
        return
    assert found.point is not None
    assert found.version in (None, handoff.version)
    if handoff.mode == ROLLING and handoff.context == "all" and wire is OPENAI:
        assert (found.lost, found.changed) == (0, None)
