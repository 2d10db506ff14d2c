"""What an append refuses of parts, of calls among them, of interim messages and of what a summary keeps."""

from __future__ import annotations

from typing import Any

import pytest
from test_append import said
from test_refusals import GOOD, refused, response, summary, told

from turnlog.store import InvalidEvent, Store


def among(*parts: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """A message of an assistant whose content is these parts."""
    return {"type": "message", "role": "assistant", "content": list(parts), **fields}


CALL = {"type": "tool_call", "id": "t", "name": "f", "arguments": "{}"}
BESIDE = [{"id": "u", "name": "g", "arguments": "{}"}]
CALLS_AMONG_PARTS = [
    (among({"type": "tool_call", "name": "f"}), "content[0].id", None),
    (among(CALL, CALL | {"id": None}), "content[1].id", None),
    (among(CALL | {"id": ""}), "content[0].id", ""),
    (among(CALL | {"id": 5}), "content[0].id", 5),
    (among(CALL | {"id": "t\n"}), "content[0].id", "t\n"),
    (among(CALL | {"id": "t" * 201}), "content[0].id", "t" * 201),
    (among(CALL | {"name": ["f"]}), "content[0].name", ["f"]),
    (among({"type": "tool_call", "id": "t"}), "content[0].name", None),
    (among({"type": "tool_use", "id": "t", "name": "", "input": {}}), "content[0].name", ""),
    (among({"type": "function_call", "id": "t", "name": "f"}), "content[0].call_id", None),
    (among({"type": "function_call", "call_id": "\x7f", "name": "f"}), "content[0].call_id", "\x7f"),
    (among({"type": "toolCall", "toolName": "f"}), "content[0].toolCallId", None),
    (among({"type": "toolCall", "id": "t", "toolName": 5}), "content[0].toolName", 5),
    (among({"type": "toolCall", "id": True, "name": "f"}), "content[0].id", True),
    (among(CALL | {"arguments": 5}), "content[0].arguments", 5),
    (among({"type": "tool_use", "id": "t", "name": "f", "input": [1]}), "content[0].input", [1]),
    (among({"type": "refusal"}), "content[0].refusal", None),
    (response(response=[{"type": "tool_use", "name": "f"}]), "response[0].id", None),
    (among(CALL, tool_calls=BESIDE), "tool_calls", BESIDE),
    (response(response=[{"type": "text", "text": "x"}, CALL], tool_calls=BESIDE), "tool_calls", BESIDE),
]
INTERIM = [
    *((said(role=role, interim=True), "interim", True) for role in ("system", "user", "assistant")),
    (among(CALL, interim=True), "interim", True),
    (said(role="tool", tool_call_id="t", interim="yes"), "interim", "yes"),
    (said(role="tool", tool_call_id="t", interim=1), "interim", 1),
]
KEPT = [
    (summary(keep=[1]), "keep", [1]),
    (summary(first=1, last=2, keep=1), "keep", 1),
    (summary(first=1, last=2, keep=[3]), "keep[0]", 3),
    (summary(first=2, last=3, keep=[1]), "keep[0]", 1),
    (summary(first=1, last=2, keep=[0]), "keep[0]", 0),
    (summary(first=1, last=2, keep=[-1]), "keep[0]", -1),
    (summary(first=1, last=2, keep=[1, 2**70]), "keep[1]", 2**70),
    (summary(first=1, last=3, keep=[1, 3, 2]), "keep[2]", 2),
    (summary(first=1, last=3, keep=[1, 2, 2]), "keep[2]", 2),
    (summary(first=1, last=2, keep=[True]), "keep[0]", True),
    (summary(first=1, last=2, keep=["1"]), "keep[0]", "1"),
    (summary(first=1, last=2, keep=[1.5]), "keep[0]", 1.5),
    (summary(first=1, last=2, keep=[None]), "keep[0]", None),
]
BAD: list[tuple[dict[str, Any], str, object]] = [*CALLS_AMONG_PARTS, *INTERIM, *KEPT]


@pytest.mark.parametrize(("event", "field", "value"), BAD, ids=ascii)
def test_a_bad_event(event: dict[str, Any], field: str, value: object) -> None:
    """A bad event is refused, alone and at the end of a batch, by an error that names its field and value."""
    for batch in ([event], [*GOOD, event]):
        error = refused(batch)
        assert told(error) == (field, repr(value))
        assert error.index == (None if len(batch) == 1 else 2)


def test_the_reason() -> None:
    """The error says in one line what is wrong, and what would be right."""
    reasons = {
        "content[0].id is missing: a call has an id and a name": among({"type": "tool_call", "name": "f"}),
        "interim: True is not allowed: a result may be interim, a message of role user may not": said(interim=True),
        "keep[0]: 3 is not a version from 1 to 2": summary(first=1, last=2, keep=[3]),
        "keep[1]: 1 does not follow 2: versions are in order, each once": summary(first=1, last=2, keep=[2, 1]),
    }
    for reason, event in reasons.items():
        with pytest.raises(InvalidEvent) as error, Store(":memory:") as store:
            store.append("c", [said(), said(), event])
        assert str(error.value).split(": ", 1)[1] == reason


def test_nothing_kept() -> None:
    """A `keep` that is empty or null is none, with a range and without."""
    with Store(":memory:") as store:
        store.append("c", [said(), summary(keep=[]), summary(keep=None), summary(first=1, last=1, keep=[])])
        assert {event.frame_text.count("keep") for event in store.events("c")} == {0}
