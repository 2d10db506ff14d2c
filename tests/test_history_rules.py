"""The rules of DESIGN section 4 by example, beyond what the vectors show; test_transfer_rules.py has 4, 7 and 9."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta, timezone
from itertools import count
from typing import Any

import pytest
from views import (
    DELETE,
    IMAGE,
    REMOVE,
    SHARED,
    SWAP,
    Event,
    assistant,
    clear,
    event,
    hidden,
    note,
    problems,
    redact,
    reply,
    result,
    rewind,
    summary,
    texts,
    to,
    told,
    user,
    view,
)

from turnlog.projections import MODES, history
from turnlog.store import InvalidArgument, NotFound, Store

# What is asked for


def test_time_is_the_last_version_recorded_by_then(monkeypatch: pytest.MonkeyPatch) -> None:
    """`at` as a time, in any zone, is the last version recorded by then, and 0 before the first."""
    seconds = count(1_700_000_000)
    monkeypatch.setattr("time.time_ns", lambda: next(seconds) * 10**9)
    with Store(":memory:") as store:
        for batch in ([user("1"), user("2")], [user("3")]):
            store.append("c", batch)
        first, second, third = (found.recorded_at for found in store.events("c"))
        assert first == second < third
        tick = timedelta(microseconds=1)
        elsewhere = third.astimezone(timezone(timedelta(hours=5, minutes=30)))
        times = (first - tick, first, third - tick, third, elsewhere, third + tick)
        assert [history(store, "c", at=time).version for time in times] == [0, 2, 2, 3, 3, 3]
        assert list(history(store, "c", at=first - tick)) == []


@pytest.mark.parametrize(
    ("query", "kind", "value"),
    [
        ({"conversation": "other"}, "conversation", "other"),
        ({"at": 2}, "version", 2),
        ({"at": -1}, "version", -1),
        ({"scope": "planner"}, "scope", "planner"),
        ({"scope": "cha"}, "scope", "cha"),
    ],
)
def test_what_does_not_exist(query: dict[str, Any], kind: str, value: object) -> None:
    """Asking for a conversation, version or scope that does not exist is `NotFound`, naming it."""
    with Store(":memory:") as store:
        store.append("c", [user("1")])
        with pytest.raises(NotFound) as refused:
            history(store, **{"conversation": "c"} | query)
    assert (refused.value.kind, refused.value.value) == (kind, value)


@pytest.mark.parametrize(
    ("query", "field", "value"),
    [
        ({"mode": "swap"}, "mode", "swap"),
        ({"modes": {1: "swap"}}, "modes.1", "swap"),
        ({"last": -1}, "last", -1),
        ({"at": datetime(2026, 1, 1)}, "at", "2026-01-01T00:00:00"),
    ],
)
def test_what_makes_no_sense(query: dict[str, Any], field: str, value: object) -> None:
    """An unknown mode, a negative `last` and a time without a zone are refused, naming the field and the value."""
    with pytest.raises(InvalidArgument) as refused:
        view(user("1"), **query)
    assert (refused.value.field, refused.value.value) == (field, value)


def test_described_scope_exists() -> None:
    """A scope that a describe event lists can be viewed, and no other scope is part of it."""
    log = (event("describe", scopes=["agent_1"]), user("1", scope="agent_1"), user("2", scope="agent"))
    assert texts(*log, scope="agent_1") == ["1"]


def test_provenance() -> None:
    """Every visible message carries the event that placed it, its origin and its assistant."""
    log = (
        assistant("a", "SA", first_message="hi"),
        user("1"),
        event("request", at=2),
        event("response", request=3, status="completed", response="2"),
        reply("3", assistant="helper"),
        to("b", system="SB", message="bye", first_message="yo"),
        summary("s"),
        user("m", **SHARED),
        to("a"),
    )
    assert [(found.version, found.origin, found.assistant) for found in view(*log)] == [
        (1, "prompt", "a"),
        (1, "first_message", "a"),
        (2, "message", "a"),
        (4, "response", "a"),
        (5, "message", "helper"),
        (6, "destination_message", "a"),
        (6, "prompt", "b"),
        (6, "first_message", "b"),
        (7, "summary", "b"),
        (8, "message", None),
        (9, "prompt", "a"),
        (9, "first_message", "a"),
    ]


def test_hidden_names_what_hid_it_first() -> None:
    """A hidden message is told once, with the rule and the event that hid it first."""
    log = (user("1"), user("2"), summary("s", 1, 1), clear(), to("b", DELETE))
    assert hidden(*log) == ["1 message: summary by 3", "2 message: clear by 4", "3 summary: clear by 4"]


# Rule 1: path


def test_rewind_to_an_abandoned_version() -> None:
    """A rewind to an abandoned version takes that path up again, and abandons the other."""
    log = (user("1"), user("2"), user("3"), rewind(1), user("5"), rewind(3))
    assert (texts(*log, at=5), texts(*log)) == (["1", "5"], ["1", "2", "3"])
    assert hidden(*log, at=5) == ["2 message: rewind by 4", "3 message: rewind by 4"]
    assert hidden(*log) == ["5 message: rewind by 6"]


def test_rewind_to_a_rewind() -> None:
    """A rewind to the version of another puts the path back to what that one made it."""
    log = (user("1"), user("2"), rewind(1), user("4"), rewind(3))
    assert (texts(*log), hidden(*log)) == (["1"], ["2 message: rewind by 3", "4 message: rewind by 5"])


def test_rewind_undoes_all_but_what_has_no_path() -> None:
    """A rewind undoes transfers, what they said of an assistant, clears and summaries, but no redaction."""
    log = (assistant("a", "SA"), user("1"), to("b", SWAP, "SB"), summary("s", 2, 2), clear(), redact(2), rewind(2))
    assert texts(*log) == ["SA", "[redacted]"]
    assert view(*log).assistant == "a"
    assert texts(*log, to("b", SWAP)) == ["[redacted]"]


def test_rewind_of_all() -> None:
    """A rewind without a scope goes back in every scope and in shared memory."""
    log = (user("1"), user("x", scope="coder"), user("m", **SHARED), user("2"), rewind(2))
    assert [texts(*log, scope=scope) for scope in ("chat", "coder", "shared_memory")] == [["1"], ["x"], []]
    assert hidden(*log) == ["3 message: rewind by 5", "4 message: rewind by 5"]


# Rule 2: scope


@pytest.mark.parametrize(
    "touch",
    [
        clear(),
        summary("s", 1, 2),
        rewind(0, scope="chat"),
        *(to("b", mode) for mode in MODES),
        *(
            to("b", context={"type": kind})
            for kind in ("none", "userAndAssistantMessages", "previousAssistantMessages")
        ),
        to("b", context={"type": "lastNMessages", "maxMessages": 0}),
    ],
)
def test_shared_memory_outlives_its_scopes(touch: Event) -> None:
    """Nothing of another scope hides or changes a shared item, its calls included."""
    shared = view(reply([IMAGE], "c1", **SHARED), user("1"), touch).messages[0]
    assert (shared.version, shared.content, [call.id for call in shared.tool_calls]) == (1, [IMAGE], ["c1"])


@pytest.mark.parametrize(
    ("touch", "left"),
    [
        (clear(**SHARED), []),
        (summary("s", 1, 2, **SHARED), ["s"]),
        (rewind(0, **SHARED), []),
        (redact(1), ["[redacted]"]),
    ],
)
def test_shared_memory_is_touched_by_its_own(touch: Event, left: list[str]) -> None:
    """A clear, summary or rewind of shared memory, and a redaction, are seen in every scope and touch no other item."""
    log = (user("m", **SHARED), user("1"), touch)
    assert [texts(*log, scope=scope) for scope in ("chat", "coder", "shared_memory")] == [[*left, "1"], left, left]


def test_pairing_across_shared_memory() -> None:
    """A shared call is paired in each view on its own: answered where the result is, open where it is not."""
    log = (reply("", "c1", **SHARED), result("c1"), result("c1", scope="coder"), result("c1", scope="coder"))
    assert problems(*log) == []
    assert problems(*log, scope="coder") == [(4, "duplicate-result", None)]
    assert problems(*log, scope="shared_memory") == [(1, "unanswered-call", "c1")]


def test_transfer_leaves_shared_calls_and_results() -> None:
    """Removing takes no shared call, and ends no shared result, which rule 7 hides with its own call."""
    assert texts(reply("m", "t1", **SHARED), result("t1"), to("b", REMOVE, tool_call_id="t1")) == ["m", "r"]
    log = (reply("", "t1"), result("t1", **SHARED), to("b", REMOVE, tool_call_id="t1"))
    assert hidden(*log) == [f"1 message: transfer:{REMOVE} by 3", f"2 message: transfer:{REMOVE} by 3"]


# Rule 3: assistant


def test_known_field_by_field() -> None:
    """Each field of an assistant is the latest that an assistant or transfer event said of it."""
    tools = [{"name": "refund"}]
    log = (
        assistant("a", "SA"),
        assistant("b", "old", tools=tools, first_message="yo"),
        assistant("b", "SB"),
        to("b"),
        to("a", SWAP),
        to("b", SWAP, first_message="me again"),
    )
    first, last = view(*log, at=4), view(*log)
    assert [found.content for found in first] == ["SA", "SB", "yo"]
    assert [found.content for found in last] == ["SB", "yo", "me again"]
    assert [(found.assistant, found.tools) for found in (first, last)] == [("b", tools)] * 2


def test_declaring_another_only_makes_it_known() -> None:
    """An assistant declared while another is active adds nothing and does not become active."""
    found = view(assistant("a", "SA"), assistant("b", "SB", first_message="yo", tools=[{"name": "f"}]))
    assert ([message.content for message in found], found.assistant, found.tools) == (["SA"], "a", [])


def test_first_declared_prompt_is_at_the_head() -> None:
    """The first one's prompt stands before everything, shared memory too; its first message is appended."""
    assert texts(user("m", **SHARED), user("1"), assistant("a", "SA", first_message="hi")) == ["SA", "m", "1", "hi"]


@pytest.mark.parametrize(
    ("declared", "again", "expected", "gone"),
    [
        ("", "", ["1"], []),
        (None, "S2", ["S2", "1"], []),
        ("", "S2", ["S2", "1"], []),
        ("S1", "", ["1"], ["1 prompt: assistant by 3"]),
        ("S1", None, ["S1", "1"], []),
    ],
)
def test_declared_again(declared: str | None, again: str | None, expected: list[str], gone: list[str]) -> None:
    """Only a `system` replaces the active one's prompt, at the head if it has none; nothing is spoken."""
    log = (assistant("a", declared), user("1"), assistant("a", again, first_message="hi", tools=[{"name": "f"}]))
    assert (texts(*log), hidden(*log), view(*log).tools) == (expected, gone, [{"name": "f"}])


def test_declared_again_replaces_its_newest_prompt() -> None:
    """Of several prompts the newest of the active one is replaced, in its place; without one it is placed at the end
    after a rolling transfer."""
    log = (assistant("a", "S1"), user("1"), to("a", system="S2"), user("2"), assistant("a", "S3"))
    assert (texts(*log), hidden(*log)) == (["S1", "1", "S3", "2"], ["3 prompt: assistant by 5"])
    assert texts(assistant("a", "SA"), to("b"), assistant("b", "SB")) == ["SA", "SB"]


# Rules 5 and 6: summary, clear, response

TURN: Sequence[Event] = (assistant("a", "SA", first_message="hi"), reply("", "c1"), result("c1"), note("n"))


def test_summary_covers_every_kind_of_message() -> None:
    """A summary replaces results, first and destination messages too, at the place of the first; no prompt or note."""
    handoff = to("b", system="SB", message="bye", first_message="yo")
    assert texts(*TURN, handoff, user("1"), summary("s", 1, 5)) == ["SA", "s", "n", "SB", "1"]
    assert texts(handoff, summary("s", 1, 1)) == ["s", "SB"]


@pytest.mark.parametrize(
    ("inner", "outer", "expected"),
    [
        ((1, 2), (1, 2), ["new", "3"]),
        ((1, 2), (1, 3), ["new"]),
        ((1, 2), (2, 4), ["old", "new"]),
        ((1, 3), (2, 4), ["old"]),
        ((1, 3), (1, 2), ["old"]),
        ((None, None), (3, 4), ["1", "2", "new"]),
        ((None, None), (1, 3), ["new", "old"]),
    ],
)
@pytest.mark.parametrize("role", ["user", "assistant", "system"])
def test_summary_of_a_summary(inner: Any, outer: Any, expected: list[str], role: str) -> None:
    """An earlier summary of any role is covered when its whole range is; without one, when its own version is."""
    log = (user("1"), user("2"), user("3"), summary("old", *inner, role=role), summary("new", *outer))
    assert texts(*log) == expected


def test_summary_that_covers_nothing() -> None:
    """A range with nothing visible in it hides the summary itself, and is a problem; the same range served before."""
    log = (user("1"), summary("s", 1, 1), summary("late", 1, 1), clear(), summary("later", 1, 3))
    assert texts(*log, at=3) == ["late"]
    assert hidden(*log)[-1] == "5 summary: summary-covers-nothing-visible by 5"
    assert problems(*log) == [(5, "summary-covers-nothing-visible", None)]
    assert texts(assistant("a", "SA"), note("n"), summary("s", 1, 2)) == ["SA", "n"]


def test_clear_leaves_prompts_only() -> None:
    """A clear hides the scope's messages, notes and summaries; prompts stay."""
    log = (*TURN, summary("s"), to("b", system="SB", message="bye", first_message="yo"), clear())
    assert texts(*log) == ["SA", "SB"]
    assert {entry.split(": ")[1] for entry in hidden(*log)} == {"clear by 7"}


def test_response_calls_are_answered() -> None:
    """A completed response is an assistant message, its parts and calls included; no other status is."""
    calls = [{"id": "c1", "name": "f", "arguments": "{}"}]
    asked = {"request": 1, "response": [IMAGE], "tool_calls": calls}
    log = [event("request", at=0), event("response", status="completed", **asked), result("c1")]
    found = view(*log).messages
    assert [(message.role, message.content) for message in found] == [("assistant", [IMAGE]), ("tool", "r")]
    assert texts(log[0], event("response", status="processing", **asked), result("c1")) == []


# Rule 8: redaction

SAID: Sequence[Event] = (
    assistant("a", "SA", first_message="hi", tools=[{"name": "f", "description": "d"}]),
    user("1", name="Ann", meta={"k": "v"}, extra={"k": "v"}),
    reply([{"type": "text", "text": "t"}, IMAGE], "c1"),
    result("c1", name="f"),
    to("b", system="SB", message="bye", first_message="yo"),
    event("request", at=5),
    event("response", request=6, status="completed", response="ok"),
    summary("s"),
    reply("", "c2"),
)


@pytest.mark.parametrize("target", [1, 2, 3, 4, 5, 7, 8, 9])
@pytest.mark.parametrize("replacement", [None, "gone"])
def test_redaction_of_every_origin(target: int, replacement: str | None) -> None:
    """What a redacted event said is replaced wherever there was content; all else of the view stays as it was."""
    before, after = view(*SAID), view(*SAID, redact(target, replacement))
    shown = replacement or "[redacted]"
    assert [(found.version, found.origin, found.role, found.content) for found in after] == [
        (was.version, was.origin, was.role, shown if was.version == target and was.content else was.content)
        for was in before
    ]
    assert told(after) | {"messages": []} == told(before) | {"messages": []}


def test_redaction_leaves_the_frame() -> None:
    """Of a redacted event its names, ids and roles are left: no arguments, descriptions, person's name or meta."""
    found = view(*SAID, *(redact(version) for version in (1, 2, 3, 4)), at=4)
    _, _, said, called, answered = found.messages
    assert (said.name, said.meta, said.extra, said.redacted) == (None, None, None, True)
    assert [(call.id, call.name, call.arguments) for call in called.tool_calls] == [("c1", "f", "[redacted]")]
    assert (answered.tool_call_id, answered.name) == ("c1", "f")
    assert found.tools == [{"name": "f"}]


def test_redaction_wherever_the_content_is_used() -> None:
    """A redacted declaration is replaced where a later transfer speaks it, and at every point in time."""
    log = (assistant("a", "SA"), assistant("b", "SB", first_message="yo"), to("b"), to("b"), rewind(3), redact(2, "X"))
    assert [texts(*log, at=at) for at in (3, 4, 5, 6)] == [
        ["SA", "X", "X"],
        ["SA", "X", "X", "X", "X"],
        ["SA", "X", "X"],
        ["SA", "X", "X"],
    ]


def test_redacted_text_still_counts_as_text() -> None:
    """A redacted message keeps its place and its kind: a context that keeps text keeps it, and nothing without."""
    log = (user("1"), reply([IMAGE], "c1"), to("b", context={"type": "userAndAssistantMessages"}))
    assert texts(*log, redact(1), redact(2)) == ["[redacted]"]


@pytest.mark.parametrize(
    ("redactions", "shown"),
    [
        ([redact(1, "x"), redact(1, "y")], "y"),
        ([redact(1, "x"), redact(1)], "x"),
        ([redact(1), redact(1, "x"), redact(1)], "x"),
        ([redact(1, "x"), redact(1, "")], ""),
        ([redact(1, "x"), redact(2)], "[redacted]"),
        ([redact(1, ""), redact(2)], ""),
        ([redact(1, "x"), redact(2, "y")], "y"),
    ],
)
def test_several_redactions(redactions: list[Event], shown: str) -> None:
    """The latest replacement is shown; one that is itself redacted is replaced in turn."""
    assert texts(user("1"), *redactions) == texts(user("1"), *redactions, at=1) == [shown]
