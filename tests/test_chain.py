"""The chain, recomputed as an outside auditor does: from the lines of an export, with hashlib and json alone."""

from __future__ import annotations

import json
import os
import time
import uuid
from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from logs import logs

from turnlog.store import Store, line_of, read_line

HEADER = ("conversation", "version", "type", "v", "scope", "id", "recorded_at", "occurred_at")
NO_BODY = {*HEADER, "conversation_name", "frame", "salt", "body_digest", "digest"}
EVENTS: list[dict[str, Any]] = [
    {"type": "describe", "title": "Ünïcode", "scopes": ["lab"]},
    {"type": "assistant", "assistant": "greeter", "system": "You greet.", "tools": [{"name": "look"}]},
    {"type": "message", "role": "user", "content": 'a "quoted" \\ back\nline \u0000 é \U0001f600', "id": "ключ-1"},
    {"type": "message", "role": "user", "content": [{"type": "text", "text": ""}], "scope": "lab", "big": 2**200},
    {"type": "message", "role": "tool", "tool_call_id": "t", "content": "r", "meta": {"f": [1e300, -0.0, 5e-324]}},
    {"type": "clear", "occurred_at": "2026-03-01T12:00:00.5+02:00"},
    {"type": "x:mark", "deep": {"frame": {"salt": "digest"}, "": [None, True, {}, []]}},
]

# What a store wrote once for a fixed identity, clock and salts. The form is part of the contract: these bytes stay.
FROZEN = (
    '{"conversation":"11111111-2222-4333-8444-555555555555","version":1,"type":"message","v":1,"scope":"chat",'
    '"id":"a-1","recorded_at":"2026-11-29T20:42:56.000001Z","occurred_at":"2026-11-29T20:42:55.500000Z",'
    '"frame":{"role":"assistant","parts":["text"],"tool_calls":[{"id":"t1","name":"look"}]},'
    '"salt":"000102030405060708090a0b0c0d0e0f",'
    '"digest":"400b2659982673fec731e658932fa13c9f00ee3a464d092fd3bc262c4f9c0166",'
    '"role":"assistant","content":"Grüß dich","tool_calls":[{"id":"t1","name":"look","arguments":"{\\"n\\": 1}"}]}',
    '{"conversation":"11111111-2222-4333-8444-555555555555","version":2,"type":"clear","v":1,"scope":"chat",'
    '"recorded_at":"2026-11-29T20:42:56.000001Z","frame":{},"salt":"101112131415161718191a1b1c1d1e1f",'
    '"digest":"dd54fd9cf238c5e46ed3d8432c5f514b6ed0d10387ec0023721041b2e3f726e5"}',
)


def members(line: str) -> dict[str, str]:
    """The members of a line's object in order, each as it stands there: `"key":value`."""
    value_at = json.JSONDecoder().raw_decode
    found, start = {}, 1
    while True:
        key, end = value_at(line, start)
        assert line[end] == ":"
        stop = value_at(line, end + 1)[1]
        found[key] = line[start:stop]
        if line[stop:] == "}":
            return found
        assert line[stop] == ","
        start = stop + 1


def recomputed(lines: Iterable[str]) -> list[str]:
    """The digest of each line, in hex, from the line's own bytes and the digest before it in its conversation."""
    known: dict[tuple[str, int], str] = {}
    digests = []
    for line in lines:
        parts = members(line)
        fields = json.loads(line)
        head = "{" + ",".join(parts[key] for key in HEADER if key in parts) + "}"
        frame = parts["frame"].removeprefix('"frame":')
        body = "{" + ",".join(part for key, part in parts.items() if key not in NO_BODY) + "}"
        body_digest = fields.get("body_digest") or sha256(f"{fields['salt']}\n{body}".encode()).hexdigest()
        identity, version = fields["conversation"], fields["version"]
        shared = (fields["parent"], fields["at"]) if fields["type"] == "fork" else (identity, version - 1)
        before = known.get(shared) or sha256(identity.encode()).hexdigest()
        digests.append(sha256(f"{before}\n{head}\n{frame}\n{body_digest}\n".encode()).hexdigest())
        known[identity, version] = digests[-1]
    return digests


def claimed(lines: Iterable[str]) -> list[str]:
    """The digests that the lines themselves give."""
    return [json.loads(line)["digest"] for line in lines]


def export(store: Store, conversation: str | None = None) -> list[str]:
    """The lines of a conversation, or of the whole store."""
    return [line_of(event) for event in (store.events(conversation) if conversation else store.follow())]


def test_digests_of_odd_bodies() -> None:
    """Whatever JSON an event holds, its digest is over the bytes that stand in its exported line."""
    with Store(":memory:") as store:
        for event in EVENTS:
            store.append("c", [event])
        lines = export(store)
    assert claimed(lines) == recomputed(lines)


@settings(max_examples=60, deadline=None)
@given(logs())
def test_digests_of_random_logs(events: list[dict[str, Any]]) -> None:
    """Every log, redactions in it included, can be verified from its export alone."""
    with Store(":memory:") as store:
        store.append("c", events)
        lines = export(store)
    assert claimed(lines) == recomputed(lines)


def test_conversations_have_chains_of_their_own() -> None:
    """Each conversation's chain begins with the digest of its own uuid, however their events are interleaved."""
    with Store(":memory:") as store:
        for turn in range(3):
            for name in ("one", "two"):
                store.append(name, EVENTS[turn : turn + 1])
        apart = [export(store, name) for name in ("one", "two")]
        together = export(store)
    assert [claimed(lines) for lines in apart] == [recomputed(lines) for lines in apart]
    assert claimed(together) == recomputed(together)
    assert not set(claimed(apart[0])) & set(claimed(apart[1]))


def test_a_fork_goes_on_from_its_parent() -> None:
    """A fork's chain goes on from its parent's digest where it forks, whatever comes later on either side."""
    with Store(":memory:") as store:
        store.append("parent", EVENTS[:4])
        receipt = store.fork("parent", 2, "child")
        store.append("parent", EVENTS[4:])
        store.append("child", EVENTS[4:])
        store.fork("child", 3, "grandchild")
        lines = {name: export(store, name) for name in ("parent", "child", "grandchild")}
        together = export(store)
    for each in (*lines.values(), together):
        assert claimed(each) == recomputed(each)
    assert lines["child"][:2] == lines["parent"][:2]
    assert lines["grandchild"][:3] == lines["child"][:3]
    assert receipt.digest == claimed(lines["child"])[2]


def test_the_receipt_gives_the_digest_of_the_last_event() -> None:
    """A receipt's digest is that of the last event it appended."""
    with Store(":memory:") as store:
        heads = [store.append("c", EVENTS[:3]).digest, store.append("c", EVENTS[3:]).digest]
        digests = recomputed(export(store))
    assert heads == [digests[2], digests[-1]]


def test_neither_name_nor_position_is_in_the_chain() -> None:
    """A rename, or other positions in another store, change no digest and no line."""
    with Store(":memory:") as store, Store(":memory:") as other:
        store.append("c", EVENTS)
        lines = export(store)
        store.rename("c", "another")
        assert export(store) == lines
        other.append("before", EVENTS)
        other.restore(map(read_line, lines))
        assert export(other, json.loads(lines[0])["conversation"]) == lines


def test_a_redacted_log_still_verifies() -> None:
    """A redaction changes no digest: the salted digest of what the body was takes the place of salt and body."""
    with Store(":memory:") as store:
        store.append("c", EVENTS)
        before = export(store)
        body = "{" + ",".join(part for key, part in members(before[2]).items() if key not in NO_BODY) + "}"
        salt = json.loads(before[2])["salt"]
        store.append("c", [{"type": "redaction", "target": 3, "reason": "asked for"}])
        after = export(store)
    assert claimed(after)[:-1] == claimed(before)
    assert recomputed(after) == claimed(after)
    redacted = json.loads(after[2])
    assert redacted["body_digest"] == sha256(f"{salt}\n{body}".encode()).hexdigest()
    assert "salt" not in redacted
    assert "content" not in redacted


def test_salts_are_fresh() -> None:
    """Each event has 16 random bytes of salt of its own: the same body twice has two digests that tell nothing."""
    with Store(":memory:") as store:
        store.append("c", [EVENTS[1]] * 50)
        salts = [json.loads(line)["salt"] for line in export(store)]
    assert len(set(salts)) == 50
    assert {len(bytes.fromhex(salt)) for salt in salts} == {16}


def test_the_documented_example() -> None:
    """The lines that docs/format.md shows are lines whose digests are right, and that a store takes."""
    text = (Path(__file__).parent.parent / "docs" / "format.md").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if line.startswith("{") and '"digest":' in line]
    assert len(lines) > 1
    assert claimed(lines) == recomputed(lines)
    with Store(":memory:") as store:
        store.restore(map(read_line, lines))
        assert export(store) == lines


def test_the_form_is_frozen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same event at the same time with the same identity and salt has the same bytes and digests for ever."""
    monkeypatch.setattr(uuid, "uuid4", lambda: uuid.UUID("11111111-2222-4333-8444-555555555555"))
    monkeypatch.setattr(time, "time_ns", lambda: 1_795_984_976_000_001_999)
    monkeypatch.setattr(os, "urandom", lambda size: bytes(range(size)))
    call = {"id": "t1", "name": "look", "arguments": '{"n": 1}'}
    message = {"type": "message", "role": "assistant", "content": "Grüß dich", "tool_calls": [call]}
    header = {"id": "a-1", "occurred_at": "2026-11-29T21:42:55.5+01:00"}
    with Store(":memory:") as store:
        store.append("c", [message | header, {"type": "clear"}])
        assert export(store) == list(FROZEN)
    with Store(":memory:") as store:
        assert store.restore(map(read_line, FROZEN))[0].added == 2
