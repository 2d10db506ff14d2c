"""Rules 4, 7 and 9 of DESIGN section 4 by example, beyond what the vectors show."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from views import (
    DELETE,
    IMAGE,
    REMOVE,
    ROLLING,
    SHARED,
    SWAP,
    Event,
    assistant,
    clear,
    hidden,
    note,
    problems,
    reply,
    result,
    rewind,
    summary,
    texts,
    to,
    user,
    view,
)

from turnlog.projections import MODES

LOOK = [{"type": "text", "text": "look"}, IMAGE, {"type": "text", "text": ""}]
SAID_TEXT = {"type": "userAndAssistantMessages"}
EARLIER = {"type": "previousAssistantMessages"}
CALL_T2 = [{"id": "t2", "name": "f", "arguments": "{}"}]


def newest(count: int) -> dict[str, Any]:
    return {"type": "lastNMessages", "maxMessages": count}


# Rules 4.1 and 4.2: destination message, context

RICH: Sequence[Event] = (
    assistant("a", "SA", first_message="hi"),
    user("1"),
    note("n"),
    summary("s", role="system"),
    reply(LOOK, "c1"),
    result("c1"),
    reply([IMAGE]),
)


@pytest.mark.parametrize(
    ("context", "left"),
    [
        ({"type": "all"}, ["hi", "1", "n", "s", LOOK, "r", [IMAGE], "bye"]),
        (newest(100), ["hi", "1", "n", "s", LOOK, "r", [IMAGE], "bye"]),
        (newest(6), ["n", "s", LOOK, "r", [IMAGE], "bye"]),
        (newest(3), [[IMAGE], "bye"]),
        (newest(1), ["bye"]),
        (newest(0), []),
        (SAID_TEXT, ["hi", "1", "s", [LOOK[0]], "bye"]),
        (EARLIER, []),
        ({"type": "none"}, []),
    ],
)
@pytest.mark.parametrize("mode", [ROLLING, SWAP, REMOVE])
def test_context(context: dict[str, Any], left: list[Any], mode: str) -> None:
    """A context filters the scope's messages, the destination message included and the prompts aside, in every mode."""
    kept = texts(*RICH, to("b", mode, "SB", message="bye", context=context))
    assert kept == (["SA", *left, "SB"] if mode == ROLLING else ["SB", *left])


@pytest.mark.parametrize("mode", [ROLLING, SWAP, REMOVE])
def test_a_transcript_is_the_text_of_an_audio(mode: str) -> None:
    """`userAndAssistantMessages` keeps the text and nothing else: of an audio its transcript, of one without nothing.

    An audio is another part than text even if it has a transcript, so that the message becomes text alone.
    """
    heard, silent = {"type": "audio", "data": "d", "transcript": "heard"}, {"type": "audio", "data": "d"}
    log = (reply([heard]), reply([heard, silent]), reply([silent]), to("b", mode, context=SAID_TEXT))
    only = [{"type": "text", "text": "heard"}]
    assert texts(*log) == [only, only]
    assert hidden(*log) == ["3 message: context:userAndAssistantMessages by 4"]
    assert texts(*log, at=3) == [[heard], [heard, silent], [silent]]


def test_context_is_told() -> None:
    """What a context drops is hidden by `context:<type>`, a call of a message that stays with its id."""
    log = (*RICH, to("b", message="bye", context=SAID_TEXT))
    by = "context:userAndAssistantMessages by 8"
    assert hidden(*log) == [f"3 message: {by}", f"5 message: {by}, call c1", f"6 message: {by}", f"7 message: {by}"]
    assert problems(*log) == []


def test_context_does_not_filter_a_deletion() -> None:
    """With delete-history no context is applied: everything is hidden by the mode."""
    log = (*RICH, to("b", DELETE, "SB", message="bye", context={"type": "none"}))
    assert texts(*log) == ["SB"]
    assert {entry.split(": ")[1] for entry in hidden(*log)} == {f"transfer:{DELETE} by 8"}


@pytest.mark.parametrize("message", [None, ""])
def test_no_destination_message(message: str | None) -> None:
    """An empty destination message is not appended, so it does not count either."""
    assert texts(user("1"), user("2"), to("b", message=message, context=newest(1))) == ["2"]


ERA: Sequence[Event] = (
    user("0"),
    assistant("a", "SA", first_message="hi"),
    note("n"),
    to("b", system="SB", message="to b", first_message="yo"),
    user("1"),
)
LEAVE = to("c", message="to c", context=EARLIER)


@pytest.mark.parametrize(
    ("meanwhile", "left"),
    [
        ([], ["SA", "0", "hi", "n", "to b", "SB"]),
        ([summary("s", 1, 1)], ["SA", "s", "hi", "n", "to b", "SB"]),
        ([summary("s", 1, 5)], ["SA", "n", "SB"]),
        ([clear()], ["SA", "SB"]),
        ([user("m", **SHARED)], ["SA", "0", "hi", "n", "to b", "SB", "m"]),
        ([assistant("b", first_message="me")], ["SA", "0", "hi", "n", "to b", "SB"]),
        ([to("b")], ["SA", "0", "hi", "n", "to b", "SB", "yo", "1", "SB"]),
    ],
)
def test_previous_assistant_messages(meanwhile: list[Event], left: list[str]) -> None:
    """It keeps what was visible before the outgoing assistant's own prompt, and summaries of only that."""
    assert texts(*ERA, *meanwhile, LEAVE) == left


def test_previous_assistant_messages_of_nobody() -> None:
    """It keeps nothing if no assistant was active, after a rewind to before the first one too."""
    assert texts(user("1"), to("b", context=EARLIER)) == []
    assert texts(user("1"), assistant("a"), user("2"), rewind(1), to("b", context=EARLIER)) == []


# Rule 4.3: modes


def test_swap_hides_every_prompt() -> None:
    """A swap hides the prompts of earlier rolling transfers too, and no note."""
    log = (assistant("a", "SA"), to("b", system="SB"), note("n"), to("c", SWAP, "SC"))
    assert texts(*log) == ["SC", "n"]
    assert hidden(*log) == [f"1 prompt: transfer:{SWAP} by 4", f"2 prompt: transfer:{SWAP} by 4"]


def test_removes_the_calls_of_earlier_transfers() -> None:
    """Removing takes the calls of every earlier transfer, whatever its mode, each with the result that answers it."""
    first = (reply("", "t1", "c1"), result("t1", "1"), result("c1", "2"), to("b", tool_call_id="t1"))
    second = (reply("", "t2"), result("t2", "3"), to("c", REMOVE, tool_call_id="t2"))
    log = (*first, *second)
    assert texts(*log) == ["", "2"]
    rule = f"transfer:{REMOVE} by 7"
    told = [f"1 message: {rule}, call t1", *(f"{version} message: {rule}" for version in (2, 5, 6))]
    assert hidden(*log) == told
    assert texts(*log, modes={7: SWAP}) == ["", "1", "2", "", "3"]


TWICE = (reply("first", "t1"), result("t1", "1"), reply("second", "t1"), result("t1", "2"))


@pytest.mark.parametrize(
    ("log", "left"),
    [
        ((*TWICE, to("b", REMOVE, tool_call_id="t1")), {1: ["t1"], 2: [], 3: []}),
        ((*TWICE[:2], to("b", tool_call_id="t1"), *TWICE[2:], to("c", REMOVE)), {1: [], 4: ["t1"], 5: []}),
        ((*TWICE, to("b", REMOVE)), {1: ["t1"], 2: [], 3: ["t1"], 4: []}),
        ((*TWICE, to("b", REMOVE, tool_call_id="t2")), {1: ["t1"], 2: [], 3: ["t1"], 4: []}),
        ((*TWICE, to("b", tool_call_id="t1"), rewind(4), to("c", REMOVE)), {1: ["t1"], 2: [], 3: ["t1"], 4: []}),
        ((*TWICE, summary("s", 3, 4), to("b", REMOVE, tool_call_id="t1")), {1: [], 5: []}),
        ((*TWICE, to("b", tool_call_id="t1"), summary("s", 3, 4), to("c", REMOVE)), {1: ["t1"], 2: [], 6: []}),
        ((reply("", "t1", "t1"), result("t1"), to("b", REMOVE, tool_call_id="t1")), {1: ["t1"], 2: []}),
    ],
    ids=["nearest", "nearest-then", "no-id", "other-id", "abandoned", "visible-then", "gone-since", "in-one-turn"],
)
def test_which_call_a_transfer_removes(log: Sequence[Event], left: dict[int, list[str]]) -> None:
    """A transfer means the last visible call of its id that is open or answered by the latest result, and no other."""
    assert {found.version: [call.id for call in found.tool_calls] for found in view(*log)} == left


@pytest.mark.parametrize(("content", "stays"), [("", False), ([], False), ([LOOK[2]], False), ([IMAGE], True)])
def test_emptied_message_is_hidden(content: Any, stays: bool) -> None:
    """A message that loses its last call is hidden unless it has content, of whatever kind."""
    log = (reply(content, "t1"), result("t1"), to("b", REMOVE, tool_call_id="t1"))
    assert texts(*log) == ([content] if stays else [])


# Rules 4.4 and 4.5: the new assistant


@pytest.mark.parametrize("mode", MODES)
def test_place_of_the_prompt(mode: str) -> None:
    """The new prompt stands at the end for rolling-history, else at the head, before shared memory too."""
    found = texts(user("m", **SHARED), to("b", mode, "SB"), user("1"))
    assert found == (["m", "SB", "1"] if mode == ROLLING else ["SB", "m", "1"])


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("opening", "spoken"),
    [
        (None, ["yo"]),
        ("assistant-speaks-first", ["yo"]),
        ("assistant-speaks-first-with-model-generated-message", []),
        ("assistant-waits-for-user", []),
    ],
)
def test_first_message_mode(mode: str, opening: str | None, spoken: list[str]) -> None:
    """A first message, known from before, is appended only if the assistant speaks first, in every mode."""
    log = (assistant("a"), assistant("b", first_message="yo"), to("b", mode, first_message_mode=opening))
    assert texts(*log) == spoken


def test_said_empty_is_known_empty() -> None:
    """An empty prompt or first message replaces what was known, and adds nothing."""
    log = (assistant("a"), assistant("b", "SB", first_message="yo"), to("b", system="", first_message=""))
    found = view(*log)
    assert (found.messages, found.assistant) == ([], "b")
    assert texts(*log, to("a", SWAP), to("b", SWAP)) == []


# Rule 7: pairing


def test_repeated_ids() -> None:
    """A result answers the nearest earlier call of its id not yet answered; one too many is a duplicate."""
    calls = (reply("old", "c1"), reply("new", "c1"))
    answers = (result("c1", "1"), result("c1", "2"), result("c1", "3"))
    assert problems(*calls, answers[0]) == [(1, "unanswered-call", "c1")]
    assert texts(*calls, *answers) == ["old", "new", "1", "2"]
    assert hidden(*calls, *answers) == ["5 message: duplicate-result by 5"]
    assert problems(*calls, *answers) == [(5, "duplicate-result", None)]


def test_result_before_its_call() -> None:
    """A result answers no later call: it is an orphan, and the call stays unanswered."""
    log = (result("c1"), reply("", "c1"))
    assert hidden(*log) == ["1 message: orphan-result by 1"]
    assert problems(*log) == [(1, "orphan-result", None), (2, "unanswered-call", "c1")]


def test_a_result_belongs_to_its_call_for_good() -> None:
    """Once the call that a result answers is summarised, the result is hidden, and the next one answers the other."""
    log = (reply("", "c1"), reply("", "c1"), result("c1", "1"), summary("s", 2, 2), result("c1", "2"))
    assert (texts(*log), hidden(*log)[-1]) == (["", "s", "2"], "3 message: orphan-result by 4")


@pytest.mark.parametrize(
    ("handoff", "rule"),
    [
        (to("b", REMOVE, tool_call_id="t1"), f"transfer:{REMOVE}"),
        (to("b", DELETE), "orphan-result"),
        (to("b", context={"type": "none"}), "orphan-result"),
        (to("b", context=newest(0)), "orphan-result"),
        (to("b", context=SAID_TEXT), "context:userAndAssistantMessages"),
        (to("b", context=EARLIER), "orphan-result"),
    ],
)
@pytest.mark.parametrize("text", ["", "let me see"])
def test_late_result_of_a_removed_call(handoff: Event, rule: str, text: str) -> None:
    """A late result is hidden by what took its call or, if its call's whole message ended, by that as an orphan."""
    log = (reply(text, "t1"), handoff, result("t1"), result("t1"))
    assert hidden(*log)[-2:] == [f"3 message: {rule} by 2", "4 message: duplicate-result by 4"]
    assert problems(*log) == [(4, "duplicate-result", None)]


def test_removed_call_counts_at_its_place() -> None:
    """A late result goes to the nearest call of its id, whether that was removed or not."""
    log = (reply("1", "t1"), reply("2", "t1"), to("b", REMOVE, tool_call_id="t1"), result("t1"), result("t1", "late"))
    assert hidden(*log) == [f"2 message: transfer:{REMOVE} by 3, call t1", f"4 message: transfer:{REMOVE} by 3"]
    assert texts(*log) == ["1", "2", "late"]
    assert texts(*log[:3], reply("3", "t1"), result("t1")) == ["1", "2", "3", "r"]


@pytest.mark.parametrize(
    ("after", "rule"),
    [
        ([clear()], f"transfer:{REMOVE} by 2"),
        ([summary("s", 1, 1)], f"transfer:{REMOVE} by 2"),
        ([to("c", DELETE)], f"transfer:{REMOVE} by 2"),
        ([rewind(2)], f"transfer:{REMOVE} by 2"),
    ],
)
def test_removed_call_of_a_message_hidden_since(after: list[Event], rule: str) -> None:
    """A call that was taken takes its late result along, whatever ended its message afterwards."""
    log = (reply("let me see", "t1"), to("b", REMOVE, tool_call_id="t1"), *after, result("t1"))
    assert hidden(*log)[-1] == f"4 message: {rule}"


def test_removed_call_counts_for_later_results_only() -> None:
    """A result whose own call is gone does not go to a call that was removed before."""
    calls = (reply("1", "t1"), to("b", tool_call_id="t1"), reply("2", "t1"), result("t1"))
    log = (*calls, to("c", REMOVE), summary("s", 3, 3), result("t1", "late"))
    assert hidden(*log)[-2:] == ["4 message: orphan-result by 6", f"7 message: transfer:{REMOVE} by 5"]


def test_answered_call_does_not_count_once_removed() -> None:
    """A call that was answered before it was removed took its result along: a second result is a duplicate."""
    log = (reply("x", "t1"), result("t1"), to("b", REMOVE, tool_call_id="t1"), result("t1", "again"))
    assert (texts(*log), hidden(*log)[-1]) == (["x"], "4 message: duplicate-result by 4")


@pytest.mark.parametrize(
    ("log", "told"),
    [
        (
            (reply("", "t1"), reply("x", "t1"), result("t1"), to("b", context=SAID_TEXT), result("t1", "late")),
            "5 message: context:userAndAssistantMessages by 4",
        ),
        (
            (reply("", "t1"), to("b"), result("t1"), to("c", REMOVE, tool_call_id="t1", context=EARLIER), result("t1")),
            "5 message: duplicate-result by 5",
        ),
        (
            (reply("", "t2", "t1"), result("t1", tool_calls=CALL_T2), to("b", REMOVE, tool_call_id="t1"), result("t2")),
            "4 message: orphan-result by 3",
        ),
    ],
    ids=["its-result-to-come", "its-result-had-come", "call-of-a-result"],
)
def test_open_is_judged_before_the_transfer(log: Sequence[Event], told: str) -> None:
    """A result after a transfer is paired with what the path has, not with what the transfer left."""
    assert hidden(*log)[-1] == told


@pytest.mark.parametrize(("last", "left"), [(0, []), (1, ["2"]), (2, ["1", "2"]), (9, ["1", "2"])])
def test_last_counts_what_is_left(last: int, left: list[str]) -> None:
    """`last=n` keeps n messages from the end after pairing; what is hidden and wrong is told all the same."""
    log = (user("1"), result("c1"), user("2"), result("c2"))
    assert texts(*log, last=last) == left
    assert (hidden(*log, last=last), problems(*log, last=last)) == (hidden(*log), problems(*log))


# Rule 9: what if


def test_what_if_keeps_the_context() -> None:
    """A projected mode leaves the context as it was recorded, which a recorded deletion had not applied."""
    log = (assistant("a", "SA"), user("1"), user("2"), to("b", DELETE, "SB", context=newest(1)))
    assert texts(*log) == ["SB"]
    assert texts(*log, mode=SWAP) == texts(*log, mode=DELETE, modes={4: SWAP}) == ["SB", "2"]
    assert texts(*log, modes={3: SWAP, 99: SWAP}) == ["SB"]
    assert hidden(*log, mode=ROLLING) == ["2 message: context:lastNMessages by 4"]
