"""Exports of a newer build, and forged ones: built by hand with digests that are right."""

from __future__ import annotations

import json
from hashlib import sha256
from typing import Any

import pytest
from test_append import recorded, said
from test_chain import claimed, recomputed

from turnlog.projections import history
from turnlog.store import RestoreRefused, Store, TurnlogError, line_of, read_line

IDENTITY = "12345678-9abc-4def-8123-456789abcdef"
TIME = "2030-01-01T00:00:00.000000Z"
FRAME, BODY = '{"role":"user","parts":["text"]}', '{"role":"user","content":"x"}'


def chained(*events: dict[str, Any]) -> list[str]:
    """Lines of one conversation with right digests; an event's `frame` and `body` are texts, the rest its header."""
    digest = sha256(IDENTITY.encode()).hexdigest()
    lines = []
    for version, event in enumerate(events, 1):
        header: dict[str, Any] = {"conversation": IDENTITY, "version": version, "type": "message", "v": 1}
        header |= {"scope": "chat", "recorded_at": TIME}
        header |= {key: value for key, value in event.items() if key not in ("frame", "body")}
        order = ("conversation", "version", "type", "v", "scope", "id", "recorded_at", "occurred_at")
        kept = {key: header[key] for key in order if header.get(key) is not None}
        head = json.dumps(kept, ensure_ascii=False, separators=(",", ":"))
        frame, body = event.get("frame", FRAME), event.get("body", BODY)
        salt = f"{version:032x}"
        body_digest = sha256(f"{salt}\n{body}".encode()).hexdigest()
        digest = sha256(f"{digest}\n{head}\n{frame}\n{body_digest}\n".encode()).hexdigest()
        rest = "}" if body == "{}" else f",{body[1:]}"
        lines.append(f'{head[:-1]},"frame":{frame},"salt":"{salt}","digest":"{digest}"{rest}')
    return lines


def test_lines_built_by_hand_are_lines() -> None:
    """What this module builds is what the store itself writes."""
    with Store(":memory:") as store:
        store.restore(map(read_line, chained({}, {"id": "i", "scope": "coder"})))
        store.append(IDENTITY, [said(), {"type": "clear"}])
        lines = [line_of(event) for event in store.follow()]
    assert lines[:2] == chained({}, {"id": "i", "scope": "coder"})
    assert recomputed(lines) == claimed(lines)


NEWER: list[dict[str, Any]] = [
    {"type": "hologram", "frame": '{"shape":"cube"}', "body": '{"shape":"cube","said":"hé"}'},
    {"type": "Über-Typ", "scope": None, "frame": "{}", "body": "{}"},
    {"type": "x:of-ours", "v": 7, "frame": '{"kept":1}', "body": '{"n":1}'},
    {"type": "message", "v": 2, "frame": '{"speaker":"user"}', "body": '{"speaker":"user","words":["x"]}'},
    {"frame": '{"role":"narrator","parts":["text"]}', "body": '{"role":"narrator","content":"x"}'},
    {"frame": '{"role":"user","parts":["video"]}', "body": '{"role":"user","content":[{"type":"video"}]}'},
    {"type": "transfer", "frame": '{"to":"b","mode":"teleport"}', "body": '{"to":"b","mode":"teleport"}'},
    {"type": "transfer"} | dict.fromkeys(("frame", "body"), '{"to":"b","context":{"type":"some"}}'),
    {"type": "response", "frame": '{"request":1,"status":"queued"}', "body": '{"request":1,"status":"queued"}'},
    {"type": "rewind", "scope": None, "frame": '{"to":"label"}', "body": '{"to":"label"}'},
    {"type": "rewind", "scope": None, "frame": '{"to":99}', "body": '{"to":99}'},
    {"type": "redaction", "scope": None, "frame": '{"target":"1"}', "body": '{"target":"1","reason":"r"}'},
    {"type": "redaction", "scope": None, "frame": '{"target":99}', "body": '{"target":99,"reason":"r"}'},
    {"type": "redaction", "v": 2, "scope": None, "frame": '{"target":1}', "body": '{"target":1}'},
    {"type": "assistant", "scope": "shared_memory", "frame": '{"assistant":"a"}', "body": '{"assistant":"a"}'},
    {"scope": "attic"},
    {"scope": "A scope of another kind"},
    {"id": "i" * 300},
    {"frame": '{ "role" : "narrator" }', "body": '{ "role" : "narrator",\t"a":[ 1.50, 2E+3, "\\u00e9\\/", 1e40 ] }'},
    {"type": "hologram", "frame": '{"n":12345678901234567890123}', "body": '{"n":12345678901234567890123}'},
    {"type": "hologram", "frame": "{}", "body": '{"deep":' + "[" * 300 + "]" * 300 + "}"},
]


@pytest.mark.parametrize("event", NEWER, ids=lambda event: ascii(event)[:80])
def test_what_this_build_does_not_know(event: dict[str, Any]) -> None:
    """An event of an unknown type, version or value restores, reads, follows and exports to the same bytes."""
    lines = chained({}, event, {})
    with Store(":memory:") as store, Store(":memory:") as other:
        assert store.restore(map(read_line, lines), "c")[0].added == 3
        found = store.event("c", 2)
        assert found.frame_text == event.get("frame", FRAME)
        assert found.body_text == event.get("body", BODY)
        assert [each.version for each in store.events("c", backwards=True)] == [3, 2, 1]
        assert [line_of(each) for each in store.events("c")] == lines
        assert [line_of(each) for each in store.follow(store.event("c", 1).position)] == lines[1:]
        assert found.to_dict()["version"] == 2
        assert store.conversations()[0].version == 3
        assert store.restore(map(read_line, lines))[0].present == 3
        assert other.restore(read_line(line_of(each)) for each in store.events("c"))[0].added == 3
        store.append("c", [said("later")])
        known = found.frame is not None and (found.type, found.scope) == ("message", "chat")
        assert [message.version for message in history(store, "c").messages] == [1, *([2] if known else []), 3, 4]


def test_what_this_build_does_not_know_can_be_redacted() -> None:
    """A redaction erases what an unknown event said, and leaves its frame to be read and exported."""
    lines = chained({}, NEWER[0])
    with Store(":memory:") as store, Store(":memory:") as other:
        store.restore(map(read_line, lines), "c")
        store.append("c", [{"type": "redaction", "target": 2, "reason": "r"}])
        event = store.event("c", 2)
        assert (event.redacted, event.frame_text) == (True, NEWER[0]["frame"])
        assert event.to_dict()["frame"] == {"shape": "cube"}
        exported = [line_of(each) for each in store.events("c")]
        other.restore(map(read_line, exported), "c")
        assert [line_of(each) for each in other.events("c")] == exported
    assert claimed(exported) == recomputed(exported)


FORGED: list[tuple[int, list[dict[str, Any]]]] = [
    (2, [{}, {"frame": '{"role":"assistant","parts":["text"]}'}]),
    (2, [{}, {"frame": '{"role":"user"}'}]),
    (2, [{}, {"frame": "{}"}]),
    (2, [{}, {"type": "redaction", "scope": None, "frame": '{"target":1}', "body": '{"target":0,"reason":"r"}'}]),
    (2, [{}, {"type": "rewind", "scope": None, "frame": '{"to":1}', "body": '{"to":0}'}]),
    (3, [{}, {}, {"recorded_at": "2029-12-31T23:59:59.999999Z"}]),
    (3, [{}, {}, {"version": 4}]),
    (2, [{}, {"version": 1}]),
]


@pytest.mark.parametrize(("version", "events"), FORGED)
def test_forged_logs(version: int, events: list[dict[str, Any]]) -> None:
    """Right digests do not help a frame that is not its body's, a time that falls or a gap in the versions."""
    with Store(":memory:") as store:
        store.append("c", [said()])
        before = recorded(store)
        with pytest.raises(RestoreRefused) as refused:
            store.restore(map(read_line, chained(*events)))
        assert refused.value.conversation == IDENTITY
        assert refused.value.version == events[version - 1].get("version", version)
        assert recorded(store) == before


@pytest.mark.parametrize(
    "events",
    [[{"id": "i"}, {"id": "i"}], [{"v": 2**63}], [{"recorded_at": "0001-01-01T00:00:00.000000+14:00"}]],
    ids=["id-twice", "v-beyond-all-use", "time-before-all-time"],
)
def test_what_no_store_can_hold(events: list[dict[str, Any]]) -> None:
    """What the tables cannot hold is refused like all that is wrong, and nothing is written."""
    with Store(":memory:") as store:
        with pytest.raises(TurnlogError):
            store.restore(map(read_line, chained(*events)))
        assert store.conversations() == []
