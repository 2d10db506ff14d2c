"""Logs that no append would write: a view is total, and tells what it left out."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from logs import SCOPES, logs, what_ifs
from views import keys_of, seen, told

from turnlog.projections import MODES, check, describe, handoffs
from turnlog.store import Store
from turnlog.store.chain import time_of
from turnlog.store.codec import prepare

Json = dict[str, Any]
Raw = tuple[Store, sqlite3.Connection]


class Row(NamedTuple):
    """An event as it stands in the table; a body of None is a redacted one."""

    type: str
    frame: str
    body: str | None = "{}"
    scope: str | None = "chat"
    v: int = 1


@pytest.fixture(scope="module")
def raw(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Raw]:
    """A store, and a connection to its file on which nothing guards the table of events any more."""
    path: Path = tmp_path_factory.mktemp("raw") / "turnlog.db"
    with Store(path, durability="normal") as store, closing(sqlite3.connect(path, isolation_level=None)) as connection:
        guards = "SELECT type, name FROM sqlite_schema WHERE type = 'trigger' OR name = 'events_by_target'"
        for kind, name in connection.execute(guards).fetchall():
            connection.execute(f"DROP {kind} {name}")
        yield store, connection


def write(connection: sqlite3.Connection, rows: dict[int, Row], times: Sequence[int] = (0,)) -> str:
    """Put rows into the table of events by their versions, in the order given, as a new conversation; its uuid."""
    uuid = str(uuid4())
    connection.execute("BEGIN")
    key = connection.execute("INSERT INTO conversations (uuid) VALUES (?)", (uuid,)).lastrowid
    for place, (version, row) in enumerate(rows.items()):
        salt, body_digest = (None, b"d" * 32) if row.body is None else (b"s" * 16, None)
        connection.execute(
            "INSERT INTO events (conversation, version, type, v, scope, recorded_at, frame, body, salt, body_digest,"
            " digest) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, x'00')",
            (
                key,
                version,
                row.type,
                row.v,
                row.scope,
                times[place % len(times)],
                row.frame,
                row.body,
                salt,
                body_digest,
            ),
        )
    connection.execute("COMMIT")
    return uuid


def row_of(event: Json) -> Row:
    ready = prepare(event)
    return Row(ready.type, ready.frame_text, ready.body_text, ready.scope)


DEEP = "[" * 5000
USER = Row("message", '{"role":"user","parts":["text"]}', '{"role":"user","content":"1"}')
MALFORMED = ("", "{", "null", "[]", "7", '"x"', "{}", DEEP, '{"role":5}', '{"role":"user"', "{'role':'user'}", "\x00")
UNKNOWN = {
    "type": Row("novel", "{}"),
    "empty-type": Row("", "{}"),
    "newer": USER._replace(v=2),
    "older": USER._replace(v=0),
    "role": Row("message", '{"role":"wizard"}'),
    "tool-without-id": Row("message", '{"role":"tool"}'),
    "calls": Row("message", '{"role":"assistant","tool_calls":[{"id":"t1"}]}'),
    "mode": Row("transfer", '{"to":"b","mode":"novel","system":true}', '{"to":"b","system":"SB"}'),
    "first-message-mode": Row("transfer", '{"to":"b","first_message_mode":"novel"}'),
    "context": Row("transfer", '{"to":"b","context":{"type":"novel"}}'),
    "context-of-nothing": Row("transfer", '{"to":"b","context":{"type":"lastNMessages"}}'),
    "context-below-nothing": Row("transfer", '{"to":"b","context":{"type":"lastNMessages","maxMessages":-1}}'),
    "status": Row("response", '{"request":1,"status":"novel"}'),
    "response-to-itself": Row("response", '{"request":2,"status":"completed","parts":["text"]}'),
    "request-past-itself": Row("request", '{"at":3}'),
    "rewind-to-itself": Row("rewind", '{"to":2}', scope=None),
    "rewind-past-itself": Row("rewind", '{"to":3}', scope=None),
    "rewind-below-nothing": Row("rewind", '{"to":-1}', scope=None),
    "summary-of-itself": Row("summary", '{"summary_of":1,"text":true,"first":1,"last":2}'),
    "summary-past-itself": Row("summary", '{"summary_of":1,"text":true,"first":1,"last":9}'),
    "summary-of-nothing": Row("summary", '{"summary_of":1,"text":true,"first":0,"last":1}'),
    "summary-backwards": Row("summary", '{"summary_of":1,"text":true,"first":2,"last":1}'),
    "summary-without-last": Row("summary", '{"summary_of":1,"text":true,"first":1}'),
    "summary-role": Row("summary", '{"summary_of":1,"text":true,"role":"tool"}'),
    "redaction-of-itself": Row("redaction", '{"target":2}', scope=None),
    "redaction-past-itself": Row("redaction", '{"target":3}', scope=None),
    "redaction-in-a-scope": Row("redaction", '{"target":1}'),
    "newer-redaction": Row("redaction", '{"target":1}', scope=None, v=2),
    "assistant-in-shared-memory": Row("assistant", '{"assistant":"a","system":true}', scope="shared_memory"),
    "transfer-in-shared-memory": Row("transfer", '{"to":"b"}', scope="shared_memory"),
    "describe-in-a-scope": Row("describe", "{}"),
    "describe-scopes": Row("describe", '{"scopes":5}', scope=None),
    "describe-text": Row("describe", "scopes", scope=None),
    "newer-describe": Row("describe", '{"scopes":[{"name":"planner"}]}', scope=None, v=2),
    **{f"frame-{text[:9]!a}": Row("message", text) for text in MALFORMED},
    **{
        f"no-scope-{row.type}": row._replace(scope=None)
        for row in (USER, Row("clear", "{}"), Row("transfer", '{"to":"b"}'), Row("assistant", '{"assistant":"a"}'))
    },
}


@pytest.mark.parametrize("row", UNKNOWN.values(), ids=list(UNKNOWN))
def test_unknown_event_is_reported_and_changes_nothing(raw: Raw, row: Row) -> None:
    """An event of a type, version or value that this build does not know changes no view and is reported."""
    store, connection = raw
    uuid = write(connection, {1: USER, 2: row, 3: USER})
    view = seen(store, uuid)
    assert keys_of(view) == ([(1, "message"), (3, "message")], [])
    assert [message.content for message in view] == ["1", "1"]
    assert [(problem.version, problem.rule) for problem in view.problems] == [(2, "unknown-event")]


ANYWHERE = [row for name, row in UNKNOWN.items() if "itself" not in name]


@st.composite
def with_unknown(draw: st.DrawFn) -> tuple[dict[int, Row], list[int]]:
    """A log with gaps and events that are unknown wherever they stand, and the versions of those."""
    log = draw(logs(max_size=12))
    rows = {2 * number: row_of(event) for number, event in enumerate(log, 1)}
    versions = draw(st.lists(st.integers(0, len(log)).map(lambda number: 2 * number + 1), unique=True, max_size=4))
    return rows | {version: draw(st.sampled_from(ANYWHERE)) for version in versions}, versions


@settings(max_examples=60, deadline=None)
@given(found=with_unknown(), scope=st.sampled_from(SCOPES), what_if=what_ifs)
def test_unknown_events_change_no_view(
    raw: Raw, found: tuple[dict[int, Row], list[int]], scope: str, what_if: Json
) -> None:
    """A view is the same as without the unknown events, whatever stands around them; those it reads are reported."""
    store, connection = raw
    rows, unknown = found
    known = {version: row for version, row in rows.items() if version not in unknown}
    view = told(seen(store, write(connection, rows), scope, **what_if))
    without = told(seen(store, write(connection, known), scope, **what_if))
    read = [version for version in unknown if rows[version].scope in (scope, "shared_memory", None)]
    problems = [problem for problem in view["problems"] if problem["rule"] != "unknown-event"]
    assert view | {"problems": problems} == without
    assert [p["version"] for p in view["problems"] if p["rule"] == "unknown-event"] == sorted(read)


WORDS = (
    *("role", "parts", "content", "tool_calls", "tool_call_id", "id", "name", "arguments", "type", "text", "scopes"),
    *("to", "mode", "context", "maxMessages", "system", "tools", "first_message", "first", "last", "target", "title"),
    *("summary_of", "request", "status", "response", "replacement", "metadata", "assistant", "model", "meta", "at"),
)
VALUES = st.sampled_from(
    (None, True, False, 0, 1, 2, 5, -1, 10**30, 1.5, "", "x", "t1", "text", "user", "tool", "assistant", "completed")
) | st.sampled_from(MODES)
JUNK = st.recursive(
    VALUES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(WORDS), inner, max_size=6)
)
TEXTS = JUNK.map(json.dumps) | st.sampled_from((*MALFORMED, '{"content":"\\ud800"}', '{"meta":1e999}', '{"meta":NaN}'))


@st.composite
def damaged(draw: st.DrawFn) -> dict[int, Row]:
    """Events of a log whose frames, bodies, scopes and versions were changed at random, in another order."""
    log = draw(logs(max_size=8))
    rows = [draw(mangled(row_of(event))) for event in log]
    versions = accumulate(draw(st.integers(1, 3)) for _ in rows)
    return dict(draw(st.permutations(list(zip(versions, rows, strict=False)))))


@st.composite
def mangled(draw: st.DrawFn, row: Row) -> Row:
    frame = json.loads(row.frame) | draw(st.dictionaries(st.sampled_from(WORDS), JUNK, max_size=2))
    changes: dict[str, st.SearchStrategy[Any]] = {
        "type": st.sampled_from(("describe", "message", "transfer", "summary", "redaction", "response", "x:mark", "")),
        "frame": st.just(json.dumps(frame)) | TEXTS,
        "body": st.none() | TEXTS,
        "scope": st.sampled_from((*SCOPES, "planner", "", None)),
        "v": st.sampled_from((-1, 0, 2)),
    }
    return row._replace(**{key: draw(change) for key, change in changes.items() if draw(st.integers(0, 2)) == 0})


@settings(max_examples=150, deadline=None)
@given(rows=damaged(), scope=st.sampled_from(SCOPES), what_if=what_ifs, times=st.lists(st.integers(0, 9), min_size=1))
def test_no_log_makes_a_view_raise(raw: Raw, rows: dict[int, Row], scope: str, what_if: Json, times: list[int]) -> None:
    """Whatever stands in the table of events, a view can be asked for all it tells, and tells it as JSON."""
    store, connection = raw
    uuid = write(connection, rows, times)
    for at in (None, max(rows) // 2, time_of(times[0])):
        view = seen(store, uuid, scope, at, **what_if)
        assert json.loads(json.dumps(view.to_dict(), allow_nan=False))["version"] == view.version
        assert len(view.messages) == len(view) <= len(view.held)
        assert isinstance(view.tools, list)
        visible, hidden = keys_of(view)
        assert len({*visible, *hidden}) == len(visible) + len(hidden)


def test_text_that_is_not_utf_8_does_not_make_a_view_raise(raw: Raw) -> None:
    """Bytes that are no text in a body leave the message in its place, since no log makes a view raise."""
    store, connection = raw
    uuid = write(connection, {1: USER, 2: USER})
    connection.execute(
        "UPDATE events SET body = CAST(x'ff' AS TEXT) WHERE version = 1"
        " AND conversation = (SELECT key FROM conversations WHERE uuid = ?)",
        (uuid,),
    )
    assert [message.version for message in seen(store, uuid)] == [1, 2]


@pytest.mark.parametrize(
    "body", ['{"title":5}', '{"metadata":5}', '{"metadata":"abc"}', '{"metadata":[1]}', "[]", "", None]
)
def test_description_of_a_damaged_log(raw: Raw, body: str | None) -> None:
    """A describe event that is damaged, unknown or newer says nothing about a conversation."""
    store, connection = raw
    known = Row("describe", "{}", '{"title":"t","metadata":{"k":1}}', scope=None)
    other = known._replace(body='{"title":"u","metadata":{"k":2}}')
    rows = (known, other._replace(v=2), other._replace(scope="chat"), known._replace(body=body))
    about = describe(store, write(connection, dict(enumerate(rows, 1))))
    assert (about.title, about.metadata) == ("t", {"k": 1})


def test_scope_that_only_a_newer_build_describes(raw: Raw) -> None:
    """Events in a scope whose describe event this build cannot read are neither lost nor a reason to refuse."""
    store, connection = raw
    newer = Row("describe", '{"scopes":[{"name":"planner"}]}', scope=None, v=2)
    uuid = write(connection, {1: newer, 2: USER, 3: USER._replace(scope="planner"), 4: Row("transfer", '{"to":"b"}')})
    assert keys_of(seen(store, uuid, "planner")) == ([(3, "message")], [])
    assert [handoff.version for handoff in handoffs(store, uuid)] == [4]
    assert {finding.version for finding in check(store, uuid) if finding.rule == "unknown-event"} == {1}
