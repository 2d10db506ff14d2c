"""The append contract: receipts, versions, retries, expectations, times, and what is kept of an event."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from turnlog.store import (
    ANY,
    MUST_EXIST,
    NONE_YET,
    DuplicateEvent,
    ExpectedVersion,
    InvalidEvent,
    Message,
    Store,
    Unchanged,
    VersionConflict,
    line_of,
)


def said(content: Any = "x", **fields: Any) -> dict[str, Any]:
    """A user's message."""
    return {"type": "message", "role": "user", "content": content, **fields}


def recorded(store: Store) -> list[tuple[str, int, str | None]]:
    """Everything a store holds, for `nothing was written`: each event's line and position, and each name."""
    names = {listed.uuid: listed.conversation for listed in store.conversations()}
    return [(line_of(event), event.position, names[event.conversation]) for event in store.follow()]


class TestReceipts:
    def test_versions_are_gapless(self) -> None:
        """Each conversation counts 1, 2, 3 … by itself, and a receipt says which of them it made."""
        with Store(":memory:") as store:
            for turn, size in enumerate((1, 3, 1, 250)):
                for name in ("one", "two"):
                    before = 0 if turn == 0 else store.version(name)
                    receipt = store.append(name, [said()] * size)
                    assert (receipt.first, receipt.last) == (before + 1, before + size)
            for name in ("one", "two"):
                assert [event.version for event in store.events(name)] == list(range(1, 256))

    def test_what_a_receipt_says(self) -> None:
        """A receipt gives the conversation's uuid and the last event's version, position and digest."""
        with Store(":memory:") as store:
            for batch in ([said()], [said(), said()]):
                receipt = store.append("c", batch)
                last = store.event("c", receipt.last)
                assert receipt.last - receipt.first + 1 == len(batch)
                assert receipt.conversation == last.conversation == store.stream("c").uuid
                assert (receipt.position, receipt.digest) == (last.position, last.digest.hex())

    def test_positions_rise_over_the_whole_store(self) -> None:
        """Positions order all conversations' events as they were appended."""
        with Store(":memory:") as store:
            receipts = [store.append(name, [said(), said()]) for name in "abcabc"]
            positions = [event.position for event in store.follow()]
        assert [receipt.position for receipt in receipts] == positions[1::2]
        assert positions == sorted(set(positions))

    def test_a_refused_append_takes_no_version(self) -> None:
        """What was refused leaves no gap in the versions, and a refused first append begins no conversation."""
        with Store(":memory:") as store:
            with pytest.raises(InvalidEvent):
                store.append("c", [said(), {"type": "rewind", "to": 9}])
            assert store.conversations() == []
            assert store.append("c", [said()]).first == 1
            with pytest.raises(InvalidEvent):
                store.append("c", [said(), {"type": "rewind", "to": 9}])
            assert store.append("c", [said()]).first == 2

    def test_a_transaction_is_all_or_nothing(self) -> None:
        """Appends in one `transaction` are kept together or not at all, one inside another by itself."""
        with Store(":memory:") as store:

            def half() -> None:
                with store.transaction():
                    store.append("c", [said()])
                    store.append("d", [said()])
                    raise ZeroDivisionError

            with pytest.raises(ZeroDivisionError):
                half()
            assert recorded(store) == []
            with store.transaction():
                store.append("c", [said("kept")])
                with pytest.raises(VersionConflict):
                    store.append("c", [said("refused")], expected=7)
            assert [event.body["content"] for event in store.follow()] == ["kept"]


BATCH = [said("a", id="a"), said("b", id="b", scope="agent"), {"type": "clear", "id": "c"}]
HELD: list[ExpectedVersion] = [ANY, NONE_YET, MUST_EXIST, 0, 3, 99, Unchanged(0, ("message", "clear"))]


class TestRetries:
    @pytest.mark.parametrize("expected", HELD, ids=str)
    @pytest.mark.parametrize("batch", [BATCH[:1], BATCH], ids=["single", "batch"])
    def test_whatever_was_expected(self, batch: list[dict[str, Any]], expected: ExpectedVersion) -> None:
        """The same ids with the same events give the first receipt again, whatever `expected` says."""
        with Store(":memory:") as store:
            first = store.append("c", batch)
            before = recorded(store)
            assert store.append("c", batch, expected=expected) == first
            store.append("c", [said("later")])
            assert store.append("c", batch, expected=expected) == first
            assert recorded(store)[: len(batch)] == before
            assert store.version("c") == len(batch) + 1

    def test_after_reopening(self, tmp_path: Path) -> None:
        """A retry in another process, after a lost answer, gives the first receipt again."""
        with Store(tmp_path / "s.db") as store:
            first = store.append("c", BATCH, expected=NONE_YET)
        with Store(tmp_path / "s.db") as store:
            assert store.append("c", BATCH, expected=NONE_YET) == first
            assert store.version("c") == 3

    def test_by_uuid_and_after_a_rename(self) -> None:
        """The conversation is the same by its uuid and under another name."""
        with Store(":memory:") as store:
            first = store.append("c", BATCH)
            store.rename("c", "d")
            assert store.append("d", BATCH) == first
            store.rename("d", None)
            assert store.append(first.conversation, BATCH) == first

    @pytest.mark.parametrize(
        "same",
        [
            {"content": "a", "role": "user", "id": "a", "type": "message"},
            said("a", id="a", scope="chat"),
            said("a", id="a", v=1),
            Message(role="user", content="a", id="a"),
        ],
        ids=["other-key-order", "default-scope", "version", "typed"],
    )
    def test_the_same_event_written_otherwise(self, same: Any) -> None:
        """Bodies are compared as JSON: the order of keys and defaults of the header make no other event."""
        with Store(":memory:") as store:
            first = store.append("c", BATCH[:1])
            assert store.append("c", [same]) == first

    def test_events_in_a_row_from_several_batches(self) -> None:
        """What counts is that the events stand in a row, not in how many batches they were appended."""
        with Store(":memory:") as store:
            store.append("c", BATCH[:1])
            last = store.append("c", BATCH[1:])
            again = store.append("c", BATCH)
            assert (again.first, again.last, again.digest, again.position) == (1, 3, last.digest, last.position)
            assert store.append("c", BATCH[1:2]).first == 2

    def test_events_without_an_id_among_those_that_have_one(self) -> None:
        """One id in a batch is enough to know it again, if the events beside it are the same."""
        with Store(":memory:") as store:
            first = store.append("c", [said("a", id="a"), said("b")])
            assert store.append("c", [said("a", id="a"), said("b")]) == first
            with pytest.raises(DuplicateEvent) as refused:
                store.append("c", [said("a", id="a"), said("other")])
            assert refused.value.ids == ["a"]

    def test_without_ids_nothing_is_a_retry(self) -> None:
        """The same events without an id are appended again."""
        with Store(":memory:") as store:
            assert [store.append("c", [said()]).last for _ in range(3)] == [1, 2, 3]

    def test_ids_are_unique_in_their_conversation_only(self) -> None:
        """Another conversation may use the same ids."""
        with Store(":memory:") as store:
            receipts = [store.append(name, BATCH) for name in ("one", "two")]
            assert [(receipt.first, receipt.last) for receipt in receipts] == [(1, 3), (1, 3)]

    @pytest.mark.parametrize(
        "again",
        [said("a", id="a"), said("gone", id="a"), said("a", id="a", scope="coder"), {"type": "clear", "id": "a"}],
        ids=["same", "other-body", "other-scope", "other-type"],
    )
    def test_of_a_redacted_event_the_id_suffices(self, again: dict[str, Any]) -> None:
        """What a redacted event said cannot be compared any more: its id alone makes a retry of it."""
        with Store(":memory:") as store:
            first = store.append("c", BATCH[:1])
            store.append("c", [{"type": "redaction", "target": 1, "reason": "r", "id": "r"}])
            assert store.append("c", [again]) == first

    def test_of_a_redacted_event_without_an_id_the_header_counts(self) -> None:
        """Where there is no id to suffice, a redacted event in a batch is the same by its type and scope."""
        batch = [said("a", id="a"), said("secret")]
        with Store(":memory:") as store:
            first = store.append("c", batch)
            store.append("c", [{"type": "redaction", "target": 2, "reason": "r"}])
            assert store.append("c", batch) == first
            for other in (said("secret", scope="coder"), {"type": "clear"}):
                with pytest.raises(DuplicateEvent) as refused:
                    store.append("c", [batch[0], other])
                assert refused.value.ids == ["a"]

    def test_a_batch_that_redacts_its_own_event(self) -> None:
        """A batch whose redaction has erased one of its events is still the same batch."""
        batch = [said("secret", id="a"), {"type": "redaction", "target": 1, "reason": "r", "id": "r"}]
        with Store(":memory:") as store:
            assert store.append("c", batch) == store.append("c", batch)
            assert store.event("c", 1).redacted


class TestDuplicates:
    @pytest.mark.parametrize(
        ("batch", "ids"),
        [
            ([BATCH[0], said("new", id="new")], ["a"]),
            ([said("new", id="new"), BATCH[0]], ["a"]),
            ([said("other", id="a")], ["a"]),
            ([said("a", id="a", more=None)], ["a"]),
            ([said("a", id="a", scope="agent")], ["a"]),
            ([{"type": "clear", "id": "a"}], ["a"]),
            ([{"type": "clear", "id": "c", "scope": "agent"}], ["c"]),
            ([BATCH[0], BATCH[2]], ["a", "c"]),
            ([BATCH[1], BATCH[0]], ["b", "a"]),
            ([*BATCH, said("new", id="new")], ["a", "b", "c"]),
            ([BATCH[0], said("b", scope="agent")], ["a"]),
            ([said("new"), BATCH[0]], ["a"]),
        ],
        ids=[
            "some-known",
            "some-known-last",
            "other-body",
            "one-more-key",
            "other-scope",
            "other-type",
            "empty-body-other-scope",
            "not-in-a-row",
            "other-order",
            "longer-than-the-log",
            "neighbour-without-its-id",
            "new-neighbour-without-an-id",
        ],
    )
    @pytest.mark.parametrize("expected", [ANY, MUST_EXIST, 3, 99], ids=str)
    def test_refused(self, batch: list[dict[str, Any]], ids: list[str], expected: ExpectedVersion) -> None:
        """Ids taken by anything but this same batch are a `DuplicateEvent` that names them; nothing is written."""
        with Store(":memory:") as store:
            store.append("c", BATCH)
            before = recorded(store)
            with pytest.raises(DuplicateEvent) as refused:
                store.append("c", batch, expected=expected)
            assert (refused.value.conversation, refused.value.ids) == ("c", ids)
            assert recorded(store) == before


class TestExpected:
    @pytest.mark.parametrize("expected", [ANY, NONE_YET, 0, Unchanged(0, ("message",))], ids=str)
    def test_held_by_a_new_conversation(self, expected: ExpectedVersion) -> None:
        """A conversation that is not there has any version, none yet, version 0, and nothing that changed."""
        with Store(":memory:") as store:
            assert store.append("c", [said()], expected=expected).last == 1

    @pytest.mark.parametrize("expected", [ANY, MUST_EXIST, 2, Unchanged(2, ("message",))], ids=str)
    def test_held_by_an_existing_one(self, expected: ExpectedVersion) -> None:
        """A conversation that is there has any version, exists, and has exactly its own version."""
        with Store(":memory:") as store:
            store.append("c", [said(), said()])
            assert store.append("c", [said()], expected=expected).last == 3

    @pytest.mark.parametrize(
        ("there", "expected"),
        [(0, MUST_EXIST), (0, 1), (2, NONE_YET), (2, 0), (2, 1), (2, 3), (2, 2**70)],
        ids=str,
    )
    def test_conflicts(self, there: int, expected: ExpectedVersion) -> None:
        """A broken expectation is a `VersionConflict` with what was expected and found; nothing is written."""
        with Store(":memory:") as store:
            for _ in range(there):
                store.append("c", [said()])
            before = recorded(store)
            with pytest.raises(VersionConflict) as refused:
                store.append("c", [said(id="new")], expected=expected)
            conflict = refused.value
            assert (conflict.conversation, conflict.expected, conflict.found) == ("c", expected, there)
            assert recorded(store) == before

    LOG = (
        said(scope="chat"),
        {"type": "clear", "scope": "chat"},
        said(scope="coder"),
        {"type": "rewind", "to": 1, "scope": "coder"},
        {"type": "rewind", "to": 1},
        {"type": "clear", "scope": "chat"},
    )

    @pytest.mark.parametrize(
        ("expected", "found"),
        [
            (Unchanged(0, ("message",)), 1),
            (Unchanged(1, ("message",)), None),
            (Unchanged(1, ("message",), "coder"), 3),
            (Unchanged(0, ("summary", "transfer")), None),
            (Unchanged(1, ("clear",)), 2),
            (Unchanged(2, ("clear",)), 6),
            (Unchanged(1, ("message", "clear"), "coder"), 3),
            (Unchanged(2, ("rewind",)), 5),
            (Unchanged(3, ("rewind",), "coder"), 4),
            (Unchanged(4, ("rewind",), "agent"), 5),
            (Unchanged(5, ("rewind",)), None),
            (Unchanged(6, ("clear",)), None),
            (Unchanged(0, ()), None),
            (Unchanged(2**70, ("message",)), None),
        ],
        ids=str,
    )
    def test_unchanged(self, expected: Unchanged, found: int | None) -> None:
        """`Unchanged` sees its types in its scope after its version, and what is of all scopes; it names the first."""
        with Store(":memory:") as store:
            store.append("c", self.LOG)
            if found is None:
                assert store.append("c", [said()], expected=expected).first == 7
            else:
                with pytest.raises(VersionConflict) as refused:
                    store.append("c", [said()], expected=expected)
                assert (refused.value.expected, refused.value.found) == (expected, found)
                assert store.version("c") == 6


class TestTimes:
    def test_recorded_at_never_falls(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """`recorded_at` is the clock's, in microseconds, but never below the conversation's last."""
        clock = iter((1_000_000_005_000, 1_000_000_001_000, 1_000_000_009_999, 7_000))
        monkeypatch.setattr(time, "time_ns", lambda: next(clock))
        with Store(":memory:") as store:
            for _ in range(3):
                store.append("c", [said(), said()])
            store.append("other", [said()])
            times = [event.recorded_us for event in store.events("c")]
            assert times == [1_000_000_005] * 4 + [1_000_000_009] * 2
            assert [event.recorded_us for event in store.events("other")] == [7]

    def test_recorded_at_is_utc(self) -> None:
        """`recorded_at` lies between the times before and after the append, in UTC."""
        with Store(":memory:") as store:
            before = datetime.now(UTC)
            store.append("c", [said()])
            event = store.event("c", 1)
        assert before.replace(microsecond=0) <= event.recorded_at <= datetime.now(UTC)
        assert event.occurred_at is None

    @pytest.mark.parametrize(
        "occurred_at",
        ["2026-03-01T12:00:00.000001+02:00", datetime.fromisoformat("2026-03-01T12:00:00.000001+02:00")],
        ids=["text", "datetime"],
    )
    def test_occurred_at_is_the_writers(self, occurred_at: Any) -> None:
        """`occurred_at` is kept to the microsecond, as UTC."""
        with Store(":memory:") as store:
            store.append("c", [said(occurred_at=occurred_at)])
            assert store.event("c", 1).occurred_at == datetime(2026, 3, 1, 10, 0, 0, 1, tzinfo=UTC)
            assert store.event("c", 1).to_dict()["occurred_at"] == "2026-03-01T10:00:00.000001Z"


class TestForks:
    def test_a_retry_of_what_was_shared(self) -> None:
        """What a fork shares is its own history: the same ids with the same events give the first receipt again."""
        with Store(":memory:") as store:
            first = store.append("c", BATCH)
            store.fork("c", 3, "fork")
            again = store.append("fork", BATCH)
            assert (again.first, again.last, again.digest) == (first.first, first.last, first.digest)
            assert store.version("fork") == 4
            with pytest.raises(DuplicateEvent) as refused:
                store.append("fork", [said("other", id="b")])
            assert refused.value.ids == ["b"]

    def test_ids_used_after_the_fork(self) -> None:
        """An id that the parent used only later is free in the fork, and the other way round."""
        with Store(":memory:") as store:
            store.append("c", [said(id="shared")])
            store.fork("c", 1, "fork")
            assert store.append("c", [said("one", id="later")]).first == 2
            assert store.append("fork", [said("two", id="later")]).first == 3

    def test_expectations(self) -> None:
        """A fork's versions go on from its parent's, for every expectation, and never look past the fork."""
        with Store(":memory:") as store:
            store.append("c", [said(), said()])
            store.fork("c", 1, "fork")
            store.append("c", [{"type": "clear"}])
            assert store.append("fork", [said()], expected=2).first == 3
            assert store.append("fork", [said()], expected=Unchanged(0, ("clear",))).first == 4
            for expected, found in ((Unchanged(0, ("message",)), 1), (Unchanged(1, ("message",)), 3), (2, 4)):
                with pytest.raises(VersionConflict) as refused:
                    store.append("fork", [said()], expected=expected)
                assert refused.value.found == found
