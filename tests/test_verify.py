"""Verify, with the triggers dropped: whatever is changed, removed, inserted or moved is named."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from test_append import said
from test_chain import EVENTS

from turnlog.store import Store

Where = tuple[str | None, int | None]  # A conversation, by its name here, and a version.
NAMES = ("one", "two", "three", "four")
FIRST = {"one": 1, "two": 1, "three": 5, "four": 6}
FORKED: dict[Where, set[Where]] = {("one", 4): {("three", 5)}, ("three", 5): {("four", 6)}}


def fill(store: Store) -> None:
    """Conversations with every kind of event, interleaved: `three` forks from `one` at 4, `four` from `three` at 5."""
    store.append("one", EVENTS[:4])
    store.append("two", [said("first"), said("second", id="b")])
    store.fork("one", 4, "three")
    store.append("one", EVENTS[4:])
    store.append("three", [said("only here", occurred_at="2026-01-01T00:00:00Z")])
    store.fork("three", 5, "four")
    store.redact("two", [1], reason="asked for")
    store.append("three", [said("later")])
    store.append("two", [said("last")])
    store.redact("one", [3, 5], reason="asked for")


@contextmanager
def unguarded(path: Path) -> Iterator[sqlite3.Connection]:
    """A connection that no trigger and no CHECK holds; the triggers are put back, so that only the change shows."""
    plain = sqlite3.connect(path, isolation_level=None)
    try:
        plain.execute("PRAGMA synchronous = OFF")
        plain.execute("PRAGMA ignore_check_constraints = ON")
        triggers = plain.execute("SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'").fetchall()
        for name, _ in triggers:
            plain.execute(f"DROP TRIGGER {name}")
        # It reads the frames of redactions, and would refuse those that are no JSON.
        index = plain.execute("SELECT sql FROM sqlite_schema WHERE name = 'events_by_target'").fetchone()[0]
        plain.execute("DROP INDEX events_by_target")
        yield plain
        for sql in (*(sql for _, sql in triggers), index):
            plain.execute(sql)
    finally:
        plain.close()


class Raw:
    """A store that verifies, and a connection to it that may change anything."""

    def __init__(self, store: Store, plain: sqlite3.Connection) -> None:
        self.store = store
        self.plain = plain
        self.uuids = {store.stream(name).uuid: name for name in NAMES}
        self.before = store.verify().faults  # That no trigger is there.

    def named(self) -> list[Where]:
        """What verify names, beside the triggers."""
        new = [fault for fault in self.store.verify().faults if fault not in self.before]
        return [(self.uuids.get(fault.conversation or "", fault.conversation), fault.version) for fault in new]

    def rows(self) -> list[tuple[int, str, int, str, int]]:
        """Each event's position, conversation, version and type, and its redaction's target or 0."""
        found = self.plain.execute(
            "SELECT position, uuid, version, type, coalesce(json_extract(frame, '$.target'), 0)"
            " FROM events JOIN conversations ON key = conversation ORDER BY position"
        ).fetchall()
        return [(position, self.uuids[uuid], *rest) for position, uuid, *rest in found]

    @contextmanager
    def changed(self, table: str, rowid: int, column: str, value: str, *parameters: Any) -> Iterator[bool]:
        """A row with a column set to an SQL expression, put back afterwards; False if it could not be, or was so."""
        old = self.plain.execute(f"SELECT {column} FROM {table} WHERE rowid = ?", (rowid,)).fetchone()[0]
        self.plain.execute(
            f"UPDATE OR IGNORE {table} SET {column} = {value} WHERE rowid = ? AND {column} IS NOT {value}",
            (*parameters, rowid, *parameters),
        )
        try:
            yield bool(self.plain.execute("SELECT changes()").fetchone()[0])
        finally:
            self.plain.execute(f"UPDATE {table} SET {column} = ? WHERE rowid = ?", (old, rowid))


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path: Path = tmp_path_factory.mktemp("verify") / "template.db"
    with Store(path) as store:
        fill(store)
    return path


@pytest.fixture
def path(template: Path, tmp_path: Path) -> Path:
    copy = tmp_path / "s.db"
    copy.write_bytes(template.read_bytes())
    return copy


@pytest.fixture
def raw(path: Path) -> Iterator[Raw]:
    with unguarded(path) as plain, Store(path) as store:
        yield Raw(store, plain)


CHANGES: dict[str, tuple[str, ...]] = {
    "type": ("type || 'x'", "''", "'message'", "'x:mark'", "'fork'", "upper(type)"),
    "v": ("v + 1", "0", "-1"),
    "scope": ("NULL", "'chat'", "''", "'coder'", "scope || ' '"),
    "id": ("NULL", "'new'", "''", "id || 'x'"),
    "recorded_at": ("recorded_at + 1", "recorded_at - 1", "0", "9223372036854775807", "-9223372036854775807"),
    "occurred_at": ("NULL", "0", "recorded_at", "occurred_at + 1", "9223372036854775807"),
    "frame": ("frame || ' '", "'{}'", "''", "'null'", "CAST(x'ff' AS TEXT)", "replace(frame, 'e', 'f')"),
    "body": ("NULL", "'{}'", "''", "body || ' '", "CAST(x'ff' AS TEXT)", "replace(body, 'e', 'f')"),
    "salt": ("NULL", "zeroblob(16)", "x''", "zeroblob(17)"),
    "body_digest": ("NULL", "zeroblob(32)", "x''", "substr(body_digest, 2)"),
    "digest": ("zeroblob(32)", "x''", "substr(digest, 2)", "CAST(digest || x'00' AS BLOB)"),
}
PLACES: dict[str, tuple[str, ...]] = {
    "position": ("position + 1000", "-position", "0", "1 + (SELECT max(position) FROM events)"),
    "conversation": ("1", "2", "3", "4", "99", "0"),
    "version": ("version + 100", "version + 1", "version - 1", "-version", "0"),
}


def test_every_column_is_tried(raw: Raw) -> None:
    """What follows tries each column that the table of events has."""
    columns = raw.plain.execute("SELECT name FROM pragma_table_info('events')").fetchall()
    assert {name for (name,) in columns} == CHANGES.keys() | PLACES.keys()


@pytest.mark.parametrize("column", CHANGES)
def test_any_column_of_any_event(raw: Raw, column: str) -> None:
    """An event of which any column has another value is the one that is named, and nothing but it and its forks is."""
    changed = 0
    for position, name, version, _, target in raw.rows():
        for value in CHANGES[column]:
            with raw.changed("events", position, column, value) as was_changed:
                if not was_changed:
                    continue
                changed += 1
                named = dict(raw.named())
                # What a redaction names comes before it, and is not named any more.
                assert named.pop(name, None) in (version, target or version), (name, version, value)
                assert column in ("digest", "recorded_at") or not named, (name, version, value)
    assert changed >= len(raw.rows())
    assert raw.named() == []


@pytest.mark.parametrize("flip", [0x01, 0x80])
@pytest.mark.parametrize("column", ["type", "scope", "id", "frame", "body", "salt", "body_digest", "digest"])
def test_any_byte_of_any_text(raw: Raw, column: str, flip: int) -> None:
    """An event of which one byte is another is named, also where the bytes are no text any more."""
    kind = "BLOB" if column in ("salt", "body_digest", "digest") else "TEXT"
    changed = 0
    for position, name, version, _, target in raw.rows():
        sql = f"SELECT CAST({column} AS BLOB) FROM events WHERE position = ?"
        data: bytes = raw.plain.execute(sql, (position,)).fetchone()[0] or b""
        for place in range(0, len(data), 1 if name == "two" or len(data) < 16 else 13):
            other = data[:place] + bytes([data[place] ^ flip]) + data[place + 1 :]
            with raw.changed("events", position, column, f"CAST(? AS {kind})", other) as was_changed:
                assert was_changed
                changed += 1
                assert dict(raw.named())[name] in (version, target or version), (name, version, place)
    assert changed > 10


@pytest.mark.parametrize(
    ("text", "written"), [("a \ufffd b", "\ufffd"), ("a \\xff b", "\\xff"), ("a \\udcff b", "\\udcff"), ("a ? b", "?")]
)
def test_a_byte_that_may_be_read_as_the_text_it_was(tmp_path: Path, text: str, written: str) -> None:
    """A body in which a sign that bytes of no text are often shown as became such a byte is named."""
    with Store(tmp_path / "s.db") as store:
        identity = store.append("c", [said(text)]).conversation
    with unguarded(tmp_path / "s.db") as plain:
        body = plain.execute("SELECT CAST(body AS BLOB) FROM events").fetchone()[0]
        other = body.replace(written.encode(), b"\xff")
        assert other != body
        plain.execute("UPDATE events SET body = CAST(? AS TEXT)", (other,))
    with Store(tmp_path / "s.db") as store:
        assert [(fault.conversation, fault.version) for fault in store.verify().faults] == [(identity, 1)]


@pytest.mark.parametrize("value", PLACES["position"])
def test_any_position(raw: Raw, value: str) -> None:
    """An event at another position is named, or the one that then stands after it or after the gap that it leaves."""
    rows = raw.rows()
    for number, (position, name, version, *_) in enumerate(rows):
        new = raw.plain.execute(f"SELECT {value} FROM events WHERE position = ?", (position,)).fetchone()[0]
        raw.plain.execute("UPDATE OR IGNORE events SET position = ? WHERE position = ?", (new, position))
        after_gap = [(other, at) for _, other, at, *_ in rows[number + 1 : number + 2]]
        named = raw.named()
        assert set(named) & {(name, version), (name, version + 1), *after_gap}, (name, version)
        raw.plain.execute("UPDATE events SET position = ? WHERE position = ?", (position, new))
    assert raw.named() == []


@pytest.mark.parametrize("value", PLACES["version"])
def test_any_version(raw: Raw, value: str) -> None:
    """An event of another version is named, or the first that then does not follow the one before it."""
    changed = 0
    for position, name, version, _, target in raw.rows():
        with raw.changed("events", position, "version", value) as was_changed:
            if was_changed:
                changed += 1
                rows = [(other, at) for _, other, at, *_ in raw.rows() if other == name]
                order = sorted(at for _, at in rows if at > 0)
                gap = [at for number, at in enumerate(order, FIRST[name]) if at != number]
                named = dict(raw.named())
                assert name in named, (name, version)
                lowest = min(at for _, at in rows)
                assert not gap or named[name] in (gap[0], target, lowest), (name, version)
    assert changed >= 4


@pytest.mark.parametrize("key", PLACES["conversation"])
def test_an_event_moved_to_another_conversation(raw: Raw, key: str) -> None:
    """An event moved to another conversation is named there; one of a conversation that is not there, without it."""
    there = dict(enumerate(NAMES, 1)).get(int(key))
    for position, name, version, *_ in raw.rows():
        with raw.changed("events", position, "conversation", key) as was_changed:
            assert not was_changed or (there, version) in raw.named(), (name, version)


@pytest.mark.parametrize("there", NAMES)
def test_an_event_moved_to_the_end_of_another_conversation(raw: Raw, there: str) -> None:
    """An event moved to where another conversation goes on is named there, unless that forks from where it was."""
    rows = raw.rows()
    end = 1 + max(at for _, other, at, *_ in rows if other == there)
    move = "UPDATE events SET conversation = ?, version = ? WHERE position = ?"
    for position, name, version, *_ in rows:
        if name != there:
            raw.plain.execute(move, (1 + NAMES.index(there), end, position))
            assert dict(raw.named())[there] in (end, FIRST[there] if (name, version) in FORKED else end), (
                name,
                version,
            )
            raw.plain.execute(move, (1 + NAMES.index(name), version, position))
    assert raw.named() == []


def test_any_event_deleted(raw: Raw) -> None:
    """The event after a deleted one is named, in its conversation, its forks and the store; after the last none is."""
    rows = raw.rows()
    for number, (position, name, version, *_) in enumerate(rows):
        after = [(other, at) for _, other, at, *_ in rows[number + 1 : number + 2]]
        follows = {(other, at) for _, other, at, *_ in rows if (other, at) == (name, version + 1)}
        forked = FORKED.get((name, version), set())
        old = raw.plain.execute("SELECT * FROM events WHERE position = ?", (position,)).fetchone()
        raw.plain.execute("DELETE FROM events WHERE position = ?", (position,))
        named = raw.named()
        assert set(named) >= {*after, *forked}
        assert follows <= set(named) or (name, version) == ("two", 3), "its redaction's target is named first"
        assert named or number == len(rows) - 1
        raw.plain.execute(f"INSERT INTO events VALUES ({', '.join('?' * len(old))})", old)
    assert raw.named() == []


COPY = (
    "INSERT INTO events SELECT 1 + (SELECT max(position) FROM events), ?, ?, type, v, scope, NULL, recorded_at,"
    " occurred_at, frame, body, salt, body_digest, digest FROM events WHERE position = 2"
)


@pytest.mark.parametrize("version", [1, 3, 6, 9])
@pytest.mark.parametrize("name", NAMES)
def test_an_event_inserted(raw: Raw, name: str, version: int) -> None:
    """A copy of a genuine event put anywhere into a conversation, the later ones pushed up, is named there."""
    key, end = NAMES.index(name) + 1, 1 + max(at for _, other, at, *_ in raw.rows() if other == name)
    at = min(version, end)
    raw.plain.execute(f"UPDATE events SET version = -version - 1 WHERE conversation = {key} AND version >= {at}")
    raw.plain.execute(f"UPDATE events SET version = -version WHERE conversation = {key} AND version < 0")
    raw.plain.execute(COPY, (key, at))
    assert dict(raw.named())[name] == at


@pytest.mark.parametrize("version", [0, -1])
@pytest.mark.parametrize("name", NAMES)
def test_an_event_inserted_before_the_first(raw: Raw, name: str, version: int) -> None:
    """An event of a version below 1, which no view shows, is named in its conversation."""
    raw.plain.execute(COPY, (NAMES.index(name) + 1, version))
    assert name in dict(raw.named())


SWAPS = {
    "salts": ("salt",),
    "bodies": ("body",),
    "bodies and salts": ("body", "salt", "body_digest"),
    "frames and bodies": ("frame", "body", "salt", "body_digest"),
    "all but their places": (
        "type",
        "v",
        "scope",
        "id",
        "recorded_at",
        "occurred_at",
        "frame",
        "body",
        "salt",
        "digest",
    ),
    "versions": ("version",),
    "positions": ("position",),
}


@pytest.mark.parametrize("pair", [("one", 1, 2), ("one", 2, 4), ("three", 6, 7)], ids=str)
@pytest.mark.parametrize("columns", SWAPS.values(), ids=list(SWAPS))
def test_swapped_events(raw: Raw, columns: tuple[str, ...], pair: tuple[str, int, int]) -> None:
    """Two events of a conversation that have each other's salts, bodies, contents or places: the first is named."""
    name, *versions = pair
    a, b = (position for position, other, at, *_ in raw.rows() if other == name and at in versions)
    rows = [raw.plain.execute("SELECT * FROM events WHERE position = ?", (position,)).fetchone() for position in (a, b)]
    names = [column for column, *_ in raw.plain.execute("SELECT name FROM pragma_table_info('events')")]
    raw.plain.execute(f"DELETE FROM events WHERE position IN ({a}, {b})")
    for row, other in (rows, rows[::-1]):
        new = [other[at] if column in columns else row[at] for at, column in enumerate(names)]
        raw.plain.execute(f"INSERT INTO events VALUES ({', '.join('?' * len(new))})", new)
    first = versions[1] if columns == ("position",) and versions[1] == versions[0] + 1 else versions[0]
    named = dict(raw.named())
    assert named.pop(name) in ((versions[0] + 1, first) if columns == ("position",) else (first,))
    assert not named or name == "one"


def test_salts_swapped_between_conversations(raw: Raw) -> None:
    """Events of two conversations that have each other's salts are both named."""
    one, two = (raw.plain.execute(f"SELECT salt FROM events WHERE position = {at}").fetchone() for at in (2, 6))
    raw.plain.execute("UPDATE events SET salt = ? WHERE position = 2", two)
    raw.plain.execute("UPDATE events SET salt = ? WHERE position = 6", one)
    assert raw.named() == [("one", 2), ("two", 2)]


def test_only_the_first_of_each_conversation(raw: Raw) -> None:
    """Of each conversation the first bad event is named, once, and one conversation's fault hides no other's."""
    raw.plain.execute("UPDATE events SET body = '{}' WHERE body IS NOT NULL AND (conversation, version) <> (1, 1)")
    assert raw.named() == [("one", 2), ("two", 2), ("three", 5), ("four", 6)]
