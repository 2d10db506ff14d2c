"""Frames: what the shape of a view needs of each event, and what survives erasure (DESIGN section 2).

A frame is derived from an event when it is appended and stored beside its body, so that views can be folded and
digests checked without what was said. Flags such as `system` say whether there was text: true, false for an empty
one, absent for none.
"""

from __future__ import annotations

from typing import Literal

import msgspec

Role = Literal["system", "user", "assistant", "tool"]
SummaryRole = Literal["system", "user", "assistant"]
Mode = Literal[
    "rolling-history",
    "swap-system-message-in-history",
    "swap-system-message-in-history-and-remove-transfer-tool-messages",
    "delete-history",
]
FirstMessageMode = Literal[
    "assistant-speaks-first",
    "assistant-speaks-first-with-model-generated-message",
    "assistant-waits-for-user",
]
ContextType = Literal["all", "lastNMessages", "userAndAssistantMessages", "previousAssistantMessages", "none"]
PartKind = Literal["text", "image", "audio", "file", "reasoning", "other"]
Status = Literal["processing", "completed", "error"]


class Frame(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """Of an event that no view needs anything of: `clear`, and every type that this build does not know."""


class Call(Frame, frozen=True, kw_only=True, gc=False):
    id: str
    name: str


class Context(Frame, frozen=True, kw_only=True, gc=False):
    type: ContextType
    max_messages: int | None = msgspec.field(default=None, name="maxMessages")


class Usage(Frame, frozen=True, kw_only=True, gc=False):
    """Token counts of one or more model calls."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    total_tokens: int = 0
    cached_tokens: int | None = None
    reasoning_tokens: int | None = None


class DescribeFrame(Frame, frozen=True, kw_only=True, gc=False):
    scopes: tuple[str, ...] | None = None


class AssistantFrame(Frame, frozen=True, kw_only=True, gc=False):
    assistant: str
    system: bool | None = None
    tools: tuple[str, ...] | None = None
    first_message: bool | None = None
    model: bool | None = None


class MessageFrame(Frame, frozen=True, kw_only=True, gc=False):
    role: Role
    parts: tuple[PartKind, ...] = ()
    tool_calls: tuple[Call, ...] = ()
    tool_call_id: str | None = None
    assistant: str | None = None
    name: str | None = None


class TransferFrame(Frame, frozen=True, kw_only=True, gc=False):
    to: str
    mode: Mode | None = None
    from_: str | None = msgspec.field(default=None, name="from")
    message: bool | None = None
    system: bool | None = None
    tools: tuple[str, ...] | None = None
    first_message: bool | None = None
    first_message_mode: FirstMessageMode | None = None
    tool_call_id: str | None = None
    context: Context | None = None
    inferred: bool | None = None


class SummaryFrame(Frame, frozen=True, kw_only=True, gc=False):
    summary_of: int
    text: bool = False
    first: int | None = None
    last: int | None = None
    max_tokens: int | None = None
    usage: Usage | None = None
    role: SummaryRole = "user"


class RequestFrame(Frame, frozen=True, kw_only=True, gc=False):
    at: int
    history: str | None = None
    rules: int | None = None


class ResponseFrame(Frame, frozen=True, kw_only=True, gc=False):
    request: int
    status: Status
    parts: tuple[PartKind, ...] = ()
    tool_calls: tuple[Call, ...] = ()
    usage: Usage | None = None


class RewindFrame(Frame, frozen=True, kw_only=True, gc=False):
    to: int


class ClearFrame(Frame, frozen=True, kw_only=True, gc=False):
    pass


class ForkFrame(Frame, frozen=True, kw_only=True, gc=False):
    parent: str
    at: int


class RedactionFrame(Frame, frozen=True, kw_only=True, gc=False):
    target: int
    replacement: bool | None = None


_READ: dict[tuple[str, int], msgspec.json.Decoder[Frame]] = {
    ("describe", 1): msgspec.json.Decoder(DescribeFrame),
    ("assistant", 1): msgspec.json.Decoder(AssistantFrame),
    ("message", 1): msgspec.json.Decoder(MessageFrame),
    ("transfer", 1): msgspec.json.Decoder(TransferFrame),
    ("summary", 1): msgspec.json.Decoder(SummaryFrame),
    ("request", 1): msgspec.json.Decoder(RequestFrame),
    ("response", 1): msgspec.json.Decoder(ResponseFrame),
    ("rewind", 1): msgspec.json.Decoder(RewindFrame),
    ("clear", 1): msgspec.json.Decoder(ClearFrame),
    ("fork", 1): msgspec.json.Decoder(ForkFrame),
    ("redaction", 1): msgspec.json.Decoder(RedactionFrame),
}


def read_frame(type: str, v: int, version: int, scope: str | None, text: str) -> Frame | None:
    """The frame of a stored event, or None if this build does not know its type, version or a value in it."""
    decoder = _READ.get((type, v))
    if decoder is None:
        return None
    try:
        frame = decoder.decode(text)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None
    return None if misplaced(frame, version, scope) else frame


def misplaced(frame: Frame, version: int, scope: str | None) -> tuple[str, object, str] | None:
    """The field, value and reason why an event may not stand at this version and in this scope, if it may not."""
    if isinstance(frame, MessageFrame) and scope is not None:  # Nearly all that there are, and so before the others.
        if frame.role == "tool" and frame.tool_call_id is None:
            return "tool_call_id", None, "is missing: a tool message names the call it answers"
        return None
    match frame:
        case DescribeFrame() | RedactionFrame() | ForkFrame() if scope is not None:
            return "scope", scope, "is not allowed: the event is about the whole conversation"
        case MessageFrame() | SummaryFrame() | ClearFrame() | RequestFrame() | ResponseFrame() if scope is None:
            return "scope", None, "is missing"
        case AssistantFrame() | TransferFrame() if scope is None:
            return "scope", None, "is missing"
        case AssistantFrame() | TransferFrame() if scope == "shared_memory":
            return "scope", scope, "is not allowed: shared memory has no assistants"
        case RewindFrame(to=to) if not 0 <= to < version:
            return "to", to, f"is not a version before the rewind's own, {version}"
        case RedactionFrame(target=target) if not 1 <= target < version:
            return "target", target, f"is not a version before the redaction's own, {version}"
        case RequestFrame(at=at) if not 0 <= at < version:
            return "at", at, f"is not a version before the request's own, {version}"
        case ResponseFrame(request=request) if not 1 <= request < version:
            return "request", request, f"is not a version before the response's own, {version}"
        case SummaryFrame(first=first, last=last):
            return _misplaced_range(first, last, version)
        case Context(type="lastNMessages", max_messages=count) if count is None or count < 0:
            return "context.maxMessages", count, "is not a number of messages"
        case TransferFrame(context=Context() as context):
            return misplaced(context, version, scope)
    return None


def _misplaced_range(first: int | None, last: int | None, version: int) -> tuple[str, object, str] | None:
    if first is None and last is None:
        return None
    if last is None:
        return "last", None, "is missing: a range has a first and a last version"
    if first is None:
        return "first", None, "is missing: a range has a first and a last version"
    if not 1 <= first < version:
        return "first", first, f"is not a version before the summary's own, {version}"
    if not first <= last < version:
        return "last", last, f"is not a version from {first} up to before the summary's own, {version}"
    return None
