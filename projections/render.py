"""From the items of a view to the messages that the model saw; rule 8's redactions are applied here."""

from __future__ import annotations

from typing import Any

import msgspec

from turnlog.store import Event
from turnlog.store.frames import AssistantFrame, TransferFrame

from .redactions import REDACTED, Redactions
from .view import Item, Origin


class VisibleCall(msgspec.Struct, frozen=True):
    """A tool call as the model saw it; `arguments` is the JSON text that a model wrote."""

    id: str
    name: str
    arguments: str


class VisibleMessage(msgspec.Struct, frozen=True, omit_defaults=True):
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

    def __init__(self, events: dict[int, Event], redactions: Redactions) -> None:
        self.events = events
        self.redactions = redactions

    def message(self, item: Item) -> VisibleMessage:
        """The message that an item shows."""
        event = self.events[item.source]
        redaction = self.redactions.text(event)
        body = event.body if redaction is None else {}
        own = item.origin in ("message", "response", "summary", "prompt")
        return VisibleMessage(
            role=item.role,
            content=self._content(item, body) if redaction is None else redaction if item.parts else "",
            version=item.version,
            origin=item.origin,
            assistant=item.assistant,
            scope=item.scope,
            source=None if item.source == item.version else item.source,
            tool_calls=tuple(
                VisibleCall(call.id, call.name, _arguments(body, index) if redaction is None else REDACTED)
                for index, call in item.visible_calls
            ),
            tool_call_id=item.tool_call_id,
            name=item.name or (_text(body.get("name")) if item.origin == "message" else None),
            summary_of=item.summary_of,
            redacted=redaction is not None,
            meta=body.get("meta") if own else None,
            extra=body.get("extra") if own else None,
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

    def _content(self, item: Item, body: dict[str, Any]) -> str | list[dict[str, Any]]:
        content = body.get(item.body_field)
        if isinstance(content, list):
            parts = [part for part in content if isinstance(part, dict)]
            return (
                [part for part in parts if part.get("type") == "text" and part.get("text")] if item.text_only else parts
            )
        return content if isinstance(content, str) else ""


def _arguments(body: dict[str, Any], index: int) -> str:
    try:
        return _text(body["tool_calls"][index]["arguments"]) or ""
    except (KeyError, IndexError, TypeError):
        return ""


def _is_text(part: dict[str, Any]) -> bool:
    return part.get("type") == "text" and bool(part.get("text"))


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
