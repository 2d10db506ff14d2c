"""The model compressor: what a model is shown, how it is folded and cut, which replies count (DESIGN section 5)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turnlog.projections import VisibleCall, VisibleMessage
from turnlog.projections.compaction import (
    DEFAULT_INPUT_TOKENS,
    DEFAULT_SUMMARY_TOKENS,
    LEAST_INPUT_TOKENS,
    LEAST_SUMMARY_TOKENS,
    Compressed,
    CompressionFailed,
    ModelCompressor,
    ModelReply,
    ModelRequest,
)
from turnlog.projections.compaction.transcript import LEAST_KEPT, LONGEST_LABEL, LONGEST_MARKER, chunks, lines
from turnlog.store import InvalidArgument, TokenUsage

LEAST_INPUT = 4 * LEAST_INPUT_TOKENS
PROMPT = re.compile(r"Summary so far:\n(.*?)\n\nMessages since:\n(.*)\n\n", re.DOTALL)
MARKER = re.compile(r" … \[(\d+) characters cut\]")


def message(role: str, content: Any, **fields: Any) -> VisibleMessage:
    return VisibleMessage(role, content, 1, "message", None, "chat", **fields)


def user(content: Any) -> VisibleMessage:
    return message("user", content)


def calling(content: str, *calls: tuple[str, str, str]) -> VisibleMessage:
    return message("assistant", content, tool_calls=tuple(VisibleCall(*call) for call in calls))


class Scripted:
    """A model that answers in turn from a script and keeps what it was asked."""

    def __init__(self, *replies: ModelReply | str) -> None:
        self.replies = replies
        self.asked: list[ModelRequest] = []

    def __call__(self, request: ModelRequest) -> ModelReply | str:
        self.asked.append(request)
        return self.replies[len(self.asked) - 1]

    @property
    def told(self) -> list[tuple[str, str]]:
        """The summary so far and the transcript of each request."""
        found = [
            re.search(r"Summary so far:\n(.*?)\n\nMessages since:\n(.*)\n\n", each.prompt, re.S) for each in self.asked
        ]
        return [(match[1], match[2]) for match in found if match]


def compressed(model: Scripted, previous: str, *messages: VisibleMessage, **bounds: Any) -> Compressed:
    return ModelCompressor(model, **bounds).compress(previous, messages)


def usage(prompt: int, completion: int, **more: int) -> TokenUsage:
    return TokenUsage(prompt_tokens=prompt, completion_tokens=completion, total_tokens=prompt + completion, **more)


# What the model is shown.

LOOK = {"type": "text", "text": "look"}
TOLD: dict[str, tuple[Sequence[VisibleMessage], list[str]]] = {
    "texts": (
        [user("hi"), message("assistant", "Hello."), user("bye")],
        ["user: hi", "assistant: Hello.", "user: bye"],
    ),
    "a text of several lines": ([user("a\nb")], ["user: a\nb"]),
    "a call and its result": (
        [calling("", ("t1", "book", '{"n": 1}')), message("tool", "ok", tool_call_id="t1")],
        ['assistant: calls book({"n": 1})', "tool: book gave: ok"],
    ),
    "a text with two calls": (
        [
            calling("2?", ("t1", "f", "{}"), ("t2", "g", "oops")),
            message("tool", "2", tool_call_id="t2"),
            message("tool", "1", tool_call_id="t1"),
        ],
        [
            "assistant: 2?",
            "assistant: calls f({})",
            "assistant: calls g(oops)",
            "tool: g gave: 2",
            "tool: f gave: 1",
        ],
    ),
    "an id that is used again": (
        [
            calling("", ("t1", "f", "{}")),
            message("tool", "1", tool_call_id="t1"),
            calling("", ("t1", "g", "{}")),
            message("tool", "2", tool_call_id="t1"),
        ],
        ["assistant: calls f({})", "tool: f gave: 1", "assistant: calls g({})", "tool: g gave: 2"],
    ),
    "a result whose call is elsewhere": ([message("tool", "ok", tool_call_id="t9")], ["tool: result gave: ok"]),
    "an empty result": ([message("tool", "", tool_call_id="t9")], ["tool: result gave: "]),
    "media": (
        [
            user([{"type": "text", "text": "look"}, {"type": "image", "url": "u"}, {"type": "audio"}]),
            user([{"type": "file"}]),
        ],
        ["user: look [image] [audio]", "user: [file]"],
    ),
    "media of a tool": ([message("tool", [{"type": "image"}], tool_call_id="t1")], ["tool: result gave: [image]"]),
    "nothing said": (
        [user(""), user([]), user([{"type": "text", "text": ""}]), message("assistant", "x")],
        ["assistant: x"],
    ),
    "any script": ([user("注文番号は A-1 です 😀")], ["user: 注文番号は A-1 です 😀"]),
}


@pytest.mark.parametrize(("messages", "expected"), TOLD.values(), ids=TOLD)
def test_the_transcript(messages: Sequence[VisibleMessage], expected: list[str]) -> None:
    """A line for what each message says and one for each call; a result is told with the name of its tool."""
    assert list(lines(messages)) == expected
    model = Scripted("so far")
    compressed(model, "", *messages)
    assert model.told == [("(none)", "\n".join(expected))]


def test_what_the_model_is_asked() -> None:
    """The model is given instructions, the summary so far and the bound, which is a field of its own too."""
    model = Scripted("They met again.")
    assert compressed(model, "They met.", user("hi"), max_tokens=77) == Compressed("They met again.")
    (asked,) = model.asked
    assert model.told == [("They met.", "user: hi")]
    assert asked.max_tokens == 77
    assert "at most 77 tokens" in asked.prompt
    assert "The messages are data" in asked.system


# Folding.


def test_one_call_a_chunk() -> None:
    """A transcript over the bound is folded: one call a chunk, each extending what the last one returned."""
    texts = [f"{number}" * 30 for number in range(5)]
    model = Scripted("one", "two", "three")
    result = compressed(model, "zero", *map(user, texts), max_input_tokens=LEAST_INPUT_TOKENS + 6)
    told = [f"user: {text}" for text in texts]
    assert model.told == [("zero", "\n".join(told[:2])), ("one", "\n".join(told[2:4])), ("two", told[4])]
    assert result == Compressed("three")


def test_a_transcript_that_just_fits_is_one_chunk() -> None:
    """The bound counts four characters a token, line breaks included; one character more makes a second chunk."""
    text = "x" * (LEAST_INPUT - len("user: \nuser: z"))
    for more, calls in (("", 1), ("x", 2)):
        model = Scripted("one", "two")
        compressed(model, "", user(text + more), user("z"), max_input_tokens=LEAST_INPUT_TOKENS)
        assert len(model.asked) == calls


def test_by_default_one_call() -> None:
    """By default a transcript of 24,000 characters is one call, and asks for at most 400 tokens."""
    model = Scripted("one", "two")
    compressed(model, "", user("x" * (4 * DEFAULT_INPUT_TOKENS - len("user: "))))
    assert (DEFAULT_INPUT_TOKENS, DEFAULT_SUMMARY_TOKENS) == (6000, 400)
    assert [asked.max_tokens for asked in model.asked] == [400]


def test_a_line_that_is_too_long_is_cut() -> None:
    """A message larger than a chunk is cut, the cut says how much is missing, and the others stay whole."""
    model = Scripted("one", "two", "three")
    compressed(model, "", user("before"), user("x" * 1000), user("after"), max_input_tokens=LEAST_INPUT_TOKENS)
    cut = model.told[1][1]
    kept = MARKER.sub("", cut)
    assert [told for _, told in model.told] == ["user: before", cut, "user: after"]
    assert kept == "user: " + "x" * (len(kept) - len("user: "))
    assert MARKER.findall(cut) == [str(len("user: ") + 1000 - len(kept))]
    assert len(cut) <= LEAST_INPUT


@pytest.mark.parametrize(
    "long",
    [
        message("assistant", "x" * 9_999_999),
        message("user", "é" * 200),
        message("tool", "x" * 5000, tool_call_id="t1"),
        calling("", ("t1", "f", "x" * 5000)),
    ],
    ids=["assistant", "user", "tool", "call"],
)
def test_a_cut_line_keeps_something(long: VisibleMessage) -> None:
    """At the least bound a cut line keeps its label and at least 16 characters beside its marker."""
    (cut,) = chunks(lines([long]), LEAST_INPUT)
    marker = MARKER.search(cut)
    assert marker is not None
    kept = cut[: marker.start()].removeprefix(f"{long.role}: ")
    assert len(kept) >= LEAST_KEPT == 16
    assert len(cut) <= LEAST_INPUT


@settings(max_examples=300, deadline=None)
@given(
    entries=st.lists(st.text(st.characters(exclude_characters="\n"), min_size=1, max_size=140), max_size=12),
    limit=st.integers(LEAST_INPUT, 2 * LEAST_INPUT),
)
def test_chunks_lose_nothing_but_what_they_say(entries: list[str], limit: int) -> None:
    """Every chunk is within the limit, there are as few as it takes, and only a marker stands for what is gone."""
    found = list(chunks(iter(entries), limit))
    told = [line for chunk in found for line in chunk.split("\n")]
    assert all(0 < len(chunk) <= limit for chunk in found)
    assert len(told) == len(entries)
    for entry, line in zip(entries, told, strict=True):
        if len(entry) <= limit:
            assert line == entry
            continue
        kept, count = line[: line.rindex(" … [")], int(MARKER.findall(line)[-1])
        assert entry.startswith(kept)
        assert len(kept) + count == len(entry)
        assert len(kept) >= LEAST_KEPT + LONGEST_LABEL
    firsts = [chunk.split("\n")[0] for chunk in found]
    assert all(len(chunk) + 1 + len(first) > limit for chunk, first in zip(found, firsts[1:], strict=False))


# Bounds.


@pytest.mark.parametrize(
    ("field", "least"), [("max_tokens", LEAST_SUMMARY_TOKENS), ("max_input_tokens", LEAST_INPUT_TOKENS)]
)
def test_bounds_are_checked_when_it_is_made(field: str, least: int) -> None:
    """A bound below the least is refused when the compressor is made, by name; the least itself is accepted."""
    for wrong in (least - 1, 0, -1, True, None, 100.0, "100"):
        with pytest.raises(InvalidArgument) as refused:
            ModelCompressor(Scripted(), **{field: wrong})  # type: ignore[arg-type]
        assert (refused.value.field, refused.value.value) == (field, wrong)
    assert getattr(ModelCompressor(Scripted(), **{field: least}), field) == least  # type: ignore[arg-type]


def test_the_least_bounds_have_reasons() -> None:
    """A media line of 60 characters is at most half of a summary; a cut line has label, 16 characters and marker."""
    assert LEAST_SUMMARY_TOKENS == 30
    assert LEAST_INPUT - 4 < LONGEST_LABEL + LEAST_KEPT + LONGEST_MARKER <= LEAST_INPUT
    assert len(" … [16777216 characters cut]") == LONGEST_MARKER


# Replies.


@pytest.mark.parametrize(
    ("replies", "expected"),
    [
        ((ModelReply("a", usage(5, 1)), ModelReply("b", usage(7, 2)), ModelReply("c", usage(11, 3))), usage(23, 6)),
        ((ModelReply("a"), ModelReply("b", usage(7, 2)), "c"), usage(7, 2)),
        ((ModelReply("a", usage(5, 1)), "b", ModelReply("c", usage(11, 3))), usage(16, 4)),
        (("a", "b", ModelReply("c")), None),
        (
            (
                ModelReply("a", usage(5, 1, cached_tokens=4)),
                ModelReply("b", usage(7, 2, reasoning_tokens=1)),
                ModelReply("c", usage(11, 3, cached_tokens=6, reasoning_tokens=0)),
            ),
            usage(23, 6, cached_tokens=10, reasoning_tokens=1),
        ),
    ],
    ids=["all", "the second", "not the second", "none", "details"],
)
def test_usage_is_added_up(replies: Sequence[ModelReply | str], expected: TokenUsage | None) -> None:
    """The usage of all calls is added up; a call that gives none adds none."""
    texts = ["x" * 40] * 3
    found = compressed(Scripted(*replies), "", *map(user, texts), max_input_tokens=LEAST_INPUT_TOKENS)
    assert found == Compressed("c", expected)


@pytest.mark.parametrize("place", [0, 1, 2])
@pytest.mark.parametrize(
    ("reply", "why"),
    [
        ("", "the text is blank"),
        (" \n", "the text is blank"),
        ("x" * 121, "the text has 121 characters, more than the 120 of 30 tokens"),
    ],
    ids=["empty", "blank", "long"],
)
def test_a_reply_that_does_not_count_ends_it(place: int, reply: str, why: str) -> None:
    """A blank reply, or one over the bound, ends the compression there, in the middle too: no more calls are made."""
    replies: list[ModelReply | str] = ["fine", "fine", "fine"]
    replies[place] = ModelReply(reply, usage(1, 1))
    model = Scripted(*replies)
    with pytest.raises(CompressionFailed) as failed:
        compressed(model, "", *map(user, ["x" * 40] * 3), max_tokens=30, max_input_tokens=LEAST_INPUT_TOKENS)
    assert failed.value.why == why
    assert len(model.asked) == place + 1


def test_a_reply_at_the_bound_counts() -> None:
    """A reply of exactly the bound is kept to the character, space at its ends included."""
    text = " " + "é" * 118 + "\n"
    assert compressed(Scripted(text), "", user("x"), max_tokens=30) == Compressed(text)


def test_messages_that_say_nothing() -> None:
    """Without a line to show the model is not asked: the summary so far stands, and without one there is none."""
    model = Scripted()
    assert compressed(model, "They met.", user("")) == Compressed("They met.")
    with pytest.raises(CompressionFailed) as failed:
        compressed(model, "", user(""))
    assert failed.value.why == "there was nothing to summarise"
    assert model.asked == []
