"""Random logs, compacted again and again: nothing is lost, nothing is missing and nothing is there twice."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from logs import SCOPES, event_at
from views import REMOVE, SHARED, Seen, foretold, reply, result, seen, summary, to, told, user

from turnlog.formats import log as events_format
from turnlog.projections import MODES, History, VisibleMessage
from turnlog.projections.answers import with_own_ids
from turnlog.projections.compaction import (
    Compacted,
    Compressed,
    CompressionFailed,
    Compressor,
    ModelCompressor,
    compact,
)
from turnlog.projections.compaction.digest import DigestCompressor
from turnlog.store import Store

Json = dict[str, Any]
REQUEST: Json = {"type": "request", "at": 0}
# What is said in turn: calls that are answered, late, in shared memory or never, and handoffs that take them away.
TURNS: tuple[list[Json], ...] = (
    [user("hi"), reply("Yes.")],
    [user("My order is AB-123."), reply("", "t1"), result("t1"), reply("It failed: E404.")],
    [user("x" * 300), reply("Both.", "t1", "t2"), result("t2"), result("t1")],
    [user("and?"), reply("Wait.", "t1")],
    [reply("", "t2"), user("so?"), result("t2")],
    [result("t1"), user("thanks")],
    [result("t1", **SHARED), user("noted", **SHARED)],
    [to("b", tool_call_id="t1"), user("who are you?")],
    *([to("b", mode, tool_call_id="t1", message="One moment."), result("t1")] for mode in MODES[1:]),
    [reply("Wait.", "t1"), to("b", REMOVE, tool_call_id="t1"), user("b?"), result("t1")],
    [reply("Wait.", "t2"), to("b", context={"type": "userAndAssistantMessages"}), user("b?"), result("t2")],
)
some = settings(max_examples=60, deadline=None)


@pytest.fixture(scope="module")
def store() -> Iterator[Store]:
    """One store for all the logs of this module, since making one takes longer than reading a log."""
    with Store(":memory:") as opened:
        yield opened


class Noting:
    """A compressor that notes what another one is given and answers."""

    def __init__(self, inner: Compressor) -> None:
        self.method = inner.method
        self.max_tokens = inner.max_tokens
        self.given: list[VisibleMessage] = []
        self._inner = inner

    def compress(self, previous: str, messages: Sequence[VisibleMessage]) -> Compressed:
        self.given = list(messages)
        return self._inner.compress(previous, messages)


COMPRESSORS: list[Compressor] = [
    DigestCompressor(),
    DigestCompressor(30),
    ModelCompressor(lambda _: "so far", max_tokens=30),
]
KEEPS = st.sampled_from((0, 1, 2, 3, 4))


class Log:
    """A conversation that grows at random, in `store` and as the plain events that the oracle reads."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.name = str(uuid4())
        self.events: list[Json] = []
        self.append(REQUEST)

    def append(self, event: Json) -> None:
        self.store.append(self.name, [event])
        self.events.append(event)

    def grow(self, data: st.DataObject, scope: str, turns: int) -> None:
        """Turns of a conversation in one scope, and now and then an event of any kind, in any scope."""
        for _ in range(data.draw(st.integers(turns // 2, turns))):
            turn = data.draw(st.sampled_from((None, *TURNS)))
            if turn is None:
                self.append(data.draw(event_at(len(self.events) + 1)))
            for event in turn or ():
                if scope != "shared_memory" or event["type"] != "transfer":
                    self.append({"scope": scope} | event)

    def compact(self, scope: str, compressor: Compressor, keep: int) -> Compacted | None:
        compacted = compact(self.store, self.name, scope, compressor, keep)
        if compacted is not None:
            (added,) = self.store.events(self.name, len(self.events) + 1)
            self.events.append({"type": added.type, "scope": added.scope, **added.body})
        return compacted

    def view(self, scope: str, at: int | None = None) -> Seen:
        return seen(self.store, self.name, scope, at)

    def views(self, scope: str) -> list[Json]:
        """What is to be seen of a scope at every version."""
        return [told(self.view(scope, at)) for at in range(len(self.events) + 1)]

    def recorded(self) -> list[str]:
        """The log to the byte."""
        return list(events_format.write(self.store, self.name))


def own(view: History) -> list[VisibleMessage]:
    """What a compaction of a view's scope may cover: no prompt, no note, nothing of another scope."""
    return [each for each in view if each.scope == view.scope and each.origin != "prompt" and not is_note(each)]


def is_note(message: VisibleMessage) -> bool:
    return message.origin == "message" and message.role == "system"


def begins_exchange(message: VisibleMessage) -> bool:
    return message.origin == "message" and message.role == "user"


def says_something(message: VisibleMessage) -> bool:
    content = message.content
    said = content if isinstance(content, str) else [part for part in content if part != {"type": "text", "text": ""}]
    return bool(said or message.tool_calls or message.role == "tool")


def findings(view: Seen, *rules: str) -> list[tuple[int, str | None]]:
    return [(found.version, found.call) for found in view.problems if found.rule in rules]


def check(before: Seen, after: Seen, compressor: Noting, compacted: Compacted, keep: int) -> None:
    """Hold a view against the one before the compaction."""
    version = compacted.receipt.last
    covered = own(before)[: len(own(before)) - len(own(after)) + 1]
    kept = own(before)[len(covered) :]

    # Summary, then tail; and what is not of the scope, prompts and notes stand where they stood.
    (placed,) = (message for message in after if message.version == version)
    assert (placed.content, placed.origin) == (compacted.text, "summary")
    assert own(after) == [placed, *kept]
    assert [covered[0] if each == placed else each for each in after] == [
        each for each in before if each not in covered[1:]
    ]

    # What the event says is what the compressor read.
    read = with_own_ids([message for message in covered if message.origin != "summary"], before.pairs)
    assert compressor.given == read
    assert compacted.summary_of == sum(1 if each.summary_of is None else each.summary_of for each in covered)
    assert len(compacted.text) <= 4 * compressor.max_tokens

    # Exchanges are kept whole, and as many as were to be kept.
    assert kept == [] or begins_exchange(kept[0])
    assert sum(map(begins_exchange, kept)) >= min(keep, sum(map(begins_exchange, own(before))))


def check_calls(before: Seen, after: Seen) -> None:
    """No call was separated from its result: whatever was open is, and no result has lost its call."""
    assert findings(after, "unanswered-call") == findings(before, "unanswered-call")
    strays = findings(before, "orphan-result", "duplicate-result")
    assert set(findings(after, "orphan-result", "duplicate-result")) <= set(strays)


@some
@given(data=st.data(), scope=st.sampled_from(SCOPES))
def test_nothing_is_lost(store: Store, data: st.DataObject, scope: str) -> None:
    """After any number of compactions every original is in the log, every earlier view is what it was, and the
    visible history is summary then tail."""
    log = Log(store)
    for turns in (6, 4, 2):
        log.grow(data, scope, turns)
        recorded, views, before = log.recorded(), log.views(scope), log.view(scope)
        compressor, keep = Noting(data.draw(st.sampled_from(COMPRESSORS))), data.draw(KEEPS)
        try:
            compacted = log.compact(scope, compressor, keep)
        except CompressionFailed:
            assert not any(map(says_something, compressor.given))
            compacted = None
        if compacted is None:
            assert log.recorded() == recorded
            continue
        assert log.recorded()[:-1] == recorded
        assert log.views(scope)[:-1] == views
        check(before, log.view(scope), compressor, compacted, keep)
        check_calls(before, log.view(scope))
        assert told(log.view(scope)) == foretold(log.events, scope)


# Of these every message is an original that stays visible until a summary stands for it.
COUNTED = (*TURNS[:5], [summary("earlier") | {"summary_of": 3}])


@some
@given(rounds=st.lists(st.tuples(st.lists(st.sampled_from(COUNTED), max_size=4), KEEPS), min_size=2, max_size=5))
def test_the_count_is_true(store: Store, rounds: list[tuple[list[list[Json]], int]]) -> None:
    """After each of many compactions the originals that are visible and those that summaries stand for are all."""
    log = Log(store)
    for turns, keep in rounds:
        for event in chain.from_iterable(turns):
            log.append(event)
        log.compact("chat", COMPRESSORS[0], keep)
        originals = sum(event.get("summary_of", 1) for event in log.events[1:] if not event.get("first"))
        view = log.view("chat")
        assert sum(1 if each.summary_of is None else each.summary_of for each in view) == originals
        assert len({each.version for each in view}) == len(view)
