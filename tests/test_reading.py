"""Reading the log: by range, type and scope, by position, at a time; read-only; backups; the views for people."""

from __future__ import annotations

import sqlite3
import time
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from test_append import recorded, said

from turnlog.store import Event, InvalidArgument, NewerStore, NotFound, Store, StoreReadOnly, StoreUnusable

LOG: list[dict[str, Any]] = [
    {"type": "describe", "title": "T"},
    said("1", scope="chat"),
    said("2", scope="coder"),
    {"type": "clear", "scope": "coder"},
    {"type": "rewind", "to": 1},
    {"type": "x:mark", "scope": "agent"},
    said("3", scope="shared_memory"),
]


def versions(events: Any) -> list[int]:
    return [event.version for event in events]


class TestEvents:
    @pytest.mark.parametrize(
        ("options", "expected"),
        [
            ({}, [1, 2, 3, 4, 5, 6, 7]),
            ({"first": 3}, [3, 4, 5, 6, 7]),
            ({"last": 2}, [1, 2]),
            ({"first": 2, "last": 2}, [2]),
            ({"first": 5, "last": 4}, []),
            ({"first": -3, "last": 0}, []),
            ({"first": -3, "last": 1}, [1]),
            ({"first": 7, "last": 2**70}, [7]),
            ({"first": 8}, []),
            ({"first": 2**70}, []),
            ({"types": ["message"]}, [2, 3, 7]),
            ({"types": ["message", "x:mark"], "first": 3}, [3, 6, 7]),
            ({"types": []}, []),
            ({"types": ["transfer"]}, []),
            ({"scopes": ["chat"]}, [2]),
            ({"scopes": [None]}, [1, 5]),
            ({"scopes": ["coder", None]}, [1, 3, 4, 5]),
            ({"scopes": ["cod"]}, []),
            ({"scopes": []}, []),
            ({"types": ["clear", "rewind"], "scopes": ["coder", None], "last": 4}, [4]),
        ],
        ids=str,
    )
    def test_filters(self, options: dict[str, Any], expected: list[int]) -> None:
        """Events come by version range, type and scope, None for those without one, forwards and backwards."""
        with Store(":memory:") as store:
            store.append("other", LOG)
            store.append("c", LOG)
            assert versions(store.events("c", **options)) == expected
            assert versions(store.events("c", backwards=True, **options)) == expected[::-1]

    def test_long_logs(self) -> None:
        """A log of thousands of events is read whole, in order, both ways, with and without filters."""
        with Store(":memory:") as store:
            store.append("c", [said(scope="coder" if number % 3 else "chat") for number in range(3500)])
            everything = list(range(1, 3501))
            of_coder = [version for version in everything if (version - 1) % 3]
            assert versions(store.events("c")) == everything
            assert versions(store.events("c", backwards=True)) == everything[::-1]
            assert versions(store.events("c", 1001, 3001)) == everything[1000:3001]
            assert versions(store.events("c", 1, 1000)) == everything[:1000]
            assert versions(store.events("c", scopes=["coder"])) == of_coder
            assert versions(store.events("c", scopes=["coder"], backwards=True)) == of_coder[::-1]
            assert versions(store.follow()) == everything

    def test_an_event(self) -> None:
        """One event is read by its version, with everything that was written and recorded."""
        with Store(":memory:") as store:
            receipt = store.append("c", [said(), said("é", id="i", more=[1])])
            event = store.event("c", 2)
            assert (event.conversation, event.version, event.position) == (receipt.conversation, 2, receipt.position)
            assert (event.type, event.v, event.scope, event.id, event.redacted) == ("message", 1, "chat", "i", False)
            assert event.body == {"role": "user", "content": "é", "more": [1]}
            with pytest.raises(NotFound) as missing:
                store.event("c", 3)
            assert (missing.value.kind, missing.value.value) == ("version", 3)

    def test_a_redacted_event(self) -> None:
        """Of a redacted event the header and the frame are left."""
        with Store(":memory:") as store:
            store.append("c", [said("secret", id="i"), {"type": "redaction", "target": 1, "reason": "r"}])
            event = store.event("c", 1)
            assert (event.redacted, event.body, event.body_text, event.salt) == (True, {}, None, None)
            assert event.to_dict()["frame"] == {"role": "user", "parts": ["text"]}
            assert event.to_dict()["redacted"] is True
            assert versions(store.redactions("c")) == [2]

    def test_events_appended_meanwhile(self) -> None:
        """A reader half way through its pages sees what is appended after its beginning, once, in order."""
        with Store(":memory:") as store:
            store.append("c", [said()] * 1500)
            reading = store.events("c")
            seen = [next(reading).version]
            store.append("c", [said()] * 700)
            seen += versions(reading)
        assert seen == list(range(1, 2201))


class TestFollow:
    def test_the_whole_store(self) -> None:
        """A follower that keeps the last position sees every event of the store once, in order."""
        with Store(":memory:") as store:
            seen: list[Event] = []
            for turn in range(4):
                for name in ("one", "two"):
                    store.append(name, [said(f"{name} {turn}")] * (turn + 1))
                seen += store.follow(seen[-1].position if seen else 0)
                assert list(store.follow(seen[-1].position)) == []
            assert [event.position for event in seen] == [event.position for event in store.follow()]
            contents = [event.body["content"] for event in seen]
        assert contents == [f"{name} {turn}" for turn in range(4) for name in ("one", "two") for _ in range(turn + 1)]

    def test_one_conversation(self) -> None:
        """A follower of one conversation sees its events alone, and goes on from any position."""
        with Store(":memory:") as store:
            store.append("one", [said()] * 2)
            store.append("two", [said()] * 2)
            middle = store.append("one", [said()] * 1200).position
            assert versions(store.follow(conversation="two")) == [1, 2]
            assert versions(store.follow(conversation="one")) == list(range(1, 1203))
            store.append("two", [said()])
            assert versions(store.follow(middle, "two")) == [3]
            assert versions(store.follow(middle - 1, "one")) == [1202]

    def test_appends_while_following(self) -> None:
        """What is appended while a follower reads is seen by it or by its next call, never lost or seen twice."""
        with Store(":memory:") as store:
            store.append("c", [said()] * 1000)
            following = store.follow()
            seen = [next(following)]
            store.append("d", [said()] * 5)
            seen += following
            store.append("c", [said()])
            seen += store.follow(seen[-1].position)
            assert [event.position for event in seen] == [event.position for event in store.follow()]
            assert len(seen) == 1006


class TestConversations:
    def test_listing(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Conversations are listed in the order in which they began, with name, version, times and title."""
        clock = iter(range(1_000_000_000, 9_000_000_000, 1_000_000_000))
        monkeypatch.setattr(time, "time_ns", lambda: next(clock))
        with Store(":memory:") as store:
            store.append("one", [said()])
            store.append("two", [{"type": "describe", "title": "First"}, said()])
            store.append("two", [{"type": "describe", "metadata": {"k": 1}}])
            store.append("one", [{"type": "describe", "title": "Second"}])
            listed = store.conversations()
            at = [datetime(1970, 1, 1, second=second, tzinfo=UTC) for second in range(5)]
            assert [(each.conversation, each.version, each.title) for each in listed] == [
                ("one", 2, "Second"),
                ("two", 3, "First"),
            ]
            assert [(each.began, each.changed) for each in listed] == [(at[1], at[4]), (at[2], at[3])]
            assert [each.uuid for each in listed] == [store.stream(name).uuid for name in ("one", "two")]
            assert {(each.parent, each.forked_at) for each in listed} == {(None, None)}

    def test_version_at(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A time means the last version recorded by then, inclusive; before the first that is 0."""
        clock = iter(second * 1_000_000_000 for second in (10, 20, 20, 15, 30))
        monkeypatch.setattr(time, "time_ns", lambda: next(clock))
        with Store(":memory:") as store:
            for size in (1, 2, 1, 3, 1):
                store.append("c", [said()] * size)
            for seconds, version in ((0, 0), (9.999999, 0), (10, 1), (19, 1), (20, 7), (29, 7), (30, 8), (10**9, 8)):
                moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)
                assert store.version_at("c", moment) == version
                assert store.version_at("c", moment.astimezone()) == version


def bytes_of(folder: Path) -> dict[str, str]:
    """Each file of a folder with the digest of its bytes."""
    return {file.name: sha256(file.read_bytes()).hexdigest() for file in folder.iterdir() if file.is_file()}


def not_a_store(folder: Path, kind: str) -> Path:
    path = folder / "s.db"
    match kind:
        case "directory":
            path.mkdir()
        case "text":
            path.write_text("A text of some length, that is no database.\n" * 100)
        case "short text":
            path.write_text("hi")
        case "foreign":
            connection = sqlite3.connect(path)
            connection.execute("CREATE TABLE events (position INTEGER PRIMARY KEY, body TEXT)")
            connection.close()
        case "damaged":
            Store(path).close()
            data = bytearray(path.read_bytes())
            data[:16] = b"SQLite format 4\0"
            path.write_bytes(data)
    return path


class TestOpening:
    @pytest.mark.parametrize("read_only", [False, True], ids=["writing", "read-only"])
    @pytest.mark.parametrize("kind", ["directory", "text", "short text", "foreign", "damaged"])
    def test_what_is_no_store(self, tmp_path: Path, kind: str, read_only: bool) -> None:
        """A file that is not a store is refused by name, and not a byte of it is changed."""
        path = not_a_store(tmp_path, kind)
        before = bytes_of(tmp_path)
        with pytest.raises(StoreUnusable) as refused:
            Store(path, read_only=read_only)
        assert refused.value.path == str(path)
        assert type(refused.value) is StoreUnusable
        assert bytes_of(tmp_path) == before

    def test_reading_makes_no_file(self, tmp_path: Path) -> None:
        """A missing file opened read-only is refused and not made; nor is one in a folder that is not there."""
        for path, read_only in (
            (tmp_path / "s.db", True),
            (tmp_path / "no" / "s.db", True),
            (tmp_path / "no/s", False),
        ):
            with pytest.raises(StoreUnusable) as refused:
                Store(path, read_only=read_only)
            assert refused.value.path == str(path)
        assert list(tmp_path.iterdir()) == []

    @pytest.mark.parametrize("name", ["s.db", "odd name?mode=rw#%41;é.db"])
    def test_read_only(self, tmp_path: Path, name: str) -> None:
        """A store opened read-only reads everything and writes nothing."""
        with Store(tmp_path / name) as store:
            store.append("c", [said("x", id="i")])
            before = recorded(store)
        with Store(tmp_path / name, read_only=True) as store:
            assert recorded(store) == before
            for write in (
                lambda: store.append("c", [said()]),
                lambda: store.append("c", [said("x", id="i")]),
                lambda: store.append("new", [said()]),
                lambda: store.rename("c", "d"),
                lambda: store.restore([]),
                lambda: store.transaction().__enter__(),
            ):
                with pytest.raises(StoreReadOnly) as refused:
                    write()
                assert refused.value.path == store.path == str(tmp_path / name)
            assert recorded(store) == before

    def test_a_reader_sees_what_another_commits(self, tmp_path: Path) -> None:
        """A read-only store sees each append of another connection once it is committed, and none before."""
        with Store(tmp_path / "s.db") as writer, Store(tmp_path / "s.db", read_only=True) as reader:
            writer.append("c", [said()])
            with writer.transaction():
                writer.append("c", [said()])
                assert reader.version("c") == 1
            assert reader.version("c") == 2

    @pytest.mark.parametrize("read_only", [False, True], ids=["writing", "read-only"])
    def test_a_newer_store(self, tmp_path: Path, read_only: bool) -> None:
        """A store that a newer turnlog wrote is refused, names what is unknown, and is left as it is."""
        path = tmp_path / "s.db"
        with Store(path) as store:
            store.append("c", [said()])
        connection = sqlite3.connect(path, isolation_level=None)
        columns = "(migration_set, name, applied_at)"
        connection.execute(f"INSERT INTO _sqlite_migrations {columns} VALUES ('turnlog', 'm999_future', 'now')")
        connection.execute(f"INSERT INTO _sqlite_migrations {columns} VALUES ('another', 'm777_other', 'now')")
        connection.close()
        before = bytes_of(tmp_path)["s.db"]
        with pytest.raises(NewerStore) as refused:
            Store(path, read_only=read_only)
        assert (refused.value.path, refused.value.migrations) == (str(path), ["m999_future"])
        assert bytes_of(tmp_path)["s.db"] == before

    def test_closing_twice(self, tmp_path: Path) -> None:
        """Closing a store that is closed is nothing."""
        store = Store(tmp_path / "s.db")
        store.close()
        store.close()

    def test_a_wrong_durability(self, tmp_path: Path) -> None:
        """Durability is `full` or `normal`; anything else is refused before a file is made."""
        wrong: Any = "off"
        with pytest.raises(InvalidArgument, match="durability: 'off'"):
            Store(tmp_path / "s.db", durability=wrong)
        assert list(tmp_path.iterdir()) == []

    @pytest.mark.parametrize(("durability", "level"), [("full", 2), ("normal", 1)])
    def test_durability(self, tmp_path: Path, durability: Any, level: int) -> None:
        """The log is written ahead (WAL), with `synchronous=FULL` by default and `NORMAL` by choice."""
        with Store(tmp_path / "s.db", durability=durability) as store, Store(tmp_path / "s.db") as default:
            assert store.db.row("PRAGMA synchronous") == (level,)
            assert default.db.row("PRAGMA synchronous") == (2,)
            assert store.db.row("PRAGMA journal_mode") == ("wal",)
