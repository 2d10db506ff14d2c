"""The triggers of schema.sql hold every connection to an append-only log; a redaction is the one door.

The connections here are plain sqlite3 with its defaults (recursive triggers and foreign keys off), as any program's.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from test_append import said

from turnlog.store import Store

EVENTS = (
    "INSERT {how} INTO events"
    " (position, conversation, version, type, v, scope, id, recorded_at, frame, body, salt, digest)"
    " VALUES ({position}, {conversation}, {version}, '{type}', 1, 'chat', {id}, 9, '{frame}', '{{}}',"
    " zeroblob(16), zeroblob(32)) {then}"
)
APPENDABLE = {"how": "", "position": "NULL", "conversation": 1, "version": 4, "type": "clear", "id": "NULL"}
APPENDABLE |= {"frame": "{}", "then": ""}


def insert(**fields: Any) -> str:
    """The SQL of an insert that would append version 4 of conversation 1, but for these fields."""
    return EVENTS.format(**(APPENDABLE | fields))


@pytest.fixture
def plain(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    """A plain connection to a store of two conversations, the first of three events with ids, of which one is 'b'."""
    with Store(tmp_path / "s.db", durability="normal") as store:
        store.append("one", [said("a", id="a"), said("b", id="b"), said("c", id="c")])
        store.append("two", [said("d", id="d")])
    connection = sqlite3.connect(tmp_path / "s.db", isolation_level=None)
    assert connection.execute("PRAGMA recursive_triggers").fetchone() == (0,)
    assert connection.execute("PRAGMA foreign_keys").fetchone() == (0,)
    yield connection
    connection.close()


def contents(plain: sqlite3.Connection) -> list[tuple[Any, ...]]:
    """Every row of both tables."""
    rows = plain.execute("SELECT * FROM events ORDER BY position").fetchall()
    return rows + plain.execute("SELECT * FROM conversations ORDER BY key").fetchall()


def refuses(plain: sqlite3.Connection, sql: str, why: str = "turnlog: ") -> None:
    """A statement is aborted and changes nothing."""
    before = contents(plain)
    with pytest.raises(sqlite3.IntegrityError) as error:
        plain.execute(sql)
    assert why in str(error.value)
    assert contents(plain) == before


@pytest.mark.parametrize("rows", ["", " WHERE version = 2", " WHERE id = 'a'", " WHERE conversation = 2"])
def test_events_are_never_deleted(plain: sqlite3.Connection, rows: str) -> None:
    """No DELETE on events goes through."""
    refuses(plain, "DELETE FROM events" + rows, "never deleted")


@pytest.mark.parametrize("how", ["", "OR REPLACE", "OR IGNORE", "OR FAIL", "OR ROLLBACK"])
@pytest.mark.parametrize(
    "change",
    [
        "position = 99",
        "position = 1",
        "conversation = 2",
        "version = 9",
        "version = 1",
        "type = 'clear'",
        "v = 2",
        "scope = 'coder'",
        "scope = NULL",
        "id = 'z'",
        "id = 'a'",
        "id = NULL",
        "recorded_at = recorded_at + 1",
        "occurred_at = 1",
        "frame = '{}'",
        "body = '{}'",
        "body = body",
        "salt = zeroblob(16)",
        "digest = zeroblob(32)",
        "body = NULL, salt = NULL, body_digest = zeroblob(32)",
    ],
)
def test_events_are_never_updated(plain: sqlite3.Connection, how: str, change: str) -> None:
    """No UPDATE of an event goes through, whatever it changes and however it resolves conflicts."""
    refuses(plain, f"UPDATE {how} events SET {change} WHERE version = 2", "never updated")


@pytest.mark.parametrize("how", ["", "OR REPLACE", "OR IGNORE", "OR FAIL", "OR ROLLBACK"])
@pytest.mark.parametrize(
    "fields",
    [
        {"position": 1},
        {"position": 4},
        {"version": 3},
        {"version": 1},
        {"version": 2, "id": "'z'"},
        {"id": "'a'"},
        {"position": 99, "id": "'b'"},
        {"position": 99, "version": 2},
        {"position": 2, "version": 2, "id": "'b'"},
    ],
    ids=str,
)
def test_events_are_never_replaced(plain: sqlite3.Connection, how: str, fields: dict[str, Any]) -> None:
    """INSERT OR REPLACE by position, by conversation and version or by id is refused, as is filling in below."""
    refuses(plain, insert(how=how, **fields), "only appended")


@pytest.mark.parametrize("version", [3, 4, 6, 7])
def test_gaps_are_not_filled_in(plain: sqlite3.Connection, version: int) -> None:
    """Even where another program left a gap in the versions, nothing lands before what is there."""
    plain.execute(insert(version=7))
    refuses(plain, insert(version=version), "only appended")


@pytest.mark.parametrize(
    "then",
    [
        "ON CONFLICT DO UPDATE SET body = excluded.body",
        "ON CONFLICT (position) DO UPDATE SET body = '{}'",
        "ON CONFLICT DO NOTHING",
    ],
)
def test_events_are_not_upserted(plain: sqlite3.Connection, then: str) -> None:
    """An upsert is no way around the triggers."""
    refuses(plain, insert(version=2, then=then), "only appended")


@pytest.mark.parametrize("fields", [{"position": 0}, {"position": -5}, {"version": 0, "conversation": 3}], ids=str)
def test_events_count_from_one(plain: sqlite3.Connection, fields: dict[str, Any]) -> None:
    """Positions and versions below 1 are refused, so that nothing can be put before the log."""
    refuses(plain, insert(**fields), "CHECK")


def test_a_replacing_batch_is_refused_whole(plain: sqlite3.Connection) -> None:
    """A statement that appends one row and replaces it by its next takes back the first, too."""
    row = insert(how="OR REPLACE", position=50)
    refuses(plain, f"{row}, {row[row.index('VALUES') + 6 :]}", "only appended")


def test_an_append_goes_through(plain: sqlite3.Connection) -> None:
    """The guards refuse no row that comes after all others, from whatever connection."""
    plain.execute(insert())
    plain.execute(insert(how="OR REPLACE", version=5, position=50, id="'e'"))
    assert plain.execute("SELECT version, position FROM events WHERE version > 3").fetchall() == [(4, 5), (5, 50)]


@pytest.mark.parametrize(
    "sql",
    [
        "DELETE FROM conversations",
        "DELETE FROM conversations WHERE key = 2",
        "INSERT OR REPLACE INTO conversations (key, uuid, name) VALUES (1, 'u', 'n')",
        "INSERT OR REPLACE INTO conversations (uuid, name) SELECT uuid, 'n' FROM conversations WHERE key = 1",
        "INSERT OR REPLACE INTO conversations (uuid, name) VALUES ('u', 'one')",
        "INSERT OR IGNORE INTO conversations (uuid, name) VALUES ('u', 'one')",
        "INSERT INTO conversations (uuid, name) VALUES ('u', 'one') ON CONFLICT DO UPDATE SET uuid = 'u'",
        "UPDATE conversations SET key = 9 WHERE key = 1",
        "UPDATE conversations SET uuid = 'u' WHERE key = 1",
        "UPDATE conversations SET uuid = 'u', name = 'n' WHERE key = 1",
        "UPDATE conversations SET parent = 2, forked_at = 1 WHERE key = 1",
        "UPDATE OR REPLACE conversations SET key = 2 WHERE key = 1",
        "UPDATE OR REPLACE conversations SET name = 'two' WHERE key = 1",
        "UPDATE conversations SET name = 'two' WHERE key = 1",
        "UPDATE conversations SET name_salt = zeroblob(16) WHERE key = 1",
        "UPDATE conversations SET name = 'uno', name_salt = zeroblob(16) WHERE key = 1",
    ],
)
def test_conversations_are_kept(plain: sqlite3.Connection, sql: str) -> None:
    """A conversation is never deleted or replaced, and nothing of it but its name changes, to one that is free."""
    refuses(plain, sql)


def test_names_can_change(plain: sqlite3.Connection) -> None:
    """The name of a conversation can be changed and dropped."""
    plain.execute("UPDATE conversations SET name = 'uno' WHERE key = 1")
    plain.execute("UPDATE conversations SET name = NULL, name_salt = NULL WHERE key = 2")
    assert plain.execute("SELECT name FROM conversations ORDER BY key").fetchall() == [("uno",), (None,)]


ERASE = "UPDATE events SET body = NULL, salt = NULL, body_digest = zeroblob(32) WHERE conversation = 1 AND version = 2"


def test_the_door(plain: sqlite3.Connection) -> None:
    """Once a redaction of the conversation names an event, its body and salt can go, and nothing else of it."""
    before = contents(plain)[1]
    plain.execute(insert(type="redaction", frame='{"target":2}'))
    plain.execute(ERASE)
    row = contents(plain)[1]
    kept = [(old, new) for old, new in zip(before, row, strict=True) if old != new]
    assert kept == [(before[10], None), (before[11], None), (None, bytes(32))]
    assert before[10].startswith('{"role"')
    assert len(before[11]) == 16


@pytest.mark.parametrize(
    ("redaction", "erase"),
    [
        ({"frame": '{"target":1}'}, ERASE),
        ({"frame": '{"target":"2"}'}, ERASE),
        ({"frame": '{"to":2}'}, ERASE),
        ({"type": "rewind"}, ERASE),
        ({"type": "x:redaction"}, ERASE),
        ({"conversation": 2}, ERASE),
        ({}, ERASE.replace("= NULL, salt", "= '{}', salt")),
        ({}, ERASE.replace("salt = NULL", "salt = salt")),
        ({}, ERASE.replace("body = NULL, salt = NULL", "body = body")),
        ({}, ERASE.replace("zeroblob(32)", "zeroblob(31)")),
        ({}, ERASE.replace("zeroblob(32)", "NULL")),
        ({}, ERASE.replace("body = NULL", "body = NULL, frame = '{}'")),
        ({}, ERASE.replace("body = NULL", "body = NULL, digest = zeroblob(32)")),
        ({}, ERASE.replace("body = NULL", "body = NULL, id = NULL")),
        ({}, ERASE.replace("body = NULL", "body = NULL, scope = NULL")),
        ({}, ERASE.replace("body = NULL", "body = NULL, position = 77")),
        ({}, ERASE.replace("body = NULL", "body = NULL, recorded_at = 0")),
        ({}, ERASE.replace("version = 2", "version = 3")),
        ({}, ERASE.replace("AND version = 2", "")),
        ({}, ERASE.replace("conversation = 1 AND ", "")),
    ],
)
def test_what_the_door_does_not_let_through(plain: sqlite3.Connection, redaction: dict[str, Any], erase: str) -> None:
    """The door opens for a redaction of that conversation and version only, and for nothing but the erasure."""
    plain.execute(insert(**({"type": "redaction", "frame": '{"target":2}'} | redaction)))
    if "conversation = 1 AND " not in erase:
        plain.execute(insert(conversation=2, version=2))
    refuses(plain, erase, "")


def test_a_redaction_past_itself_opens_nothing(plain: sqlite3.Connection) -> None:
    """A redaction names what stands before it: one of an event yet to come does not open the door to that."""
    plain.execute(insert(type="redaction", frame='{"target":5}'))
    plain.execute(insert(version=5))
    refuses(plain, ERASE.replace("version = 2", "version = 5"), "never updated")


@pytest.mark.parametrize(
    "change",
    [
        "body = '{}', salt = zeroblob(16), body_digest = NULL",
        "body_digest = zeroblob(32)",
        "body = NULL, salt = NULL, body_digest = zeroblob(32)",
        "version = version",
    ],
)
def test_the_door_opens_once(tmp_path: Path, plain: sqlite3.Connection, change: str) -> None:
    """What is redacted stays as the redaction left it: no body comes back, and its digest stays."""
    with Store(tmp_path / "s.db") as store:
        store.append("one", [{"type": "redaction", "target": 2, "reason": "r"}])
    refuses(plain, f"UPDATE events SET {change} WHERE conversation = 1 AND version = 2", "never updated")


def test_every_table_of_the_log_is_guarded(plain: sqlite3.Connection) -> None:
    """Both tables have a trigger against each of insert, update and delete."""
    triggers = plain.execute("SELECT tbl_name, sql FROM sqlite_schema WHERE type = 'trigger'").fetchall()
    words = ("INSERT", "UPDATE", "DELETE")
    guarded = {(table, word) for table, sql in triggers for word in words if f" {word} ON" in sql}
    assert guarded >= {(table, word) for table in ("events", "conversations") for word in words}
