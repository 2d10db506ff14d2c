"""From the items of a view to the messages that the model saw; rule 8's redactions are applied here."""

from __future__ import annotations

from typing import Any, cast

import msgspec

from turnlog.store import Row
from turnlog.store.events import CONTENTS, TEXTS, AssistantFrame, TransferFrame

from .redactions import REDACTED, Redactions
from .view import Item, Origin


class VisibleCall(msgspec.Struct, frozen=True, gc=False):
    """A tool call as the model saw it; `arguments` is the JSON text that a model wrote."""

    id: str
    name: str
    arguments: str


class VisibleMessage(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A message as the model saw it.

    `version` is the event that placed it and `origin` what it is of that event; `source` is the event that said it, if
    that is another. `content` is a text, or a list of parts as they were written.
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


class Contents:
    """What the events of a conversation said, by version, with its redactions applied."""

    def __init__(self, events: dict[int, Row], redactions: Redactions) -> None:
        self.events = events
        self.redactions = redactions

    def message(self, item: Item) -> VisibleMessage:
        """The message that an item shows."""
        event = self.events[item.source]
        redaction = self.redactions.text(event)
        origin = item.origin
        if redaction is not None:
            said = _NOTHING
            content: str | list[dict[str, Any]] = redaction if item.parts else ""
        else:
            said = _said(event)
            content = getattr(said, item.body_field)
            if item.text_only and not isinstance(content, str):
                content = [part for part in content if part.get("type") == "text" and part.get("text")]
        own = origin in _OWN
        return VisibleMessage(
            item.role,
            content,
            item.version,
            origin,
            item.assistant,
            item.scope,
            None if item.source == item.version else item.source,
            _calls(item, said, redaction) if item.calls else (),
            item.tool_call_id,
            item.name or (said.name if origin == "message" else None),
            item.summary_of,
            redaction is not None,
            said.meta if own else None,
            said.extra if own else None,
        )

    def tools(self, version: int) -> list[dict[str, Any]]:
        """The tools that an `assistant` or `transfer` event gave; only their names, once it is redacted."""
        event = self.events[version]
        if self.redactions.text(event) is not None:
            frame = event.frame
            names = frame.tools if isinstance(frame, AssistantFrame | TransferFrame) else ()
            return [{"name": name} for name in names or ()]
        tools = event.body.get("tools")
        return tools if isinstance(tools, list) else []

    def model(self, version: int) -> str | None:
        """The model that an `assistant` event named; None once it is redacted."""
        event = self.events[version]
        return None if self.redactions.text(event) is not None else _text(event.body.get("model"))


class _Said(msgspec.Struct, gc=False):
    """What any event may say, as far as a view shows it; `_Body` adds the fields that have text."""

    tool_calls: tuple[VisibleCall, ...] = ()
    name: str | None = None
    meta: Any = None
    extra: Any = None


_CONTENT = str | list[dict[str, Any]]
_Body = cast(
    type[_Said],
    msgspec.defstruct(
        "_Body", [(field, _CONTENT if field in CONTENTS else str, "") for field in TEXTS], bases=(_Said,), gc=False
    ),
)
_OWN = ("message", "response", "summary", "prompt")
_NOTHING = _Body()
_decode = msgspec.json.Decoder(_Body).decode


def _said(event: Row) -> _Said:
    try:
        return _decode(event.body_text or "{}")
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        # A null, or damage: what is of the right kind is taken.
        fields = {field: value for field, value in event.body.items() if _fits(field, value)}
        return msgspec.convert(fields, _Body)


def _fits(field: str, value: Any) -> bool:
    try:
        msgspec.convert({field: value}, _Body)
    except msgspec.ValidationError:
        return False
    return field in _Body.__struct_fields__


def _calls(item: Item, said: _Said, redaction: str | None) -> tuple[VisibleCall, ...]:
    if not item.removed and len(said.tool_calls) == len(item.calls):
        return said.tool_calls
    written = [call.arguments for call in said.tool_calls]
    if redaction is not None or len(written) != len(item.calls):
        written = ["" if redaction is None else REDACTED] * len(item.calls)
    return tuple(VisibleCall(call.id, call.name, written[index]) for index, call in item.visible_calls)


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
