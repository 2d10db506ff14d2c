"""Make random logs of every event type: as hypothesis strategies, and quickly from a plain random generator."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any, Protocol, TypeVar

from hypothesis import strategies as st

T = TypeVar("T")
Json = dict[str, Any]

NAMES = ("a", "b", "c")
IDS = ("t1", "t2")
FUNCTIONS = ("f", "g")
SCOPES = ("chat", "coder", "shared_memory")
WEIGHTED_SCOPES = ("chat", "chat", "chat", "shared_memory", "shared_memory", "coder")
ROLES = ("user", "assistant", "system")
TEXTS = ("", "x", "y z")
MODES = (
    "rolling-history",
    "swap-system-message-in-history",
    "swap-system-message-in-history-and-remove-transfer-tool-messages",
    "delete-history",
)
WEIGHTED_MODES = (*MODES, *MODES[:3], MODES[2], MODES[2])
CONTEXTS: tuple[Json, ...] = (
    {"type": "all"},
    {"type": "lastNMessages", "maxMessages": 0},
    {"type": "lastNMessages", "maxMessages": 2},
    {"type": "lastNMessages", "maxMessages": 5},
    *({"type": "userAndAssistantMessages"},) * 3,
    *({"type": "previousAssistantMessages"},) * 3,
    {"type": "none"},
)
FIRST_MESSAGE_MODES = (
    "assistant-speaks-first",
    "assistant-speaks-first-with-model-generated-message",
    "assistant-waits-for-user",
)
CALL_KINDS = ("tool_call", "tool_use", "function_call", "toolCall")  # how a call among the parts may be written
PARTS: tuple[Json, ...] = (
    {"type": "text", "text": "p"},
    {"type": "text", "text": ""},
    {"type": "output_text", "text": "o"},
    {"type": "refusal", "refusal": "no"},
    {"type": "refusal", "refusal": ""},
    {"type": "audio", "transcript": "heard"},
    {"type": "audio", "data": "u"},
    {"type": "image", "url": "u"},
    {"type": "reasoning", "text": "think"},
    {"type": "x-own", "data": 1},
)
KINDS = (
    *("message",) * 6,
    *("call",) * 6,
    *("result",) * 9,
    *("response", "response", "summary", "clear", "x:mark"),
)
OF_ASSISTANTS = (*("transfer",) * 5, "assistant", "assistant")
HANDOFFS = (*("call",) * 4, *("result",) * 4, *("transfer",) * 4, "message", "response", "range", "rewind")
LOOKING_BACK = ("rewind", "rewind", "redaction", "describe", "range", "range", "range")


class Pick(Protocol):
    """Something that takes one of several options at random."""

    def __call__(self, options: Sequence[T], /) -> T: ...


def make_event(pick: Pick, version: int, only: tuple[str, ...] = ()) -> Json:
    """Return an event that may be appended as `version`; rewinds, redactions and ranges point at what is there.

    With `only` it is of one of these kinds, as far as the scope and the version allow.
    """
    scope = pick(WEIGHTED_SCOPES)
    kinds = KINDS + (OF_ASSISTANTS if scope != "shared_memory" else ()) + (LOOKING_BACK if version > 1 else ())
    kind = pick(tuple(kind for kind in only if kind in kinds) or kinds)
    match kind:
        case "message":
            said = {"type": "message", "role": pick(ROLES), "content": _content(pick), "scope": scope}
            return said | _maybe(pick, assistant=NAMES)
        case "call":
            return {"type": "message", "role": "assistant", "scope": scope} | _said(pick, "content")
        case "result":
            result = {"type": "message", "role": "tool", "tool_call_id": pick(IDS), "content": "r", "scope": scope}
            return (
                result | _maybe(pick, name=FUNCTIONS) | ({"interim": True} if pick((False, False, False, True)) else {})
            )
        case "response":
            status = pick(("completed", "completed", "error", "processing"))
            blank = pick((False, False, False, True))
            return {"type": "response", "request": 1, "status": status, "scope": scope} | (
                {} if blank else _said(pick, "response")
            )
        case "assistant":
            fields = _maybe(pick, system=TEXTS, first_message=TEXTS, tools=([{"name": "f"}],))
            return {"type": "assistant", "assistant": pick(NAMES), "scope": scope} | fields
        case "transfer":
            return {"type": "transfer", "to": pick(NAMES), "scope": scope} | _transfer(pick)
        case "summary":
            return {"type": "summary", "text": pick(TEXTS), "summary_of": 2, "scope": scope}
        case "range":
            least = pick((1, max(1, version - 8)))  # Of what is not long ago more is still visible.
            first, last = sorted((pick(range(least, version)), pick(range(least, version))))
            summary = {"type": "summary", "text": pick(TEXTS), "summary_of": 2, "scope": scope, "role": pick(ROLES)}
            summary |= {"first": first, "last": last}
            keep = sorted({pick(range(first, last + 1)) for _ in range(pick((0, 0, 1, 2)))})
            return summary | ({"keep": keep} if keep else {})
        case "rewind":
            least = pick((0, max(0, version - 6), max(0, version - 6)))
            to = pick(range(least, version))
            return {"type": "rewind", "to": to} | _maybe(pick, scope=WEIGHTED_SCOPES)
        case "redaction":
            redaction = {"type": "redaction", "target": pick(range(1, version)), "reason": "r"}
            return redaction | _maybe(pick, replacement=TEXTS)
        case "describe":
            return {"type": "describe", "title": "t"}
    return {"type": kind, "scope": scope} | ({"data": {"n": version}} if kind == "x:mark" else {})


def random_log(random: Random, size: int = 30) -> list[Json]:
    """Return a log of `size` events after a first request, as `logs` draws them but much faster.

    Every second log is mostly of calls, results and transfers, which meet in more ways than all others.
    """
    only = random.choice(((), HANDOFFS))
    return [dict(REQUEST), *(make_event(random.choice, version, only) for version in range(2, size + 2))]


def _transfer(pick: Pick) -> Json:
    fields = _maybe(
        pick,
        mode=WEIGHTED_MODES,
        message=TEXTS,
        system=TEXTS,
        first_message=TEXTS,
        first_message_mode=FIRST_MESSAGE_MODES,
    )
    fields |= {"tool_call_id": pick(IDS)} if pick((False, True, True)) else {}
    fields |= {"context": pick(CONTEXTS)} if pick((False, False, True)) else {}
    return fields | ({"from": pick(NAMES)} if pick((False, False, True)) else {})


def _said(pick: Pick, key: str) -> Json:
    """Return a content under this key with calls: beside it, or among its parts in their places."""
    calls = [_call(pick) for _ in range(pick((1, 1, 2, 3, 0)))]
    if not pick((False, False, True)):
        return {key: _content(pick), "tool_calls": calls}
    parts = [dict(pick(PARTS)) for _ in range(pick((0, 1, 2)))]
    for call in calls:
        same = {"call_id": call["id"], "input": {}, "args": "{}"}  # as the kinds that name them otherwise have them
        parts.insert(pick(range(len(parts) + 1)), {"type": pick(CALL_KINDS)} | call | same)
    return {key: parts}


def _call(pick: Pick) -> Json:
    return {"id": pick(IDS), "name": pick(FUNCTIONS), "arguments": "{}"}


def _content(pick: Pick) -> str | list[Json]:
    """Return a text, or some parts."""
    if pick((True, True, False)):
        return pick(TEXTS)
    return [dict(pick(PARTS)) for _ in range(pick(range(4)))]


def _maybe(pick: Pick, **fields: Sequence[Any]) -> Json:
    return {key: pick(options) for key, options in fields.items() if pick((False, True))}


REQUEST: Json = {"type": "request", "at": 0}


@st.composite
def event_at(draw: st.DrawFn, version: int, only: tuple[str, ...] = ()) -> Json:
    """Draw an event that may be appended as `version`."""
    return make_event(lambda options: draw(st.sampled_from(options)), version, only)


@st.composite
def logs(draw: st.DrawFn, max_size: int = 30) -> list[Json]:
    """Draw a log that may be appended; its first event is a request, so that responses have one."""
    size = draw(st.integers(0, max_size))
    only = draw(st.sampled_from(((), HANDOFFS)))
    return [dict(REQUEST), *(draw(event_at(version, only)) for version in range(2, size + 2))]


what_ifs = st.fixed_dictionaries(
    {},
    optional={
        "mode": st.sampled_from(MODES),
        "modes": st.dictionaries(st.integers(1, 30), st.sampled_from(MODES), max_size=4),
    },
)
