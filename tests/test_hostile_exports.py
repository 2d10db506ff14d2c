"""Exports that somebody wrote to deceive: their digests are right, since anybody can compute them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from test_restore import refused, restore

from turnlog.store import Event, InvalidEvent, RestoreRefused, Store, line_of, read_line
from turnlog.store.chain import digest_of_body, digest_of_event, genesis


def signed(**header: Any) -> str:
    """A line as anybody can write one, with the digests that go with it; `body` and `frame` are texts of JSON."""
    body, frame = header.pop("body", '{"role":"user","content":"x"}'), header.pop("frame", None)
    event = Event(
        conversation=(uuid := "8a6f1c1e-0f3b-4c58-9d0e-2f6f3f0c7b11"),
        version=1,
        type="message",
        v=1,
        scope="chat",
        frame_text=frame or '{"role":"user","parts":["text"]}',
        body_text=body,
        position=0,
        id=None,
        recorded_us=1_700_000_000_000_000,
        occurred_us=None,
        salt=bytes(16),
        body_digest=None,
        digest=bytes(32),
    )
    event = msgspec.structs.replace(event, **header)
    digest = digest_of_event(genesis(uuid), event.header, event.frame_text, digest_of_body(bytes(16), body))
    return line_of(msgspec.structs.replace(event, digest=digest))


def test_what_is_right_is_taken() -> None:
    """The lines of these tests differ from a good one in nothing else than what is refused."""
    for fields in ({}, {"type": "x:mark", "frame": "{}"}, {"type": "newer", "frame": "{}", "scope": "Über"}):
        with Store(":memory:") as store:
            assert restore(store, [signed(**fields)])[0].added == 1


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(("type", value) for value in ("\x1b[31mRED", "message\n", "x:\u202e", "a\x9bb", "", " ", "x:a\u200bb")),
        *(("scope", value) for value in ("\x1b[31mRED", "chat\n", "\u202echat", "", " ", "ch\u200bat", "a\x7f")),
    ],
    ids=ascii,
)
def test_types_and_scopes(field: str, value: str) -> None:
    """A type or scope that a terminal would obey, or that people cannot see, is refused and named."""
    frame = {"frame": "{}"} if field == "type" else {}
    with Store(":memory:") as store:
        error = refused(store, [signed(**{field: value}, **frame)])
    assert isinstance(error, RestoreRefused)
    assert f"has a {field} that" in error.why
    assert str(error).isprintable()


def test_ids() -> None:
    """An id with a control character is refused, as it is on append."""
    with Store(":memory:") as store:
        refused(store, [signed(id="a\x1b[31m")])
        restore(store, [signed(id="\u202e" + "i" * 300)])


@pytest.mark.parametrize(
    ("key", "line"),
    [
        ("content", signed(body='{"role":"user","content":"AAA","content":"BBB"}')),
        ("a", signed(body='{"role":"user","content":"x","meta":{"a":1,"b":[{"a":1,"a":2}]}}')),
        ("content", signed(body='{"role": "user", "content": "AAA", "c\\u006fntent": "BBB"}')),
        ("a", signed(type="newer", frame='{"a":1,"a":2}')),
        ("scope", signed().replace('"scope":"chat"', '"scope":"coder","scope":"chat"')),
        ("salt", signed().replace('"salt":', '"salt":"00","salt":')),
    ],
    ids=["body", "nested", "escaped", "frame", "header", "salt"],
)
def test_a_key_that_stands_twice(key: str, line: str) -> None:
    """An object that has a key twice has two readings, and is refused wherever in the line it is."""
    with pytest.raises(InvalidEvent) as error:
        read_line(line)
    assert error.value.field == key
    assert "twice" in error.value.why
