"""Arguments: whatever a caller gives, the answer is a result or one of turnlog's own errors."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from test_append import said
from views import assistant, reply, result, to

from turnlog import projections
from turnlog.formats.transfers import TransferTools
from turnlog.importing import import_file
from turnlog.llm import model
from turnlog.projections import compaction, history, timeline
from turnlog.projections.compaction import DigestCompressor, ModelCompressor
from turnlog.store import (
    InvalidArgument,
    InvalidEvent,
    Store,
    TurnlogError,
    Unchanged,
    read_checkpoint,
    read_line,
)
from turnlog.tokens import counter
from turnlog.wires import WIRES, adapt, stable_prefix

BAD: list[Any] = [
    *(None, True, 0, 5, -1, 2**70, -(2**70), 1.5, float("nan"), float("inf"), 1j),
    *("", " ", "x", "c", "\ud800", "\0", "a\nb", "\x1b[31m", "\u202e", "x" * 300, b"x", b"\xff"),
    *([], [5], [None], ["\ud800"], [2**70], (), {}, {5: 5}, {"x": 1}, {1: "x"}, {1: []}, set(), object(), len, int),
    *(
        datetime(2026, 1, 1),
        datetime.min.replace(tzinfo=UTC),
        datetime.max.replace(tzinfo=timezone(-timedelta(hours=9))),
    ),
]

LOG = [
    assistant("a", "A", tools=[{"name": "f"}], first_message="Hello."),
    said("one"),
    reply("two", "t1"),
    result("t1"),
    to("b", "delete-history", "B", tool_call_id="t1", message="over"),
    said("three"),
]


def every(value: Any) -> Any:
    """Read all of what is read as it is asked for."""
    return list(value) if isinstance(value, Iterator) else value


Call = Callable[[Store, Any], Any]
STORE: dict[str, Call] = {
    "append.conversation": lambda s, v: s.append(v, [said()]),
    "append.events": lambda s, v: s.append("c", v),
    "append.event": lambda s, v: s.append("c", [v]),
    "append.expected": lambda s, v: s.append("c", [said()], expected=v),
    "append.expected.since": lambda s, v: s.append("c", [said()], expected=Unchanged(v, ["message"])),
    "append.expected.types": lambda s, v: s.append("c", [said()], expected=Unchanged(1, v)),
    "append.expected.type": lambda s, v: s.append("c", [said()], expected=Unchanged(1, [v])),
    "append.expected.scope": lambda s, v: s.append("c", [said()], expected=Unchanged(1, ["message"], v)),
    "restore.lines": lambda s, v: s.restore(v),
    "restore.line": lambda s, v: s.restore([v]),
    "restore.name": lambda s, v: s.restore([], v),
    "fork.conversation": lambda s, v: s.fork(v),
    "fork.at": lambda s, v: s.fork("c", v),
    "fork.name": lambda s, v: s.fork("c", None, v),
    "redact.conversation": lambda s, v: s.redact(v, [1], reason="r"),
    "redact.versions": lambda s, v: s.redact("c", v, reason="r"),
    "redact.version": lambda s, v: s.redact("c", [v], reason="r"),
    "redact.reason": lambda s, v: s.redact("c", [1], reason=v),
    "redact.replacement": lambda s, v: s.redact("c", [1], reason="r", replacement=v),
    "erase.conversation": lambda s, v: s.erase(v),
    "erase.reason": lambda s, v: s.erase("c", reason=v),
    "erase_older_than.time": lambda s, v: s.erase_older_than(v, dry_run=True),
    "erase_older_than.reason": lambda s, v: s.erase_older_than(datetime.min.replace(tzinfo=UTC), reason=v),
    "forget.match": lambda s, v: s.forget(v, reason="r"),
    "forget.words": lambda s, v: s.forget([v], reason="r"),
    "forget.actor": lambda s, v: s.forget(actor=v, reason="r"),
    "forget.conversations": lambda s, v: s.forget(["x"], conversations=v, reason="r"),
    "forget.conversation": lambda s, v: s.forget(["x"], conversations=[v], reason="r"),
    "forget.reason": lambda s, v: s.forget(["x"], reason=v),
    "forget.replacement": lambda s, v: s.forget(["x"], reason="r", replacement=v),
    "checkpoint.key": lambda s, v: s.checkpoint(v),
    "verify.against": lambda s, v: s.verify(v),
    "verify.key": lambda s, v: s.verify(s.checkpoint(b"k"), v),
    "rename.conversation": lambda s, v: s.rename(v, "n"),
    "rename.name": lambda s, v: s.rename("c", v),
    "conversation.name": lambda s, v: s.conversation(v),
    "stream.conversation": lambda s, v: s.stream(v),
    "version.conversation": lambda s, v: s.version(v),
    "version_at.conversation": lambda s, v: s.version_at(v, datetime(2026, 1, 1, tzinfo=UTC)),
    "version_at.time": lambda s, v: s.version_at("c", v),
    "version_at.clock": lambda s, v: s.version_at("c", datetime(2026, 1, 1, tzinfo=UTC), clock=v),
    "times_not_in_order.conversation": lambda s, v: s.times_not_in_order(v, ["chat"]),
    "times_not_in_order.scopes": lambda s, v: s.times_not_in_order("c", v),
    "described_scopes.conversation": lambda s, v: s.described_scopes(v),
    "scopes.conversation": lambda s, v: s.scopes(v),
    "scopes_in_use.conversation": lambda s, v: s.scopes_in_use(v),
    "events.conversation": lambda s, v: s.events(v),
    "events.first": lambda s, v: s.events("c", v),
    "events.last": lambda s, v: s.events("c", 1, v),
    "events.types": lambda s, v: s.events("c", types=v),
    "events.scopes": lambda s, v: s.events("c", scopes=v),
    "events.page": lambda s, v: s.events("c", page=v),
    "frames.conversation": lambda s, v: s.frames(v, 1, 2, None),
    "frames.first": lambda s, v: s.frames("c", v, 2, None),
    "frames.last": lambda s, v: s.frames("c", 1, v, None),
    "frames.scopes": lambda s, v: s.frames("c", 1, 2, v),
    "frames.page": lambda s, v: s.frames("c", 1, 2, None, v),
    "structural.conversation": lambda s, v: s.structural(v, ["transfer"], ["chat"]),
    "structural.types": lambda s, v: s.structural("c", v, ["chat"]),
    "structural.scopes": lambda s, v: s.structural("c", ["transfer"], v),
    "structural.last": lambda s, v: s.structural("c", ["transfer"], ["chat"], v),
    "rewinds.conversation": lambda s, v: s.rewinds(v, 5),
    "rewinds.last": lambda s, v: s.rewinds("c", v),
    "sources.conversation": lambda s, v: s.sources(v, [1]),
    "sources.versions": lambda s, v: s.sources("c", v),
    "digests.conversation": lambda s, v: s.digests(v, [1]),
    "digests.versions": lambda s, v: s.digests("c", v),
    "event.conversation": lambda s, v: s.event(v, 1),
    "event.version": lambda s, v: s.event("c", v),
    "redactions.conversation": lambda s, v: s.redactions(v),
    "redaction_count.conversation": lambda s, v: s.redaction_count(v),
    "follow.after": lambda s, v: s.follow(v),
    "follow.conversation": lambda s, v: s.follow(0, v),
}
READ: dict[str, Call] = {
    "timeline.conversation": lambda s, v: timeline(s, v),
    "timeline.scope": lambda s, v: timeline(s, "c", v),
    "timeline.mode": lambda s, v: timeline(s, "c", mode=v),
    "timeline.modes": lambda s, v: timeline(s, "c", modes=v),
    "timeline.modes.mode": lambda s, v: timeline(s, "c", modes={5: v}),
    "at.version": lambda s, v: timeline(s, "c").at(v),
    "at.first": lambda s, v: timeline(s, "c").at(first=v),
    "at.count": lambda s, v: timeline(s, "c").at(count=v),
    "at.last": lambda s, v: timeline(s, "c").at(last=v),
    "at.clock": lambda s, v: timeline(s, "c").at(clock=v),
    "at.clock of a time": lambda s, v: timeline(s, "c").at(datetime(2026, 1, 1, tzinfo=UTC), clock=v),
    "getitem": lambda s, v: timeline(s, "c")[v],
    "hidden.at": lambda s, v: timeline(s, "c").hidden(v),
    "hidden.first": lambda s, v: timeline(s, "c").hidden(first=v),
    "hidden.count": lambda s, v: timeline(s, "c").hidden(count=v),
    "hidden.after": lambda s, v: timeline(s, "c").hidden(after=v),
    "held.at": lambda s, v: timeline(s, "c").held(v),
    "given.at": lambda s, v: timeline(s, "c").given(v),
    "spans.version": lambda s, v: timeline(s, "c").spans(v),
    "changes.version": lambda s, v: timeline(s, "c").changes(v),
    "problems.at": lambda s, v: projections.problems(timeline(s, "c"), v),
    "history.conversation": lambda s, v: history(s, v),
    "history.scope": lambda s, v: history(s, "c", v),
    "history.at": lambda s, v: history(s, "c", at=v),
    "history.mode": lambda s, v: history(s, "c", mode=v),
    "history.modes": lambda s, v: history(s, "c", modes=v),
    "history.last": lambda s, v: history(s, "c", last=v),
    "history.clock": lambda s, v: history(s, "c", clock=v),
    "check.conversation": lambda s, v: projections.check(s, v),
    "describe.conversation": lambda s, v: projections.describe(s, v),
    "diff.a": lambda s, v: projections.diff(v, history(s, "c")),
    "diff.b": lambda s, v: projections.diff(history(s, "c"), v),
    "explain.conversation": lambda s, v: projections.explain(s, v, 1),
    "explain.version": lambda s, v: projections.explain(s, "c", v),
    "explain.at": lambda s, v: projections.explain(s, "c", 1, v),
    "handoffs.conversation": lambda s, v: projections.handoffs(s, v),
    "handoffs.scope": lambda s, v: projections.handoffs(s, "c", v),
    "handoffs.mode": lambda s, v: projections.handoffs(s, "c", mode=v),
    "handoffs.modes": lambda s, v: projections.handoffs(s, "c", modes=v),
    "plan.history": lambda s, v: projections.plan(v),
    "plan.previous": lambda s, v: projections.plan(history(s, "c"), v),
    "plan.limit": lambda s, v: projections.plan(history(s, "c"), limit=v),
    "query.sql": lambda s, v: projections.query(s, v),
    "query.parameters": lambda s, v: projections.query(s, "SELECT ?", v),
    "query.parameter": lambda s, v: projections.query(s, "SELECT ?", [v]),
    "query.timeout": lambda s, v: projections.query(s, "SELECT 1", timeout=v),
    "query.conversation": lambda s, v: projections.query(s, "SELECT 1", conversation=v),
    "replay.conversation": lambda s, v: projections.replay(s, v),
    "search.query": lambda s, v: projections.search(s, v),
    "search.conversation": lambda s, v: projections.search(s, "one", conversation=v),
    "search.scope": lambda s, v: projections.search(s, "one", scope=v),
    "search.role": lambda s, v: projections.search(s, "one", role=v),
    "search.assistant": lambda s, v: projections.search(s, "one", assistant=v),
    "search.since": lambda s, v: projections.search(s, "one", since=v),
    "search.until": lambda s, v: projections.search(s, "one", until=v),
    "search.limit": lambda s, v: projections.search(s, "one", limit=v),
    "trace.conversation": lambda s, v: projections.trace(s, v, "one"),
    "trace.words": lambda s, v: projections.trace(s, "c", v),
    "trace.scope": lambda s, v: projections.trace(s, "c", "one", v),
    "usage.conversation": lambda s, v: projections.usage(s, v),
    "compact.conversation": lambda s, v: compaction.compact(s, v, "chat", DigestCompressor()),
    "compact.scope": lambda s, v: compaction.compact(s, "c", v, DigestCompressor()),
    "compact.compressor": lambda s, v: compaction.compact(s, "c", "chat", v, 0),
    "compact.keep_exchanges": lambda s, v: compaction.compact(s, "c", "chat", DigestCompressor(), v),
}
OTHERS: dict[str, Call] = {
    "DigestCompressor.max_tokens": lambda s, v: DigestCompressor(v),
    "ModelCompressor.model": lambda s, v: compaction.compact(s, "c", "chat", ModelCompressor(v), 0),
    "ModelCompressor.name": lambda s, v: compaction.compact(s, "c", "chat", ModelCompressor(lambda _: "x", name=v), 0),
    "ModelCompressor.max_tokens": lambda s, v: ModelCompressor(lambda _: "x", max_tokens=v),
    "ModelCompressor.max_input_tokens": lambda s, v: ModelCompressor(lambda _: "x", max_input_tokens=v),
    "request": lambda s, v: history(s, "c").request(model=v, parameters=v, cache_points=v),
    "adapt.history": lambda s, v: adapt(v, WIRES["openai"]),
    "adapt.wire": lambda s, v: adapt(history(s, "c"), v),
    "adapt.cache_points": lambda s, v: adapt(history(s, "c"), WIRES["openai"], v),
    "adapt.cache_point": lambda s, v: adapt(history(s, "c"), WIRES["openai"], [v]),
    "stable_prefix.before": lambda s, v: stable_prefix(v, history(s, "c"), WIRES["openai"]),
    "stable_prefix.after": lambda s, v: stable_prefix(history(s, "c"), v, WIRES["openai"]),
    "stable_prefix.wire": lambda s, v: stable_prefix(history(s, "c"), history(s, "c"), v),
    "read_line.text": lambda s, v: read_line(v),
    "read_checkpoint.data": lambda s, v: read_checkpoint(v),
    "counter.encoding": lambda s, v: counter(v),
    "model.name": lambda s, v: model(v),
    "TransferTools.patterns": lambda s, v: TransferTools(v),
    "TransferTools.pattern": lambda s, v: TransferTools([v]),
    "import_file.data": lambda s, v: import_file(s, "f", v, "n"),
    "import_file.stem": lambda s, v: import_file(s, "f", b'{"messages":[]}', v),
    "import_file.format": lambda s, v: import_file(s, "f", b"{}", "n", format=v),
    "import_file.conversation": lambda s, v: import_file(s, "f", b'{"messages":[]}', "n", conversation=v),
    "import_file.diverged": lambda s, v: import_file(s, "f", b'{"messages":[]}', "n", diverged=v),
}
CALLS = STORE | READ | OTHERS


@pytest.fixture
def store() -> Iterator[Store]:
    """A store with a conversation `c`."""
    with Store(":memory:") as store:
        store.append("c", LOG)
        yield store


@pytest.mark.parametrize("name", CALLS)
def test_any_value(store: Store, name: str) -> None:
    """Whatever an argument is, nothing but an error of turnlog is raised, and its text is one line for a terminal."""
    for value in BAD:
        error = error_of(store, CALLS[name], value)
        assert error is None or isinstance(error, TurnlogError), f"{type(error).__name__} for {value!r}: {error}"
        assert str(error).isprintable()


def error_of(store: Store, call: Call, value: Any) -> Exception | None:
    """Return what a call raises, if anything, and undo what it does."""
    try:
        with store.transaction():
            every(call(store, value))
            raise ZeroDivisionError
    except ZeroDivisionError:
        return None
    except Exception as error:
        return error


@pytest.mark.parametrize(
    ("name", "value", "field"),
    [
        ("append.conversation", "", "conversation"),
        ("append.events", [], "events"),
        ("append.expected", -1, "expected"),
        ("fork.at", "1", "at"),
        ("redact.versions", 1, "versions"),
        ("redact.version", "1", "versions"),
        ("checkpoint.key", "k", "key"),
        ("verify.against", {}, "against"),
        ("version_at.time", datetime(2026, 1, 1), "time"),
        ("version_at.time", 5, "time"),
        ("version_at.clock", "wall", "clock"),
        ("events.first", "1", "first"),
        ("events.types", "message", "types"),
        ("events.scopes", "chat", "scopes"),
        ("events.page", 0, "page"),
        ("event.version", "1", "version"),
        ("follow.after", "1", "after"),
        ("timeline.mode", "swap", "mode"),
        ("timeline.modes", [5], "modes"),
        ("timeline.modes.mode", "swap", "modes.5"),
        ("at.version", "latest", "at"),
        ("at.version", datetime(2026, 1, 1), "at"),
        ("at.clock", "wall", "clock"),
        ("at.last", -1, "last"),
        ("hidden.first", None, "first"),
        ("spans.version", None, "version"),
        ("history.last", -1, "last"),
        ("history.last", 1.5, "last"),
        ("diff.a", None, "a"),
        ("plan.limit", -1, "limit"),
        ("query.timeout", 0, "timeout"),
        ("search.since", datetime(2026, 1, 1), "since"),
        ("search.limit", 0, "limit"),
        ("compact.keep_exchanges", -1, "keep_exchanges"),
        ("compact.compressor", "digest", "compressor"),
        ("DigestCompressor.max_tokens", 1, "max_tokens"),
        ("adapt.wire", "openai", "wire"),
        ("adapt.cache_points", 5, "cache_points"),
        ("adapt.cache_point", "Tools", "cache_points"),
        ("read_checkpoint.data", "{}", "checkpoint"),
        ("TransferTools.patterns", "transfer_*", "patterns"),
        ("import_file.format", "csv", "format"),
        ("import_file.diverged", "merge", "diverged"),
    ],
)
def test_the_field_and_the_value_are_named(store: Store, name: str, value: Any, field: str) -> None:
    """A bad argument is an `InvalidArgument` that has its name, its value and the reason, and is about no event."""
    error: Any = error_of(store, CALLS[name], value)
    assert type(error) is InvalidArgument
    assert error.field == field
    assert error.value in (value, *(value if isinstance(value, list) else ()), "2026-01-01T00:00:00")
    assert error.why in str(error)


def test_an_invalid_event_is_an_invalid_argument(store: Store) -> None:
    """Who catches `InvalidArgument` catches what is wrong with an event, too."""
    with pytest.raises(InvalidArgument) as caught:
        store.append("c", [said(), said(role="narrator")])
    assert isinstance(caught.value, InvalidEvent)
    assert (caught.value.field, caught.value.value, caught.value.index) == ("role", "narrator", 1)


def test_a_position_of_any_size(store: Store) -> None:
    """Following from before the first position gives everything, from after the last nothing."""
    assert len(list(store.follow(-(2**70)))) == len(LOG)
    assert list(store.follow(2**70)) == []
    assert len(list(store.events("c", -(2**70), 2**70, page=2**70))) == len(LOG)


# What is not a value to be checked: flags, and what the caller's own code does.
UNCHECKED = {"self", "store", "summaries", "dry_run", "erase", "backwards", "progress", "derived", "audit"}


def parameters_of(prefix: str, function: Any) -> Iterator[str]:
    for parameter in inspect.signature(function).parameters:
        if parameter not in UNCHECKED:
            yield f"{prefix}.{parameter}"


def test_every_argument_is_tried() -> None:
    """What is public and takes a value stands in the tables of this module, so that nothing new is forgotten."""
    wanted: set[str] = set()
    for name, method in inspect.getmembers(Store, inspect.isfunction):
        if not name.startswith("_") and name != "backup":  # Whose tests have a file to write to.
            wanted |= {*parameters_of(name, method)}
    for name in projections.__all__:
        function = getattr(projections, name)
        if inspect.isfunction(function) and name != "problems":
            wanted |= {*parameters_of(name, function)}
    for name, method in inspect.getmembers(projections.Timeline, inspect.isfunction):
        if name in ("at", "hidden", "held", "given", "spans", "changes"):
            wanted |= {*parameters_of(name, method)}
    wanted |= {*parameters_of("compact", compaction.compact)}
    assert wanted - CALLS.keys() == set()
    assert {"append.event", "problems.at"} <= CALLS.keys()
