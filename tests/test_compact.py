"""Compaction by example: what is covered and kept, what lands meanwhile, what fails (DESIGN section 5)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from views import REMOVE, SHARED, clear, event, note, reply, result, summary, to, user
from views import assistant as declared

from turnlog.formats import log as events_format
from turnlog.projections import VisibleMessage, history, problems, timeline
from turnlog.projections.compaction import (
    DEFAULT_KEEP,
    Compacted,
    Compressed,
    ModelCompressor,
    compact,
)
from turnlog.projections.compaction.digest import DigestCompressor
from turnlog.store import InvalidArgument, NotFound, Store, TokenUsage

Event = dict[str, Any]
CODER = {"scope": "coder"}
USAGE = TokenUsage(prompt_tokens=70, completion_tokens=7, total_tokens=77, cached_tokens=5)
TALK = [user("1"), reply("2"), user("3"), reply("4"), user("5"), reply("6")]


@dataclass
class Fake:
    """A compressor that notes what it is given, lets something happen meanwhile, and answers with its text."""

    text: str = "so far"
    usage: TokenUsage | None = None
    max_tokens: int = 100
    meanwhile: Callable[[], object] = lambda: None
    method: str = "fake"
    calls: list[tuple[str, list[int]]] = field(default_factory=list)

    def compress(self, previous: str, messages: Any) -> Compressed:
        self.calls.append((previous, [message.version for message in messages]))
        self.meanwhile()
        return Compressed(self.text, self.usage)


def exported(store: Store) -> list[str]:
    """The log as it is, to the byte."""
    return list(events_format.write(store, "c"))


def shown(message: VisibleMessage) -> str:
    """A message in one word: its text, or `prompt` and `summary` of how many."""
    if message.origin == "summary":
        return f"summary of {message.summary_of}"
    return str(message.content)


def seen(store: Store, scope: str = "chat") -> list[str]:
    return [shown(message) for message in history(store, "c", scope)]


def done(compacted: Compacted | None) -> tuple[int, int, int] | None:
    return None if compacted is None else (compacted.first, compacted.last, compacted.summary_of)


def made(store: Store, *events: Event, keep: int = 1, scope: str = "chat") -> tuple[int, int, int] | None:
    """Compact a new log: the range covered and the count."""
    store.append("c", events)
    return done(compact(store, "c", scope, Fake(), keep))


# What is covered and what is kept.


@pytest.mark.parametrize(
    ("keep", "covered", "visible"),
    [
        (0, (1, 6, 6), ["summary of 6"]),
        (1, (1, 4, 4), ["summary of 4", "5", "6"]),
        (2, (1, 2, 2), ["summary of 2", "3", "4", "5", "6"]),
        (3, None, ["1", "2", "3", "4", "5", "6"]),
        (4, None, ["1", "2", "3", "4", "5", "6"]),
    ],
)
def test_keeps_the_last_exchanges(store: Store, keep: int, covered: Any, visible: list[str]) -> None:
    """All but the last K exchanges are covered; with no more than K there is nothing to summarise."""
    assert made(store, *TALK, keep=keep) == covered
    assert seen(store) == visible
    assert store.version("c") == 6 + (covered is not None)


def test_keeps_four_exchanges_if_not_told(store: Store) -> None:
    """Four exchanges are kept by default."""
    store.append("c", [*TALK, user("7"), user("8")])
    assert DEFAULT_KEEP == 4
    assert done(compact(store, "c", "chat", Fake())) == (1, 2, 2)


def test_what_precedes_the_first_user_message_is_covered(store: Store) -> None:
    """First and destination messages before the exchanges that are kept are originals like any other."""
    greeting = declared("a", "You are a.", first_message="Hello!")
    handoff = to("b", system="You are b.", message="One moment.", first_message="b here.")
    assert made(store, greeting, user("help"), handoff, user("5")) == (1, 3, 4)
    assert seen(store) == ["You are a.", "summary of 4", "You are b.", "5"]


@pytest.mark.parametrize(("keep", "last"), [(0, 6), (1, 5)])
def test_prompts_notes_and_shared_memory_stay(store: Store, keep: int, last: int) -> None:
    """Prompts, notes and shared memory are neither covered nor given to the compressor."""
    store.append(
        "c", [declared("a", "prompt"), user("2"), note("note"), user("shared", **SHARED), reply("5"), user("6")]
    )
    compressor = Fake()
    assert done(compact(store, "c", "chat", compressor, keep)) == (2, last, last - 3)
    assert seen(store) == ["prompt", f"summary of {last - 3}", "note", "shared", "6"][: 4 + keep]
    assert compressor.calls == [("", [2, 5, 6][: last - 3])]


def test_shared_memory_is_compacted_alone(store: Store) -> None:
    """A compaction of shared memory covers that alone, in every scope's view."""
    store.append("c", [user("1"), user("A", **SHARED), reply("B", **SHARED), user("C", **SHARED), user("5", **CODER)])
    assert done(compact(store, "c", "shared_memory", Fake(), 1)) == (2, 3, 2)
    assert seen(store, "shared_memory") == ["summary of 2", "C"]
    assert seen(store) == ["1", "summary of 2", "C"]
    assert seen(store, "coder") == ["summary of 2", "C", "5"]


def test_a_scope_of_ones_own(store: Store) -> None:
    """A scope that a `describe` event lists is compacted like any other, and others stay as they are."""
    own = [each | {"scope": "research"} for each in TALK]
    assert made(store, event("describe", scopes=["research"]), *own, user("8"), scope="research") == (2, 5, 4)
    assert seen(store, "research") == ["summary of 4", "5", "6"]
    assert seen(store) == ["8"]


# Summaries of summaries.


def test_counts_originals_through_nested_summaries(store: Store) -> None:
    """`summary_of` counts original messages through three nested summaries: 31 after 20 and 11 more, not 12."""
    compressor = Fake()
    for number, originals in enumerate((20, 11, 5)):
        store.append("c", [user(str(number)) for number in range(originals)])
        compressor.text = f"summary {number}"
        compact(store, "c", "chat", compressor, 0)
    written = [(found.version, found.body) for found in store.events("c", types=["summary"])]
    assert [(version, body["first"], body["last"], body["summary_of"]) for version, body in written] == [
        (21, 1, 20, 20),
        (33, 1, 32, 31),
        (39, 1, 38, 36),
    ]
    assert compressor.calls == [
        ("", list(range(1, 21))),
        ("summary 0", list(range(22, 33))),
        ("summary 1", list(range(34, 39))),
    ]
    assert seen(store) == ["summary of 36"]


SUMMARY = summary("earlier") | {"summary_of": 14}


@pytest.mark.parametrize(
    ("events", "covered", "given"),
    [
        ([SUMMARY, *TALK[:3]], (1, 3, 16), ("earlier", [2, 3])),
        ([*TALK[:2], SUMMARY, reply("more"), user("5")], (1, 4, 17), ("earlier", [1, 2, 4])),
        ([SUMMARY, user("2"), SUMMARY | {"text": "later"}, user("4")], (1, 3, 29), ("earlier\nlater", [2])),
        ([SUMMARY | {"summary_of": 0}, *TALK[:3]], (1, 3, 2), ("earlier", [2, 3])),
    ],
    ids=["first", "in the middle", "two", "of none"],
)
def test_imported_summaries(store: Store, events: list[Event], covered: Any, given: Any) -> None:
    """A summary without a range is the summary so far wherever it stands, and counts what it says it counts."""
    store.append("c", events)
    compressor = Fake()
    assert done(compact(store, "c", "chat", compressor, 1)) == covered
    assert compressor.calls == [given]
    assert seen(store) == [f"summary of {covered[2]}", str(events[-1]["content"])]


def test_a_text_that_looks_like_a_summary_is_none(store: Store) -> None:
    """A summary is known by its type: what a user wrote is an original, whatever it looks like."""
    store.append("c", TALK)
    compact(store, "c", "chat", DigestCompressor(), 0)
    digest = history(store, "c").messages[0].content
    compressor = Fake()
    lookalike = user(str(digest), meta={"is_summary": True, "summary_of": 9})
    store.append("d", [lookalike, user("Summary so far:"), user("x")])
    assert done(compact(store, "d", "chat", compressor, 1)) == (1, 2, 2)
    assert compressor.calls == [("", [1, 2])]


# Calls and their results.

TOOLS: dict[str, tuple[list[Event], Any]] = {
    "a call with its result": ([user("1"), reply("", "t1"), result("t1"), user("4")], (1, 3, 3)),
    "a late result that is covered": ([user("1"), reply("", "t1"), user("3"), result("t1"), user("5")], (1, 4, 4)),
    "a late result that is kept": ([*TALK[:2], user("3"), reply("", "t1"), user("5"), result("t1")], (1, 2, 2)),
    "late results in a chain": (
        [user("1"), user("2"), reply("", "t1"), user("4"), reply("", "t2"), user("6"), result("t1"), result("t2")],
        (1, 1, 1),
    ),
    "late results across exchanges": (
        [user("1"), user("2"), reply("", "t1"), user("4"), result("t1"), reply("", "t2"), user("7"), result("t2")],
        (1, 1, 1),
    ),
    "two calls, one of them open": ([*TALK[:2], user("3"), reply("", "t1", "t2"), result("t2"), user("6")], (1, 2, 2)),
    "an open call": ([*TALK[:2], user("3"), reply("", "t1"), user("5"), reply("6"), user("7")], (1, 2, 2)),
    "an open call at the very beginning": ([reply("", "t1"), *TALK], None),
    "an open call before another of its id": (
        [user("1"), user("2"), reply("", "t1"), user("4"), reply("", "t1"), result("t1"), user("7")],
        (1, 1, 1),
    ),
    "a result in shared memory": ([*TALK[:3], reply("", "t1"), result("t1", **SHARED), user("6")], (1, 2, 2)),
    "a call in shared memory": ([user("1"), reply("", "t1", **SHARED), user("3"), result("t1"), user("5")], (1, 1, 1)),
    "an orphan result": ([user("1"), result("t9"), user("3")], (1, 1, 1)),
}


@pytest.mark.parametrize(("events", "covered"), TOOLS.values(), ids=TOOLS)
def test_calls_stay_with_their_results(store: Store, events: list[Event], covered: Any) -> None:
    """No call is cut off from its result, and no exchange with an open call is covered."""
    store.append("c", events)
    before = [message for message in history(store, "c") if message.role == "tool" or message.tool_calls]
    assert done(compact(store, "c", "chat", Fake(), 1)) == covered
    view = history(store, "c")
    kept = [message for message in view if message.role == "tool" or message.tool_calls]
    assert kept == [message for message in before if covered is None or message.version > covered[1]]
    assert {each.version for each in timeline(store, "c").hidden() if each.rule == "orphan-result"} <= {2}


def test_open_calls_stay_if_nothing_is_kept(store: Store) -> None:
    """Even if no exchange is to be kept, that of an open call stays, and its result finds it."""
    assert made(store, *TALK[:3], reply("", "t1"), user("5"), keep=0) == (1, 2, 2)
    store.append("c", [result("t1", "late")])
    assert seen(store) == ["summary of 2", "3", "", "5", "late"]
    assert compact(store, "c", "chat", Fake(), 0) is not None
    assert seen(store) == ["summary of 6"]


def test_a_removed_call_and_its_late_result(store: Store) -> None:
    """A call that a transfer removed is covered with the result that it hides: that is no orphan afterwards."""
    store.append("c", [user("1"), reply("2", "t1"), to("b", REMOVE, tool_call_id="t1"), result("t1"), user("5")])
    assert [problem.rule for problem in problems(timeline(store, "c")) if "result" in problem.rule] == []
    compact(store, "c", "chat", Fake(), 1)
    assert seen(store) == ["summary of 2", "5"]
    assert [problem.rule for problem in problems(timeline(store, "c")) if "result" in problem.rule] == []


# Nothing to summarise, and nobody to ask.


@pytest.mark.parametrize(
    "events",
    [
        [user("1", **CODER)],
        [declared("a", "prompt"), note("2"), user("3", **SHARED)],
        [user("1")],
        [SUMMARY, user("2")],
        [user("1"), clear(), user("3")],
    ],
    ids=["empty", "prompt and note", "one exchange", "a summary", "cleared"],
)
def test_nothing_to_summarise(store: Store, events: list[Event]) -> None:
    """Without an original message to cover, nothing is appended and the compressor is not asked."""
    store.append("c", events)
    before = exported(store)
    compressor = Fake()
    assert compact(store, "c", "chat", compressor, 1) is None
    assert compressor.calls == []
    assert exported(store) == before


def test_twice_is_once(store: Store) -> None:
    """A compaction right after another has nothing to summarise: the summary alone is no reason for a new one."""
    assert made(store, *TALK) == (1, 4, 4)
    assert compact(store, "c", "chat", Fake(), 1) is None


@pytest.mark.parametrize(("conversation", "scope", "kind"), [("d", "chat", "conversation"), ("c", "kitchen", "scope")])
def test_what_does_not_exist(store: Store, conversation: str, scope: str, kind: str) -> None:
    """A conversation or scope that does not exist is the caller's error and says so."""
    store.append("c", TALK)
    with pytest.raises(NotFound) as refused:
        compact(store, conversation, scope, Fake(), 0)
    assert (refused.value.kind, refused.value.value) == (kind, {"conversation": "d", "scope": "kitchen"}[kind])
    assert store.version("c") == 6


@pytest.mark.parametrize("keep", [-1, True])
def test_a_number_of_exchanges(store: Store, keep: int) -> None:
    """What is no number of exchanges is refused by name."""
    store.append("c", TALK)
    with pytest.raises(InvalidArgument) as refused:
        compact(store, "c", "chat", Fake(), keep)
    assert (refused.value.field, refused.value.value) == ("keep_exchanges", keep)
    assert store.version("c") == 6


# What the event says.


def test_the_event(store: Store) -> None:
    """The event says what it covers, how many originals it stands for, who made it, within which bound and for what."""
    store.append("c", [each | CODER for each in TALK])
    compacted = compact(store, "c", "coder", Fake("They spoke.", USAGE, method="model:tiny"), 1)
    assert compacted is not None
    written = store.event("c", 7)
    assert (written.type, written.scope, written.digest.hex()) == ("summary", "coder", compacted.receipt.digest)
    assert written.body == {
        "text": "They spoke.",
        "summary_of": 4,
        "first": 1,
        "last": 4,
        "method": "model:tiny",
        "max_tokens": 100,
        "usage": {"prompt_tokens": 70, "completion_tokens": 7, "total_tokens": 77, "cached_tokens": 5},
    }
    assert (compacted.receipt.first, compacted.receipt.last, compacted.text) == (7, 7, "They spoke.")
    assert history(store, "c", "coder").messages[0].role == "user"


def test_both_compressors_name_themselves(store: Store) -> None:
    """The digest calls itself `digest` and has no usage; a model compressor has the name it was given."""
    store.append("c", TALK)
    compact(store, "c", "chat", DigestCompressor(50), 1)
    compact(store, "c", "chat", ModelCompressor(lambda _: "text", name="model:tiny"), 0)
    bodies = [each.body for each in store.events("c", types=["summary"])]
    assert [(body["method"], body["max_tokens"], "usage" in body) for body in bodies] == [
        ("digest", 50, False),
        ("model:tiny", 400, False),
    ]
