"""From the spans of a view to the messages that the model saw; rule 8's redactions are applied here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, cast

import msgspec

from turnlog.store.codec import Source
from turnlog.store.events import CONTENTS, TEXTS, MessageFrame, ResponseFrame, calls_of, kind_of, text_of
from turnlog.store.spans import ORIGINS, PLACES, ROLES, TEXT_ONLY, Origin, read_form

from .redactions import REDACTED, Redactions
from .timelines.frames import SHARED
from .timelines.item import decode_removed, visible_calls

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


class Renderer:
    """Makes the messages that spans show from the bodies of the events whose texts they show.

    `names` are the timeline's assistants, by number. `read_event` reads the event of a version, for what a body does
    not say that is damaged or redacted.
    """

    def __init__(
        self, names: Sequence[str], scope: str, redactions: Redactions, read_event: Callable[[int], Source]
    ) -> None:
        self._names = names
        self._scope = scope
        self._redactions = redactions
        self._read_event = read_event

    def message(
        self,
        place: int,
        form: int,
        assistant: int | None,
        placed: int | None,
        source: int | None,
        removed: str | None,
        body_text: str | None,
    ) -> VisibleMessage:
        """Return the message of a span; `body_text` is the body that it shows a text of, None once it is redacted."""
        origin, role, shared, bits, written = read_form(form)
        version = place // PLACES if placed is None else placed
        body, frame, redaction = _NOTHING, None, None
        if body_text is None:
            event = self._read_event(source or version)
            frame, redaction = event.frame, self._redactions.text(event)
        else:
            try:
                body = _decode(body_text)
            except (msgspec.MsgspecError, UnicodeError, RecursionError):
                event = self._read_event(source or version)
                body, frame = _salvaged(event), event.frame
        content = getattr(body, FIELDS[origin])
        parts = None
        calls: tuple[VisibleCall, ...] = ()
        if redaction is not None:
            content = redaction if bits else ""
        elif type(content) is list:
            if written:
                calls = tuple([VisibleCall(call.id, call.name, call.arguments) for call in calls_of(content)])
            content, parts = _visible_parts(content, form, removed)
        if written:
            calls = calls or body.tool_calls
            if len(calls) != written:
                calls = self._calls_of_frame(source or version, redaction is not None)
            if removed is not None:
                calls = tuple([calls[index] for index in visible_calls(form, removed) if index < len(calls)])
        call_id, name, interim = body.tool_call_id, body.name, body.interim
        if isinstance(frame, MessageFrame):
            call_id, name, interim = frame.tool_call_id, frame.name or name, frame.interim
        said = origin == _MESSAGE
        own = origin <= _PROMPT
        return VisibleMessage(
            ROLES[role],
            content,
            version,
            ORIGINS[origin],
            None if assistant is None else self._names[assistant],
            SHARED if shared else self._scope,
            None if source == version else source,
            calls,
            call_id if said else None,
            name if said else None,
            _summary_of(body, frame) if origin == _SUMMARY else None,
            redaction is not None,
            body.meta if own else None,
            body.extra if own else None,
            parts,
            said and bool(interim),
        )

    def _calls_of_frame(self, version: int, redacted: bool) -> tuple[VisibleCall, ...]:
        frame = self._read_event(version).frame
        calls = frame.tool_calls if isinstance(frame, MessageFrame | ResponseFrame) else ()
        return tuple([VisibleCall(call.id, call.name, REDACTED if redacted else "") for call in calls])


def seal_of(form: int, removed: str | None, digests: Sequence[str]) -> Seal:
    """Return what a history's digest is made of for the message of a span, with the digests of its events."""
    return Seal(tuple(digests), bool(read_form(form).parts & TEXT_ONLY), tuple(visible_calls(form, removed)))


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


def _salvaged(event: Source) -> Any:
    """Return of a body with a null in it, or with damage, what is of the right kind."""
    return msgspec.convert({field: value for field, value in event.body.items() if _fits(field, value)}, _Body)


def _fits(field: str, value: Any) -> bool:
    try:
        msgspec.convert({field: value}, _Body)
    except msgspec.ValidationError:
        return False
    return field in _Body.__struct_fields__


def _visible_parts(
    content: list[dict[str, Any]], form: int, removed: str | None
) -> tuple[list[dict[str, Any]], list[dict[str, Any]] | None]:
    """Return the visible parts without the calls and, if a visible call is among the parts, with them."""
    written = read_form(form)
    if written.parts & TEXT_ONLY:
        return [_as_text(part) for part in content if text_of(part)], None
    if not written.calls:
        return content, None
    taken = decode_removed(removed)
    others, visible = [], []
    number = 0
    for part in content:
        if kind_of(part) != "tool_call":
            others.append(part)
            visible.append(part)
        else:
            if number not in taken:
                visible.append(part)
            number += 1
    return others, visible if len(visible) > len(others) else None


def _as_text(part: dict[str, Any]) -> dict[str, Any]:
    """Return a part that is only text: of an audio its transcript, any other as it was written."""
    return {"type": "text", "text": text_of(part)} if kind_of(part) == "audio" else part


def _summary_of(body: Any, frame: Any) -> int | None:
    return getattr(frame, "summary_of", None) if body.summary_of is None else body.summary_of
