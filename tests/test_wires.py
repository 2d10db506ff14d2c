"""Wires by example: what becomes of a history and of its cache points in a provider's request."""

from __future__ import annotations

import pytest
from sending import both, called, changes, messages, moved, parts, sent
from views import assistant, note, reply, result, summary, to, user, view
from wire_rules import ANTHROPIC, OPENAI, marked

from turnlog.store import InvalidArgument
from turnlog.store.events import CachePoint, Messages, System, Tools, Within
from turnlog.wires import Wire, adapt

NOTHING = view(user("a"), at=0)


@both
def test_points_of_joined_messages(wire: Wire) -> None:
    """User [a, b], user [c], assistant: a point after the first stays within what they are joined to."""
    history = view(user(parts("a", "b")), user(parts("c")), reply("d"))
    assert moved(history, wire, Messages(1)) == [Within(0, 2)]
    assert moved(history, wire, Messages(2)) == [Messages(1)]
    assert moved(history, wire, Within(1, 1)) == [Messages(1)]


@both
def test_point_before_a_result_that_moves(wire: Wire) -> None:
    """Call, user text, result: the point after the text lands after the assistant's message, since the result now
    stands before the text."""
    assert moved(view(user("x"), reply("a", "t1"), user("b"), result("t1")), wire, Messages(3)) == [Messages(2)]
    begun = 0 if wire is OPENAI else 1  # Anthropic's user has to begin.
    assert moved(view(reply("a", "t1"), user("b"), result("t1")), wire, Messages(2)) == [Messages(1 + begun)]


@both
def test_points_around_a_dropped_message(wire: Wire) -> None:
    """A user message, a dropped failed turn, a user message: points after the first and the second are one."""
    history = view(user("a"), reply(" "), user("b"))
    assert moved(history, wire, Messages(1), Messages(2)) == [Within(0, 1)]
    assert (2, "blank assistant message dropped") in changes(history, wire)


@both
def test_equal_points_are_one(wire: Wire) -> None:
    """`[Messages(0), System, Within(0, 0)]` is one `System`."""
    assert moved(view(user("a")), wire, Messages(0), System(), Within(0, 0)) == [System()]


def test_over_budget() -> None:
    """Five points with a limit of four lose the oldest message point; a wire without a limit keeps them."""
    history = view(assistant("a", "p", tools=[{"name": "f"}]), user("a"), reply("b"), user("c"))
    points: list[CachePoint] = [Messages(3), Messages(2), Messages(1), System(), Tools()]
    assert moved(history, ANTHROPIC, *points) == [Tools(), System(), Messages(2), Messages(3)]
    assert moved(history, OPENAI, *points) == [Tools(), System(), Messages(1), Messages(2), Messages(3)]


@both
def test_no_point_past_an_unanswered_call(wire: Wire) -> None:
    """None lies past a call never answered, parallel ones included; right after it one may."""
    history = view(user("a"), reply("b", "t1", "t2"), result("t2"), user("c"))
    assert moved(history, wire, Messages(4)) == [Within(1, 2)]
    assert moved(history, wire, Messages(1)) == [Messages(1)]
    answered = view(user("a"), reply("b", "t1", "t2"), result("t2"), result("t1"), user("c"))
    assert moved(answered, wire, Messages(2)) == [Messages(2)]
    assert moved(answered, OPENAI, Messages(3)) == [Messages(3)]
    assert moved(answered, ANTHROPIC, Messages(3)) == [Within(2, 1)]


@both
def test_out_of_range(wire: Wire) -> None:
    """Points name the history as it is written; one out of range is the only thing refused."""
    history = view(user(" "), user("b"))
    assert moved(history, wire, Messages(1)) == [System()]
    with pytest.raises(InvalidArgument):
        adapt(history, wire, [Messages(3)])


def test_marks() -> None:
    """On the Anthropic wire the moved points are marked on what ends them: the last tool, system text and item."""
    tools = [{"name": "f"}, {"name": "g"}]
    history = view(assistant("a", "p", tools=tools), user("a"), reply("b", "t1"), result("t1"), user("c"))
    request = sent(history, ANTHROPIC, Tools(), System(), Messages(2), Messages(3)).request
    names = [each.get("name") or each.get("text") or each["tool_use_id"] for each in marked(request)]
    assert names == ["g", "p", "f", "t1"]
    assert request["tools"][1]["cache_control"] == {"type": "ephemeral"}


def test_marks_only_on_what_may_carry_one() -> None:
    """Thinking may not: the nearest item before it is marked, and a missing system by the tools."""
    thinking = {"type": "thinking", "thinking": "hm", "signature": "s"}
    content = [*parts("a"), thinking, *parts("b")]
    history = view(assistant("a", tools=[{"name": "f"}]), user("x"), reply(content))
    adapted = sent(history, ANTHROPIC, System(), Within(1, 2))
    assert adapted.cache_points == [System(), Within(1, 2)]
    assert [each.get("name") or each["text"] for each in marked(adapted.request)] == ["f", "a"]
    assert marked(sent(NOTHING, ANTHROPIC, Tools(), System()).request) == []


def test_results_and_system_messages_on_openai() -> None:
    """Results stand right after their call as messages, system messages stay in place."""
    history = view(assistant("a", "p"), user("a"), reply("", "t1", "t2"), note("n"), result("t2"), result("t1"))
    assert messages(history, OPENAI) == [
        ("system", ["p"]),
        ("user", ["a"]),
        ("assistant", ["t1", "t2"]),
        ("tool", ["t2", "r"]),
        ("tool", ["t1", "r"]),
        ("system", ["n"]),
    ]
    assert changes(history, OPENAI) == [(5, "result moved to right after its call")]


def test_results_and_system_messages_on_anthropic() -> None:
    """Results come first in the user's next message, system messages stand apart in order."""
    history = view(assistant("a", "p"), user("a"), reply("", "t1"), note("n"), user("b"), result("t1"))
    assert messages(history, ANTHROPIC) == [("user", ["a"]), ("assistant", ["t1"]), ("user", ["t1", "b"])]
    assert [block["text"] for block in sent(history, ANTHROPIC).request["system"]] == ["p", "n"]
    assert changes(history, ANTHROPIC) == [
        (6, "result moved to right after its call"),
        (4, "system message hoisted before all others"),
        (5, "joined to the user message before it"),
    ]


@both
def test_error_for_a_call_never_answered(wire: Wire) -> None:
    """A call never answered gets an error result, listed with the version of the call's message."""
    history = view(user("a"), reply("", "t1"))
    assert (2, "error result added for call t1, never answered") in changes(history, wire)
    assert [role for role, _ in messages(history, wire)][-1] in ("tool", "user")
    if wire is ANTHROPIC:
        assert sent(history, wire).request["messages"][-1]["content"][0]["is_error"] is True


@both
def test_result_whose_call_was_cut_off(wire: Wire) -> None:
    """A view of the last messages can begin with a result: it answers no call of the request and is dropped."""
    history = view(reply("", "t1"), result("t1"), user("b"), last=2)
    assert messages(history, wire) == [("user", ["b"])]
    assert changes(history, wire) == [(2, "result that answers no call dropped")]


def test_first_message() -> None:
    """Where the user has to begin, a user message is added before the first, and points move past it with that."""
    history = view(assistant("a", first_message="hello"), user("a"))
    assert [role for role, _ in messages(history, OPENAI)] == ["assistant", "user"]
    assert [role for role, _ in messages(history, ANTHROPIC)] == ["user", "assistant", "user"]
    assert changes(history, ANTHROPIC) == [(1, "user message added before the first: the user has to begin")]
    assert moved(history, ANTHROPIC, System(), Messages(1)) == [System(), Messages(2)]


@both
def test_nothing_to_say(wire: Wire) -> None:
    """A request has a message even if nothing is said, or only a prompt where that stands apart."""
    for history in (NOTHING, view(assistant("a", "p")), view(user(""))):
        assert sent(history, wire).request["messages"]
    assert [what for _, what in changes(NOTHING, wire)] == ["user message added: nothing else is said"]


@both
def test_adjacent_messages(wire: Wire) -> None:
    """Adjacent user messages are joined on both wires; assistants' where user and assistant take turns."""
    history = view(user("a"), user("b"), reply("c"), reply("d"), user("e"))
    expected = [("user", ["a", "b"]), ("assistant", ["c"]), ("assistant", ["d"]), ("user", ["e"])]
    if wire is ANTHROPIC:
        expected[1:3] = [("assistant", ["c", "d"])]
    assert messages(history, wire) == expected


def test_names_of_speakers() -> None:
    """OpenAI takes a speaker's name, made legal, and different speakers are not joined; Anthropic takes none."""
    history = view(user("a", name="Zoë"), user("b", name="Bo"), user("c", name="Bo"))
    request = sent(history, OPENAI).request
    assert [message["name"] for message in request["messages"]] == ["Zo_", "Bo"]
    assert changes(history, OPENAI)[0] == (1, "name 'Zoë' written as Zo_")
    assert (1, "name 'Zoë' dropped") in changes(history, ANTHROPIC)


@both
def test_legal_ids(wire: Wire) -> None:
    """Every call has an id of its own that the provider takes, and its result the same."""
    long = "x" * 200
    events = [user("a")]
    for id in ("t1", "t1", "a b", "a_b", long, long):
        events += [called(id), result(id)]
    request = sent(view(*events), wire).request
    ids = [
        item["id"]
        for message in request["messages"]
        for item in [*message.get("content", ()), *message.get("tool_calls", ())]
        if "id" in item
    ]
    assert ids[:4] == ["t1", "t1_2", "a_b", "a_b_2"]
    assert ids[4:] == ["x" * wire.id_length, "x" * (wire.id_length - 2) + "_2"]


@both
def test_legal_tool_names(wire: Wire) -> None:
    """A tool and its calls get the same legal name; names that would meet stay apart; tools told twice are one."""
    tools = [{"name": "a.b"}, {"name": "a_b"}, {"name": "a.b"}, {"name": "n" * 70}]
    history = view(assistant("a", tools=tools), user("a"), called("t1", "a_b"), result("t1"))
    request = sent(history, wire).request
    names = [tool.get("function", tool)["name"] for tool in request["tools"]]
    assert names == ["a_b", "a_b_2", "n" * 64]
    call = request["messages"][1].get("tool_calls") or request["messages"][1]["content"]
    assert call[0].get("function", call[0])["name"] == "a_b_2"
    assert (1, "tool 'a.b' named a_b") in changes(history, wire)


@both
def test_empty_result(wire: Wire) -> None:
    """An empty result still answers its call, with words for it."""
    history = view(user("a"), reply("", "t1"), result("t1", ""), user("b"))
    assert (3, "empty result written as (no content)") in changes(history, wire)
    assert moved(history, wire, Messages(3), Messages(4))[-1] == moved(history, wire, Messages(4))[0]


@both
def test_summaries_are_messages(wire: Wire) -> None:
    """A summary is a message of its role."""
    for role in ("user", "assistant", "system"):
        history = view(user("a"), reply("b"), summary("s", 1, 2, role=role), user("c"))
        request = sent(history, wire).request
        told = [(message["role"], message["content"][0]["text"]) for message in request["messages"]]
        told += [("system", block["text"]) for block in request.get("system", ())]
        assert (role, "s") in told


@both
def test_calls_of_others_than_assistants(wire: Wire) -> None:
    """Only an assistant calls: the calls of another's message are dropped, and so is what answers them."""
    history = view(
        {"type": "message", "role": "user", "content": "a", "tool_calls": called()["tool_calls"]}, result("t1")
    )
    assert messages(history, wire) == [("user", ["a"])]
    assert changes(history, wire) == [
        (1, "calls of a user message dropped"),
        (2, "result that answers no call dropped"),
    ]


@both
def test_to_dict(wire: Wire) -> None:
    """What is printed has the request, the moved points in their JSON form, and each change with its version."""
    adapted = adapt(view(user("a"), user("b"), to("c")), wire, [System(), Within(0, 1)])
    document = adapted.to_dict()
    assert document["request"] == adapted.request
    assert document["cache_points"] == ["System", {"Within": {"message": 0, "items": 1}}]
    assert document["changes"] == [{"version": 2, "what": "joined to the user message before it"}]
