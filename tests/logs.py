"""Random logs of every event type, as hypothesis strategies: what the property tests share."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from turnlog.projections import MODES

NAMES = ("a", "b", "c")
IDS = ("t1", "t2")
SCOPES = ("chat", "coder", "shared_memory")
TEXTS = st.sampled_from(("", "x", "y z"))
CONTENTS = TEXTS | st.lists(
    st.sampled_from(({"type": "text", "text": "p"}, {"type": "text", "text": ""}, {"type": "image", "url": "u"})),
    max_size=3,
)
CALLS = st.lists(
    st.fixed_dictionaries({"id": st.sampled_from(IDS), "name": st.just("f"), "arguments": st.just("{}")}), max_size=2
)
CONTEXTS = st.sampled_from(
    (
        {"type": "all"},
        {"type": "lastNMessages", "maxMessages": 0},
        {"type": "lastNMessages", "maxMessages": 2},
        {"type": "userAndAssistantMessages"},
        {"type": "previousAssistantMessages"},
        {"type": "none"},
    )
)
FIRST_MESSAGE_MODES = st.sampled_from(
    (
        "assistant-speaks-first",
        "assistant-speaks-first-with-model-generated-message",
        "assistant-waits-for-user",
    )
)


def _maybe(draw: st.DrawFn, **fields: st.SearchStrategy[Any]) -> dict[str, Any]:
    return {key: draw(value) for key, value in fields.items() if draw(st.booleans())}


@st.composite
def event_at(draw: st.DrawFn, version: int) -> dict[str, Any]:
    """An event that may be appended as `version`; rewinds, redactions and ranges point at what is there."""
    scope = draw(st.sampled_from(SCOPES))
    earlier = st.integers(1, max(1, version - 1))
    kinds = ["message"] * 6 + ["call", "call", "result", "result", "response", "summary", "clear", "x:mark"]
    if scope != "shared_memory":
        kinds += ["transfer"] * 4 + ["assistant"] * 2
    if version > 1:
        kinds += ["rewind", "rewind", "redaction", "describe", "range", "range"]
    kind = draw(st.sampled_from(kinds))
    match kind:
        case "message":
            role = draw(st.sampled_from(("user", "assistant", "system")))
            fields: dict[str, Any] = {"type": "message", "role": role, "content": draw(CONTENTS)}
            return fields | {"scope": scope} | _maybe(draw, assistant=st.sampled_from(NAMES))
        case "call":
            fields = {"type": "message", "role": "assistant", "content": draw(CONTENTS)}
            return fields | {"scope": scope, "tool_calls": draw(CALLS)}
        case "result":
            call_id = draw(st.sampled_from(IDS))
            return {"type": "message", "role": "tool", "tool_call_id": call_id, "content": "r", "scope": scope}
        case "response":
            status = draw(st.sampled_from(("completed", "completed", "error", "processing")))
            fields = {"type": "response", "request": 1, "status": status, "scope": scope, "tool_calls": draw(CALLS)}
            return fields | _maybe(draw, response=CONTENTS)
        case "assistant":
            more = _maybe(draw, system=TEXTS, first_message=TEXTS, tools=st.just([{"name": "f"}]))
            return {"type": "assistant", "assistant": draw(st.sampled_from(NAMES)), "scope": scope} | more
        case "transfer":
            more = _maybe(
                draw,
                mode=st.sampled_from(MODES),
                message=TEXTS,
                system=TEXTS,
                first_message=TEXTS,
                first_message_mode=FIRST_MESSAGE_MODES,
                tool_call_id=st.sampled_from(IDS),
                context=CONTEXTS,
            )
            return {"type": "transfer", "to": draw(st.sampled_from(NAMES)), "scope": scope} | more
        case "summary":
            return {"type": "summary", "text": draw(TEXTS), "summary_of": 2, "scope": scope}
        case "range":
            first, last = sorted((draw(earlier), draw(earlier)))
            role = draw(st.sampled_from(("user", "assistant", "system")))
            fields = {"type": "summary", "text": draw(TEXTS), "summary_of": 2, "scope": scope, "role": role}
            return fields | {"first": first, "last": last}
        case "clear":
            return {"type": "clear", "scope": scope}
        case "rewind":
            target = {"type": "rewind", "to": draw(st.integers(0, version - 1))}
            return target | ({"scope": scope} if draw(st.booleans()) else {})
        case "redaction":
            return {"type": "redaction", "target": draw(earlier), "reason": "r"} | _maybe(draw, replacement=TEXTS)
        case "describe":
            return {"type": "describe", "title": "t"}
    return {"type": kind, "scope": scope, "data": {"n": version}}


@st.composite
def logs(draw: st.DrawFn, max_size: int = 30) -> list[dict[str, Any]]:
    """A log that may be appended; its first event is a request, so that responses have one."""
    size = draw(st.integers(0, max_size))
    first = [{"type": "request", "at": 0}]
    return first + [draw(event_at(version)) for version in range(2, size + 2)]


what_ifs = st.fixed_dictionaries(
    {},
    optional={
        "mode": st.sampled_from(MODES),
        "modes": st.dictionaries(st.integers(1, 30), st.sampled_from(MODES), max_size=4),
    },
)
