"""A state machine that drives a store on disk through two connections, against a plain list as its model."""

from __future__ import annotations

import tempfile
import unicodedata
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from turnlog.store import (
    ANY,
    MUST_EXIST,
    NONE_YET,
    DuplicateEvent,
    ExpectedVersion,
    InvalidEvent,
    NameTaken,
    NotFound,
    Receipt,
    Store,
    TurnlogError,
    Unchanged,
    VersionConflict,
)

SEES_ALL_SCOPES = None


@dataclass
class Told:
    """An event as the model knows it; the content is None once redacted."""

    type: str
    scope: str | None
    id: str | None
    content: str | None

    def is_same(self, other: Told) -> bool:
        """Whether a batch's event is this recorded one; of a redacted one the id suffices."""
        if self.id != other.id or (self.content is None and self.id is not None):
            return self.id == other.id
        same_header = (self.type, self.scope) == (other.type, other.scope)
        return same_header and self.content in (None, other.content)


@dataclass
class Talk:
    """A conversation as the model knows it."""

    uuid: str
    name: str | None
    events: list[Told] = field(default_factory=list)


# What an append is to do: give an earlier range of versions, or append; or be refused with an error of these fields.
Outcome: TypeAlias = tuple[int, int] | TurnlogError

IDS = st.sampled_from((None, None, "i", "j", "k"))


@st.composite
def told(draw: st.DrawFn) -> Told:
    type = draw(st.sampled_from(("message", "message", "message", "clear", "x:mark", "rewind")))
    id = draw(IDS)
    scope = draw(st.sampled_from(("chat", "coder", *(["all"] if type == "rewind" else []))))
    content = draw(st.sampled_from(("", "x", "é\U0001f600"))) if type == "message" else type
    return Told(type, SEES_ALL_SCOPES if scope == "all" else scope, id, content)


def written(event: Told) -> dict[str, Any]:
    """The event as it is appended."""
    bodies: dict[str, dict[str, Any]] = {"message": {"role": "user", "content": event.content}, "rewind": {"to": 0}}
    header = {"type": event.type, "scope": event.scope, "id": event.id}
    return {key: value for key, value in header.items() if value is not None} | bodies.get(event.type, {})


NAMES = st.sampled_from(("a", "b", "é", "e\u0301", "\u00e9"))
BATCHES = st.lists(told(), min_size=1, max_size=3)
OFFSETS = st.integers(-2, 2)
TYPES = st.sets(st.sampled_from(("message", "clear", "rewind", "redaction")), min_size=1, max_size=2)
KINDS = st.sampled_from((ANY, ANY, ANY, NONE_YET, MUST_EXIST, "exact", "unchanged"))
EXPECTATIONS = st.tuples(KINDS, OFFSETS, TYPES, st.sampled_from(("chat", "coder")))
SIDES = st.integers(0, 1)


class StoreMachine(RuleBasedStateMachine):
    """Whatever two connections do to a store, it is what a list says it should be."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name) / "s.db"
        self.stores = [Store(self.path, durability="normal") for _ in range(2)]
        self.talks: list[Talk] = []
        self.order: list[tuple[str, int]] = []
        self.with_ids: list[tuple[list[dict[str, Any]], Receipt]] = []

    def teardown(self) -> None:
        for store in self.stores:
            store.close()
        self.folder.cleanup()

    def find(self, name: str) -> Talk | None:
        name = unicodedata.normalize("NFC", name)
        by_name = [talk for talk in self.talks if talk.name == name]
        return next(iter(by_name or [talk for talk in self.talks if talk.uuid == name]), None)

    def expectation(self, talk: Talk | None, drawn: tuple[Any, int, set[str], str]) -> ExpectedVersion:
        kind, offset, types, scope = drawn
        version = 0 if talk is None else len(talk.events)
        match kind:
            case "exact":
                return max(0, version + offset)
            case "unchanged":
                return Unchanged(max(0, version + offset - 1), frozenset(types), scope)
        expected: ExpectedVersion = kind
        return expected

    def foretold(self, name: str, talk: Talk | None, batch: list[Told], expected: ExpectedVersion) -> Outcome:
        """What the contract says of an append."""
        ids = [event.id for event in batch if event.id is not None]
        if len(set(ids)) < len(ids):
            twice = next(id for number, id in enumerate(ids) if id in ids[:number])
            return InvalidEvent("id", twice, "")
        recorded = [] if talk is None else talk.events
        versions = {event.id: version for version, event in enumerate(recorded, 1) if event.id is not None}
        known = [(index, event.id) for index, event in enumerate(batch) if event.id in versions]
        if talk is not None and known:
            first = versions[known[0][1]] - known[0][0]
            row = recorded[first - 1 : first - 1 + len(batch)] if first > 0 else []
            if len(row) == len(batch) and all(there.is_same(event) for there, event in zip(row, batch, strict=True)):
                return first, first + len(batch) - 1
            return DuplicateEvent(talk.name or talk.uuid, [str(id) for _, id in known])
        found = self.conflict(talk, expected)
        if found is not None:
            return VersionConflict(unicodedata.normalize("NFC", name), expected, found)
        return len(recorded) + 1, len(recorded) + len(batch)

    def conflict(self, talk: Talk | None, expected: ExpectedVersion) -> int | None:
        version = 0 if talk is None else len(talk.events)
        match expected:
            case Unchanged():
                for number, event in enumerate([] if talk is None else talk.events, 1):
                    in_scope = event.scope in (expected.scope, SEES_ALL_SCOPES)
                    if number > expected.since and event.type in expected.types and in_scope:
                        return number
                return None
            case int():
                held = version == expected
            case _:
                held = expected is ANY or (talk is None) == (expected is NONE_YET)
        return None if held else version

    def append(self, side: int, name: str, batch: list[Told], expected: ExpectedVersion) -> None:
        """Append, and hold what comes of it to what was foretold; then it is in the model, too."""
        talk = self.find(name)
        outcome = self.foretold(name, talk, batch, expected)
        try:
            receipt = self.stores[side].append(name, [written(event) for event in batch], expected=expected)
        except TurnlogError as error:
            assert type(error) is type(outcome), (error, outcome)  # noqa: PT017
            told_of = {key: value for key, value in vars(error).items() if key not in ("why", "index")}
            assert told_of.items() <= vars(outcome).items()
            return
        assert (receipt.first, receipt.last) == outcome
        if talk is None:
            talk = Talk(receipt.conversation, unicodedata.normalize("NFC", name))
            self.talks.append(talk)
        if receipt.first > len(talk.events):
            talk.events += batch
            self.order += [(talk.uuid, version) for version in range(receipt.first, receipt.last + 1)]
            if any(event.id for event in batch):
                self.with_ids.append(([written(event) for event in batch], receipt))
        assert receipt.conversation == talk.uuid

    @rule(side=SIDES, name=NAMES, batch=BATCHES, drawn=EXPECTATIONS)
    def append_by_name(self, side: int, name: str, batch: list[Told], drawn: tuple[Any, int, set[str], str]) -> None:
        self.append(side, name, batch, self.expectation(self.find(name), drawn))

    @precondition(lambda self: self.talks)
    @rule(side=SIDES, data=st.data(), batch=BATCHES, drawn=EXPECTATIONS)
    def append_by_uuid(
        self, side: int, data: st.DataObject, batch: list[Told], drawn: tuple[Any, int, set[str], str]
    ) -> None:
        talk = data.draw(st.sampled_from(self.talks))
        self.append(side, talk.uuid, batch, self.expectation(talk, drawn))

    @precondition(lambda self: self.with_ids)
    @rule(side=SIDES, data=st.data(), drawn=EXPECTATIONS)
    def retry(self, side: int, data: st.DataObject, drawn: tuple[Any, int, set[str], str]) -> None:
        """A batch with an id gives its first receipt again, to the digest, redacted since or not."""
        batch, receipt = data.draw(st.sampled_from(self.with_ids))
        expected = self.expectation(self.find(receipt.conversation), drawn)
        assert self.stores[side].append(receipt.conversation, batch, expected=expected) == receipt

    @precondition(lambda self: self.talks)
    @rule(side=SIDES, data=st.data())
    def redact(self, side: int, data: st.DataObject) -> None:
        talk = data.draw(st.sampled_from(self.talks))
        target = data.draw(st.integers(1, len(talk.events)))
        redaction = {"type": "redaction", "target": target, "reason": "r"}
        receipt = self.stores[side].append(talk.uuid, [redaction], expected=len(talk.events))
        talk.events.append(Told("redaction", SEES_ALL_SCOPES, None, "redaction"))
        talk.events[target - 1].content = None
        self.order.append((talk.uuid, receipt.last))

    @precondition(lambda self: self.talks)
    @rule(side=SIDES, data=st.data(), name=st.none() | NAMES)
    def rename(self, side: int, data: st.DataObject, name: str | None) -> None:
        talk = data.draw(st.sampled_from(self.talks))
        other = None if name is None else self.find(name)
        try:
            self.stores[side].rename(talk.uuid, name)
        except NameTaken:
            assert other not in (None, talk)
        else:
            assert other in (None, talk)
            talk.name = None if name is None else unicodedata.normalize("NFC", name)

    @rule(side=SIDES, name=NAMES, batch=BATCHES)
    def refused(self, side: int, name: str, batch: list[Told]) -> None:
        """A bad event at the end refuses its batch before anything else is looked at."""
        bad = {"type": "message", "role": "narrator"}
        try:
            self.stores[side].append(name, [*map(written, batch), bad], expected=99)
        except InvalidEvent as error:
            assert (error.field, error.value, error.index) == ("role", "narrator", len(batch))  # noqa: PT017
        else:
            raise AssertionError("a bad event was appended")

    @rule(side=SIDES, name=NAMES)
    def undone(self, side: int, name: str) -> None:
        """What was appended in a transaction that fails is gone, the conversation it began included."""
        event = {"type": "clear"}
        try:
            with self.stores[side].transaction():
                self.stores[side].append(name, [event])
                self.stores[side].append(name, [event], expected=NONE_YET)
        except VersionConflict as conflict:
            talk = self.find(name)
            assert conflict.found == (0 if talk is None else len(talk.events)) + 1  # noqa: PT017

    @rule(side=SIDES)
    def reopen(self, side: int) -> None:
        self.stores[side].close()
        self.stores[side] = Store(self.path, durability="normal")

    @invariant()
    def both_connections_see_what_the_model_says(self) -> None:
        for store in self.stores:
            listed = [(each.uuid, each.conversation, each.version) for each in store.conversations()]
            assert listed == [(talk.uuid, talk.name, len(talk.events)) for talk in self.talks]
            assert [(event.conversation, event.version) for event in store.follow()] == self.order
            for talk in self.talks:
                self.compare(store, talk)
        free = [name for name in ("a", "b", "é") if self.find(name) is None]
        for name in free:
            try:
                self.stores[0].version(name)
            except NotFound as missing:
                assert missing.value == name  # noqa: PT017
            else:
                raise AssertionError(f"{name} should be nobody's")

    def compare(self, store: Store, talk: Talk) -> None:
        events = list(store.events(talk.uuid))
        assert [event.version for event in events] == list(range(1, len(talk.events) + 1))
        assert [event.recorded_us for event in events] == sorted(event.recorded_us for event in events)
        for event, model in zip(events, talk.events, strict=True):
            assert (event.type, event.scope, event.id) == (model.type, model.scope, model.id)
            assert event.redacted == (model.content is None)
            if model.type == "message":
                assert event.body.get("content") == model.content


TestStore = StoreMachine.TestCase
TestStore.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
