"""The time of an event is when it happened if its writer gave that, else when it was recorded (DESIGN section 4)."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from turnlog.cli import main
from turnlog.formats import chatcli, openai
from turnlog.formats.document import Value
from turnlog.formats.times import moment
from turnlog.formats.transfers import TransferTools
from turnlog.importing import import_file
from turnlog.projections import describe, history, timeline
from turnlog.projections.reading import resolve
from turnlog.store import InvalidArgument, Message, Store, times

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
CALL = {"id": "t", "type": "function", "function": {"name": "transfer_to_billing", "arguments": "{}"}}


def second(number: int) -> datetime:
    return EPOCH + timedelta(seconds=number)


def said(happened: int | None = None, **fields: Any) -> Message:
    return Message(role="user", content="x", occurred_at=None if happened is None else second(happened), **fields)


class Clock:
    """The system's clock, in seconds, set by hand."""

    def __init__(self) -> None:
        self.now = 0

    def __call__(self) -> int:
        return self.now * 1_000_000_000


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr("time.time_ns", clock)
    return clock


@pytest.fixture
def store() -> Iterator[Store]:
    with Store(":memory:") as store:
        yield store


def fill(store: Store, clock: Clock, log: list[tuple[int, int | None]], conversation: str = "c") -> None:
    """Append an event for each pair of when it is recorded and when it happened."""
    for recorded, happened in log:
        clock.now = recorded
        store.append(conversation, [said(happened)])


class TestVersionAt:
    def test_the_time_that_the_writer_gave(self, store: Store, clock: Clock) -> None:
        """An import of old events is travelled in by the times at which they happened."""
        fill(store, clock, [(100, 10), (100, 20), (100, 20), (100, 30)])
        found = [store.version_at("c", second(time)) for time in (9, 10, 19, 20, 29, 30, 99, 100)]
        assert found == [0, 1, 1, 3, 3, 4, 4, 4]

    def test_the_clock_of_the_store(self, store: Store, clock: Clock) -> None:
        """`clock="recorded"` asks when the store recorded the events, whatever their writers say."""
        fill(store, clock, [(100, 10), (110, 20), (120, 500)])
        found = [store.version_at("c", second(time), clock="recorded") for time in (99, 100, 110, 119, 120)]
        assert found == [0, 1, 2, 2, 3]
        assert store.version_at("c", second(200)) == 2

    def test_nothing_is_shown_that_says_it_came_later(self, store: Store, clock: Clock) -> None:
        """The version is that before the first later event, also where earlier ones come after it."""
        fill(store, clock, [(100, 10), (100, 40), (100, 20), (101, None)])
        assert [store.version_at("c", second(time)) for time in (10, 20, 39, 40, 101)] == [1, 1, 1, 3, 4]

    def test_an_event_without_a_time_came_when_it_was_recorded(self, store: Store, clock: Clock) -> None:
        """Events with and without a time of their own stand in one order."""
        fill(store, clock, [(100, 10), (110, None), (120, 20), (130, None)])
        assert [store.version_at("c", second(time)) for time in (10, 109, 110, 129, 130)] == [1, 1, 3, 3, 4]

    def test_forks(self, store: Store, clock: Clock) -> None:
        """A fork is read through its lineage: its parent's times up to where it forks, then its own."""
        fill(store, clock, [(100, 10), (100, 20), (100, 30)])
        clock.now = 100
        store.fork("c", 2, "kid")
        fill(store, clock, [(110, 40), (120, None)], "kid")
        assert [store.version_at("kid", second(time)) for time in (9, 10, 20, 99, 100, 119, 120)] == [
            0,
            1,
            2,
            2,
            4,
            4,
            5,
        ]

    @given(
        log=st.lists(st.tuples(st.integers(0, 9), st.none() | st.integers(0, 30)), min_size=1, max_size=30),
        fork=st.none() | st.integers(1, 30),
        time=st.integers(-1, 60),
    )
    def test_as_the_rule_says(self, log: list[tuple[int, int | None]], fork: int | None, time: int) -> None:
        """Whatever the times, the version is that before the first event whose time is after the one asked for."""
        clock = Clock()
        with pytest.MonkeyPatch.context() as patch, Store(":memory:") as store:
            patch.setattr("time.time_ns", clock)
            passed = 0
            for number, (pause, happened) in enumerate(log):
                clock.now = passed = passed + pause
                store.append("c" if fork is None or number <= fork else "kid", [said(happened)])
                if number == fork:
                    store.fork("c", name="kid")
            name = "c" if fork is None or fork >= len(log) else "kid"
            events = list(store.events(name))
            clocks: dict[times.Clock, list[datetime]] = {
                "event": [event.time for event in events],
                "recorded": [event.recorded_at for event in events],
            }
            for which, of in clocks.items():
                expected = next((version for version, each in enumerate(of) if each > second(time)), len(of))
                assert store.version_at(name, second(time), clock=which) == expected
            assert store.times_not_in_order(name, {"chat", None}) == [
                event.version for event in events if event.time < max(clocks["event"][: event.version])
            ]

    def test_what_is_refused(self, store: Store) -> None:
        """A clock that there is not is named, and so is a time without a zone."""
        store.append("c", [said()])
        with pytest.raises(InvalidArgument, match="clock: 'wall' is not one of event, recorded"):
            store.version_at("c", EPOCH, clock="wall")  # type: ignore[arg-type]
        with pytest.raises(InvalidArgument, match="time zone"):
            store.version_at("c", datetime(2026, 1, 1))

    def test_a_view_at_a_time(self, store: Store, clock: Clock) -> None:
        """A history at a time and a point that is resolved go by the times of the events."""
        fill(store, clock, [(100, 10), (100, 20)])
        assert history(store, "c", at=second(15)).version == 1
        assert resolve(store, store.stream("c"), second(15)) == 1
        assert resolve(store, store.stream("c"), second(100), "recorded") == 2

    def test_many_events_are_read_in_pages(self, store: Store) -> None:
        """More events with a time of their own than a page holds are looked through to the end."""
        store.append("c", [said(number) for number in range(3000)])
        assert [store.version_at("c", second(time)) for time in (1500, 2999)] == [1501, 3000]
        store.append("c", [said(), said(4000)])
        assert store.version_at("c", second(4000)) == 3000


class TestNotInOrder:
    def test_earlier_than_an_event_before_it(self, store: Store, clock: Clock) -> None:
        """Every event is named whose time is before that of any earlier one, and no other."""
        fill(store, clock, [(100, 10), (100, 40), (100, 20), (100, 40), (101, None), (102, 60)])
        assert store.times_not_in_order("c", {"chat"}) == [3, 6]

    def test_a_time_to_come(self, store: Store, clock: Clock) -> None:
        """After an event that says it happens later, those that are only recorded are earlier than it."""
        fill(store, clock, [(100, None), (101, 500), (102, None), (501, None)])
        assert store.times_not_in_order("c", {"chat"}) == [3]

    def test_only_these_scopes(self, store: Store, clock: Clock) -> None:
        """Scopes that are not asked for neither are named nor make others late."""
        clock.now = 100
        store.append("c", [said(40), said(10, scope="agent"), said(30), said(20, scope="agent")])
        assert store.times_not_in_order("c", {"chat"}) == [3]
        assert store.times_not_in_order("c", {"agent"}) == []
        assert store.times_not_in_order("c", {"agent", "chat", None}) == [2, 3, 4]

    def test_no_times_no_reading(self, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
        """Where no writer gave a time only the index of those that have one is asked."""
        store.append("c", [said() for _ in range(10)])
        monkeypatch.setattr(store.db, "rows", lambda *_: pytest.fail("rows are read"))
        assert store.times_not_in_order(store.stream("c"), {"chat", None}) == []


class TestShown:
    def test_list(self, store: Store, clock: Clock) -> None:
        """A conversation began at the time of its first event and changed at that of its last."""
        fill(store, clock, [(100, 10), (100, 20)])
        fill(store, clock, [(100, 10), (120, None)], "other")
        assert [(each.began, each.changed) for each in store.conversations()] == [
            (second(10), second(20)),
            (second(10), second(120)),
        ]

    def test_views(self, store: Store, clock: Clock) -> None:
        """The views that people read have the time beside when it was recorded, before 1970 too."""
        fill(store, clock, [(100, None)])
        store.append("c", [Message(role="user", content="x", occurred_at=EPOCH - timedelta(microseconds=1))])
        store.append("c", [{"type": "transfer", "to": "b", "occurred_at": "9999-12-31T23:59:59.999999Z"}])
        assert store.db.rows("SELECT time, recorded_at FROM messages ORDER BY version") == [
            ("1970-01-01T00:01:40.000000Z", "1970-01-01T00:01:40.000000Z"),
            ("1969-12-31T23:59:59.999999Z", "1970-01-01T00:01:40.000000Z"),
        ]
        assert store.db.rows("SELECT time FROM handoffs") == [("9999-12-31T23:59:59.999999Z",)]

    @pytest.mark.parametrize(
        ("command", "versions"),
        [
            ("history c --at 1970-01-01T00:00:15", 1),
            ("history c --at 1970-01-01T00:00:15 --clock recorded", 0),
            ("history c --at 1970-01-01T00:00:15 --clock event", 1),
            ("history c --at 2 --clock recorded", 2),
            ("history c --clock recorded", 2),
        ],
    )
    def test_the_command_line(self, tmp_path: Path, command: str, versions: int) -> None:
        """`--at` goes by the times of the events and, with `--clock recorded`, by the store's own clock."""
        with Store(tmp_path / "s.db") as store:
            store.append("c", [said(10), said(20)])
        result = CliRunner().invoke(main, [f"--db={tmp_path / 's.db'}", *command.split(), "--json"])
        assert json.loads(result.stdout)["version"] == versions

    @pytest.mark.parametrize(
        ("command", "shown"),
        [
            ("explain c 1 --at 1970-01-01T00:00:15 --json", '"since":1'),
            ("diff c 1970-01-01T00:00:05 1970-01-01T00:00:15", "c chat at 1"),
            ("diff c 0 1970-01-01T00:00:15 --clock recorded", "+++ c chat at 0"),
            ("request c --wire openai --at 1970-01-01T00:00:15", '"text":"x"'),
            (
                "request c --wire openai --at 1970-01-01T00:00:15 --since 1970-01-01 --clock recorded",
                "conversation begins",
            ),
            ("export c --format openai --at 1970-01-01T00:00:15 --clock recorded", '"messages":[]'),
            ("log c", "1970-01-01 00:00:20"),
            ("list", "1970-01-01 00:00"),
        ],
    )
    def test_every_command_that_takes_or_shows_times(self, tmp_path: Path, command: str, shown: str) -> None:
        """One clock holds for every command, and the other can be asked for wherever a time is taken."""
        with Store(tmp_path / "s.db") as store:
            store.append("c", [said(10), said(20)])
        result = CliRunner().invoke(main, [f"--db={tmp_path / 's.db'}", *command.split()], catch_exceptions=False)
        assert (result.exit_code, shown in result.stdout) == (0, True), result.output


def test_the_index_is_only_of_events_with_a_time(tmp_path: Path) -> None:
    """An append without `occurred_at` writes nothing to the index of times: its pages do not grow."""
    with Store(tmp_path / "s.db") as store:
        store.append("c", [said() for _ in range(2000)])
    with closing(sqlite3.connect(tmp_path / "s.db")) as plain:
        assert plain.execute("SELECT count(*) FROM dbstat WHERE name = 'events_by_time'").fetchone() == (1,)


class TestImport:
    @pytest.mark.parametrize(
        ("value", "expected"),
        [
            ("2026-03-01T10:00:00Z", "2026-03-01T10:00:00Z"),
            ("2026-03-01T10:00:00", "2026-03-01T10:00:00+00:00"),
            ("2026-03-01 10:00:00+02:00", "2026-03-01T10:00:00+02:00"),
            (1_700_000_000, "2023-11-14T22:13:20+00:00"),
            (1_700_000_000.5, "2023-11-14T22:13:20.500000+00:00"),
            (1_700_000_000_123, "2023-11-14T22:13:20.123000+00:00"),
            (1_700_000_000_123_456, "2023-11-14T22:13:20.123456+00:00"),
        ],
    )
    def test_times_in_files(self, value: object, expected: str) -> None:
        """Times in files are ISO texts (UTC if they have no zone) or seconds, milli- or microseconds since 1970."""
        found = moment(value)
        assert found is not None
        assert datetime.fromisoformat(found) == datetime.fromisoformat(expected)

    @pytest.mark.parametrize("value", [None, True, "soon", "2026-03-01", "10", -5, 12, float("nan"), 10**30, [], {}])
    def test_what_is_no_time(self, value: object) -> None:
        """What is not surely a time gives none, and refuses no file."""
        assert moment(value) is None

    def test_what_is_derived_has_the_time_of_its_source(self, store: Store) -> None:
        """A prompt, a description and an inferred transfer have the time of what they come from."""
        messages = [
            {"role": "system", "content": "You greet."},
            {"role": "user", "content": "Hi", "timestamp": "2024-01-01T00:00:01Z"},
            {"role": "assistant", "content": None, "tool_calls": [CALL], "timestamp": 1704067202},
            {"role": "tool", "tool_call_id": "t", "content": "ok", "created_at": 1704067203000},
        ]
        document = {"id": "d", "messages": messages, "kept": 1}
        events = openai.read("f", Value("", document), TransferTools()).events
        assert [(event["type"], event["occurred_at"][17:19]) for event in events] == [
            ("describe", "01"),
            ("assistant", "01"),
            ("message", "01"),
            ("message", "02"),
            ("message", "03"),
            ("transfer", "03"),
        ]
        data = json.dumps(document).encode()
        import_file(store, "f", data, None, tools=TransferTools())
        at = datetime(2024, 1, 1, 0, 0, 2, tzinfo=UTC)
        assert [message.content for message in history(store, "d", at=at).messages][:2] == ["You greet.", "Hi"]
        assert history(store, "d", at=at).version == 4
        assert import_file(store, "f", data, None, tools=TransferTools())[0].added == 0
        assert openai.write("d", timeline(store, "d"), 4, describe(store, "d"))["messages"] == messages[:3]

    def test_sessions(self) -> None:
        """A session document's messages and summaries have their times, and its prompts and transfers too."""
        session = {
            "version": 2,
            "chat_history": [
                {"role": "system", "content": "S", "timestamp": "2024-01-01T00:00:01Z"},
                {"role": "user", "content": "s", "meta": {"is_summary": True}, "timestamp": "2024-01-01T00:00:02Z"},
                {"role": "assistant", "content": None, "tool_calls": [CALL]},
                {"role": "tool", "tool_call_id": "t", "content": "ok", "timestamp": "2024-01-01T00:00:04Z"},
            ],
        }
        events = chatcli.read("f", Value("", session), TransferTools()).events
        assert [(event["type"], event.get("occurred_at", "")[17:19]) for event in events] == [
            ("describe", "01"),
            ("assistant", "01"),
            ("summary", "02"),
            ("message", ""),
            ("message", "04"),
            ("transfer", "04"),
        ]

    def test_files_without_times(self) -> None:
        """Where a file gives no time, none is made up."""
        document = {"messages": [{"role": "system", "content": "S"}, {"role": "user", "content": "x"}]}
        events = openai.read("f", Value("", document), TransferTools()).events
        assert [event for event in events if "occurred_at" in event] == []

    def test_a_rewind_for_a_file_that_changed(self, store: Store) -> None:
        """The rewind before a changed part has the time of that part, so that the part can be travelled in."""

        def take(text: str, second: int) -> None:
            first = {"role": "user", "content": "a", "timestamp": 1704067200}
            messages = [first, {"role": "user", "content": text, "timestamp": 1704067200 + second}]
            data = json.dumps({"id": "d", "messages": messages}).encode()
            import_file(store, "f", data, None, diverged="rewind")

        take("b", 1)
        take("c", 2)
        view = history(store, "d", at=datetime(2024, 1, 1, 0, 0, 2, tzinfo=UTC))
        assert [message.content for message in view.messages] == ["a", "c"]
