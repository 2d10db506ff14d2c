"""From the spans of a view to the messages that the model saw; rule 8's redactions are applied here."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, cast

import msgspec

from turnlog.store.codec import Source
from turnlog.store.events import CONTENTS, TEXTS, MessageFrame, ResponseFrame, calls_of, kind_of, text_of
from turnlog.store.spans import ORIGINS, ROLES, TEXT_ONLY, SpanRow, version_of

from .redactions import REDACTED, Redactions
from .timelines.item import decode_removed, visible_calls

Origin = Literal["prompt", "first_message", "message", "response", "destination_message", "summary"]
# The field of an event's body that a message of each origin shows, in the order of ORIGINS.
FIELDS = ("content", "response", "text", "system", "first_message", "message")
_MESSAGE, _RESPONSE, _SUMMARY, _PROMPT = range(4)


class VisibleCall(msgspec.Struct, frozen=True, gc=False):
    """A tool call as the model saw it; `arguments` is the JSON text that a model wrote."""

    id: str
    name: str
    arguments: str


class VisibleMessage(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A message as the model saw it.

    `version` is the event that placed it and `origin` what it is of that event; `source` is the event that has its
    text, if that is another. `content` is a text, or a list of parts as they were written, without calls: `tool_calls`
    has those. Where calls are written among the parts, `parts` has both in order as they were written. `interim` marks
    a result that came before the call was done.
    """

    role: str
    content: str | list[dict[str, Any]]
    version: int
    origin: Origin
    assistant: str | None
    scope: str
    source: int | None = None
    tool_calls: tuple[VisibleCall, ...] = ()
    tool_call_id: str | None = None
    name: str | None = None
    summary_of: int | None = None
    redacted: bool = False
    meta: Any = None
    extra: Any = None
    parts: list[dict[str, Any]] | None = None
    interim: bool = False


class Seal(NamedTuple):
    """Hold what a history's digest is made of for one message: the digests of the events it shows, and its form."""

    digests: tuple[str, ...]
    text_only: bool
    calls: tuple[int, ...]


def message_of(
    span: SpanRow, event: Source, redactions: Redactions, assistant: str | None, scope: str
) -> VisibleMessage:
    """Return the message that a span shows."""
    redaction = redactions.text(event)
    body, whole = (_NOTHING, False) if redaction is not None else _read(event)
    # What a body that is damaged or redacted does not say, the frame does.
    frame = None if whole else event.frame
    origin = span.origin
    content = getattr(body, FIELDS[origin])
    parts = None
    calls: tuple[VisibleCall, ...] = ()
    if redaction is not None:
        content = redaction if span.parts else ""
    elif type(content) is list:
        if span.calls:
            calls = tuple(VisibleCall(call.id, call.name, call.arguments) for call in calls_of(content))
        content, parts = _visible_parts(content, span)
    if span.calls:
        calls = _calls(span, calls or body.tool_calls, event, redaction is not None)
    call_id, name, interim = body.tool_call_id, body.name, body.interim
    if isinstance(frame, MessageFrame):
        call_id, name, interim = frame.tool_call_id, frame.name or name, frame.interim
    said = origin == _MESSAGE
    own = origin <= _PROMPT
    version = version_of(span)
    return VisibleMessage(
        ROLES[span.role],
        content,
        version,
        cast(Origin, ORIGINS[origin]),
        assistant,
        scope,
        None if span.source is None or span.source == version else span.source,
        calls,
        call_id if said else None,
        name if said else None,
        _summary_of(body, frame) if origin == _SUMMARY else None,
        redaction is not None,
        body.meta if own else None,
        body.extra if own else None,
        parts,
        bool(interim) and said,
    )


def seal_of(span: SpanRow, event: Source, redactions: Redactions) -> Seal:
    """Return what a history's digest is made of for the message that a span shows."""
    digests = (event.digest.hex(), *(each.digest.hex() for each in redactions.of(event)))
    return Seal(digests, bool(span.parts & TEXT_ONLY), tuple(visible_calls(span)))


class _Common(msgspec.Struct, gc=False):
    """What an event may say beside its texts, as far as a view shows it."""

    tool_calls: tuple[VisibleCall, ...] = ()
    tool_call_id: str | None = None
    name: str | None = None
    summary_of: int | None = None
    interim: bool | None = None
    meta: Any = None
    extra: Any = None


_CONTENT = str | list[dict[str, Any]]
_Body = cast(
    type[Any],
    msgspec.defstruct(
        "_Body", [(field, _CONTENT if field in CONTENTS else str, "") for field in TEXTS], bases=(_Common,), gc=False
    ),
)
_NOTHING = _Body()
_decode = msgspec.json.Decoder(_Body).decode


def _read(event: Source) -> tuple[Any, bool]:
    try:
        return _decode(event.body_text or "{}"), True
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        # A null, or damage: what is of the right kind is taken.
        body = msgspec.convert({field: value for field, value in event.body.items() if _fits(field, value)}, _Body)
        return body, False


def _fits(field: str, value: Any) -> bool:
    try:
        msgspec.convert({field: value}, _Body)
    except msgspec.ValidationError:
        return False
    return field in _Body.__struct_fields__


def _visible_parts(
    content: list[dict[str, Any]], span: SpanRow
) -> tuple[list[dict[str, Any]], list[dict[str, Any]] | None]:
    """Return the visible parts without the calls and, if a visible call is among the parts, with them."""
    if span.parts & TEXT_ONLY:
        return [_as_text(part) for part in content if text_of(part)], None
    if not span.calls:
        return content, None
    removed = decode_removed(span.removed)
    others, visible = [], []
    number = 0
    for part in content:
        if kind_of(part) != "tool_call":
            others.append(part)
            visible.append(part)
        else:
            if number not in removed:
                visible.append(part)
            number += 1
    return others, visible if len(visible) > len(others) else None


def _as_text(part: dict[str, Any]) -> dict[str, Any]:
    """Return a part that is only text: of an audio its transcript, any other as it was written."""
    return {"type": "text", "text": text_of(part)} if kind_of(part) == "audio" else part


def _calls(span: SpanRow, written: tuple[VisibleCall, ...], event: Source, redacted: bool) -> tuple[VisibleCall, ...]:
    if span.removed is None and not redacted and len(written) == span.calls:
        return written
    left = visible_calls(span)
    if len(written) == span.calls:
        return tuple(written[index] for index in left)
    frame = event.frame
    calls = frame.tool_calls if isinstance(frame, MessageFrame | ResponseFrame) else ()
    arguments = REDACTED if redacted else ""
    return tuple(VisibleCall(calls[index].id, calls[index].name, arguments) for index in left if index < len(calls))


def _summary_of(body: Any, frame: Any) -> int | None:
    return getattr(frame, "summary_of", None) if body.summary_of is None else body.summary_of
