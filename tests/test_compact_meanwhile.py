"""Compaction takes its time: what lands in the log meanwhile, and how it ends if it fails (DESIGN section 5)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from views import SHARED, clear, event, note, redact, reply, result, rewind, summary, to, user

from turnlog.formats import log as events_format
from turnlog.projections import VisibleMessage, history, problems, timeline
from turnlog.projections.compaction import (
    LEAST_SUMMARY_TOKENS,
    Compressed,
    CompressionFailed,
    ModelCompressor,
    ModelReply,
    compact,
)
from turnlog.projections.compaction.digest import DigestCompressor
from turnlog.store import Store, Unchanged, VersionConflict

Event = dict[str, Any]
CODER = {"scope": "coder"}
TALK = [user("1"), reply("2"), user("3"), reply("4"), user("5")]


class Slow:
    """A compressor during whose work something happens."""

    method = "slow"
    max_tokens = LEAST_SUMMARY_TOKENS

    def __init__(self, meanwhile: Callable[[], object], text: str = "so far") -> None:
        self.meanwhile = meanwhile
        self.text = text

    def compress(self, previous: str, messages: Sequence[VisibleMessage]) -> Compressed:
        self.meanwhile()
        return Compressed(self.text)


@pytest.fixture
def store() -> Iterator[Store]:
    """A store with one conversation, `c`, of three exchanges in `chat` and one in `coder`."""
    with Store(":memory:") as store:
        store.append("c", [*TALK, user("6", **CODER)])
        yield store


def exported(store: Store) -> list[str]:
    """The log as it is, to the byte."""
    return list(events_format.write(store, "c"))


def seen(store: Store, scope: str = "chat") -> list[Any]:
    return [message.content for message in history(store, "c", scope)]


# What lands meanwhile.


@pytest.mark.parametrize(
    ("landing", "visible"),
    [
        (user("7"), ["so far", "5", "7"]),
        (reply("7", "t1"), ["so far", "5", "7"]),
        (note("7"), ["so far", "5", "7"]),
        (user("7", **SHARED), ["so far", "5", "7"]),
        (event("assistant", assistant="a", system="You are a."), ["You are a.", "so far", "5"]),
        (event("describe", title="talk"), ["so far", "5"]),
        (event("request", at=5), ["so far", "5"]),
        (event("x:mark"), ["so far", "5"]),
        (event("summary", text="7", summary_of=1, **CODER), ["so far", "5"]),
        (to("b", **CODER), ["so far", "5"]),
        (rewind(0, **CODER), ["so far", "5"]),
        (clear(**CODER), ["so far", "5"]),
        (clear(**SHARED), ["so far", "5"]),
    ],
    ids=lambda value: f"{value['type']} in {value.get('scope', 'chat')}" if isinstance(value, dict) else "",
)
def test_what_lands_meanwhile_stays_visible(store: Store, landing: Event, visible: list[str]) -> None:
    """A plain message that lands meanwhile stays visible, and what reshapes another scope does not matter."""
    compacted = compact(store, "c", "chat", Slow(lambda: store.append("c", [landing])), 1)
    assert compacted is not None
    assert (compacted.first, compacted.last, compacted.receipt.first) == (1, 4, 8)
    assert seen(store) == visible


@pytest.mark.parametrize(
    "landing",
    [summary("7"), to("b"), rewind(2, scope="chat"), rewind(2), rewind(0), clear(), redact(1), redact(6)],
    ids=["summary", "transfer", "rewind", "rewind of all", "to the beginning", "clear", "redaction", "any redaction"],
)
@pytest.mark.parametrize("scope", ["chat", "coder"])
def test_what_reshapes_the_scope_meanwhile_is_a_conflict(store: Store, scope: str, landing: Event) -> None:
    """A summary, transfer, rewind, clear or redaction that lands meanwhile is a conflict, and no summary is written."""
    if "scope" in landing or landing["type"] in ("summary", "transfer", "clear"):
        landing = landing | {"scope": scope}
    after: list[str] = []

    def land() -> None:
        store.append("c", [user("7", scope=scope), landing, clear(scope=scope)])
        after.extend(exported(store))

    with pytest.raises(VersionConflict) as refused:
        compact(store, "c", scope, Slow(land), 0)
    assert (refused.value.conversation, refused.value.found) == ("c", 8)
    expected = refused.value.expected
    assert isinstance(expected, Unchanged)
    assert (expected.since, expected.scope) == (6, scope)
    assert landing["type"] in expected.types
    assert exported(store) == after


def test_of_two_at_once_one_is_written(store: Store) -> None:
    """Of two compactions that read the same history the first to end is written, the other is a conflict."""
    with pytest.raises(VersionConflict) as refused:
        compact(store, "c", "chat", Slow(lambda: compact(store, "c", "chat", DigestCompressor(), 1), "late"), 1)
    assert refused.value.found == 7
    assert [found.body["method"] for found in store.events("c", types=["summary"])] == ["digest"]


def test_a_late_result_that_lands_meanwhile_finds_its_call(store: Store) -> None:
    """A call that was open when the history was read is not covered, so that its result is no orphan."""
    store.append("c", [reply("", "t1"), user("8"), user("9")])
    compacted = compact(store, "c", "chat", Slow(lambda: store.append("c", [result("t1", "late")])), 0)
    assert compacted is not None
    assert (compacted.first, compacted.last) == (1, 4)
    assert seen(store) == ["so far", "5", "", "8", "9", "late"]
    assert [problem.rule for problem in problems(timeline(store, "c"))] == []


def test_a_rename_meanwhile_does_not_matter(store: Store) -> None:
    """A conversation is known by its uuid: one that is renamed meanwhile is compacted, whoever has its name now."""

    def rename() -> None:
        store.rename("c", "renamed")
        store.append("c", TALK)

    compacted = compact(store, "c", "chat", Slow(rename), 1)
    assert compacted is not None
    assert [message.content for message in history(store, "renamed")] == ["so far", "5"]
    assert seen(store) == ["1", "2", "3", "4", "5"]


def test_an_erasure_meanwhile_is_a_conflict(store: Store) -> None:
    """What is erased meanwhile, its name included, is not told again by a summary."""
    identity = store.stream("c").uuid
    with pytest.raises(VersionConflict) as refused:
        compact(store, "c", "chat", Slow(lambda: store.erase("c")), 1)
    assert refused.value.found > 6
    assert list(store.events(identity, types=["summary"])) == []
    assert [each.uuid for each in store.conversations()] == [identity]


def test_a_fork_is_compacted_alone(store: Store) -> None:
    """A fork's summary covers what it shares with its parent in its own views only."""
    store.fork("c", 5, "child")
    compacted = compact(store, "child", "chat", Slow(lambda: store.append("c", [clear()])), 1)
    assert compacted is not None
    assert (compacted.first, compacted.last, compacted.summary_of) == (1, 4, 4)
    assert [message.content for message in history(store, "child")] == ["so far", "5"]
    assert [message.content for message in history(store, "c", at=6)] == ["1", "2", "3", "4", "5"]


# What fails.


def raising(error: BaseException) -> Callable[..., Any]:
    def fail(*_: object) -> None:
        raise error

    return fail


LIMIT = 4 * LEAST_SUMMARY_TOKENS


@pytest.mark.parametrize(
    ("compressor", "why"),
    [
        (Slow(raising(RuntimeError("no such model"))), "the compressor raised RuntimeError: no such model"),
        (Slow(raising(TimeoutError())), "the compressor raised TimeoutError: "),
        (Slow(raising(CompressionFailed("the model is asleep"))), "the model is asleep"),
        (Slow(lambda: None, ""), "the text is blank"),
        (Slow(lambda: None, " \n\t\u2003"), "the text is blank"),
        (Slow(lambda: None, "x" * (LIMIT + 1)), "the text has 121 characters, more than the 120 of 30 tokens"),
        (ModelCompressor(raising(OSError("offline"))), "the compressor raised OSError: offline"),
        (ModelCompressor(lambda _: ModelReply("\n")), "the text is blank"),
        (
            ModelCompressor(lambda _: "é" * (LIMIT + 9), max_tokens=LEAST_SUMMARY_TOKENS),
            "the text has 129 characters, more than the 120 of 30 tokens",
        ),
    ],
    ids=["error", "error without words", "refusal", "empty", "blank", "long", "model", "blank reply", "long reply"],
)
def test_a_failure_leaves_the_log_as_it_is(store: Store, compressor: Any, why: str) -> None:
    """A compressor that raises, returns blank or returns too much appends nothing and says what happened."""
    before = exported(store)
    with pytest.raises(CompressionFailed) as failed:
        compact(store, "c", "chat", compressor, 1)
    assert failed.value.why == why
    assert str(failed.value) == f"no summary: {why}"
    assert exported(store) == before


def test_a_failure_names_its_cause(store: Store) -> None:
    """What the compressor raised is the cause of the failure."""
    error = RuntimeError("no such model")
    with pytest.raises(CompressionFailed) as failed:
        compact(store, "c", "chat", Slow(raising(error)), 1)
    assert failed.value.__cause__ is error


@pytest.mark.parametrize("interrupt", [KeyboardInterrupt, SystemExit, GeneratorExit])
def test_an_interruption_leaves_the_file_as_it_is(tmp_path: Path, interrupt: type[BaseException]) -> None:
    """An interruption is passed on as it is, nothing is appended, and the store can be used."""
    path = tmp_path / "c.db"
    with Store(path) as store:
        store.append("c", TALK)
        before = exported(store)
        with pytest.raises(interrupt):
            compact(store, "c", "chat", Slow(raising(interrupt())), 1)
        assert exported(store) == before
    with Store(path) as store:
        assert exported(store) == before
        assert compact(store, "c", "chat", Slow(lambda: None), 1) is not None


def test_a_text_at_the_bound_is_accepted(store: Store) -> None:
    """The bound itself is not over the bound; what counts is characters, whatever they are."""
    text = "日" * LIMIT
    compacted = compact(store, "c", "chat", Slow(lambda: None, text), 1)
    assert compacted is not None
    assert seen(store) == [text, "5"]


def test_other_conversations_are_written_meanwhile(tmp_path: Path) -> None:
    """No lock is held while a compressor works: another connection writes to the same file."""
    path = tmp_path / "c.db"

    def write() -> None:
        with Store(path, timeout=0) as other:
            other.append("c", [user("6")])
            other.append("d", [user("1")])

    with Store(path) as store:
        store.append("c", TALK)
        assert compact(store, "c", "chat", Slow(write), 1) is not None
        assert seen(store) == ["so far", "5", "6"]
        assert store.version("d") == 1
