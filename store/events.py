"""The types of events as people write them: one struct each, with header, frame and content (DESIGN section 2).

Every event may carry `scope` (`chat` if absent), `id` (an idempotency key, unique in its conversation), `occurred_at`,
and `actor`, `meta` and `extra`, which are kept as they are. A field that is None is absent.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any, ClassVar, TypeAlias

import msgspec
from msgspec import Meta

from .frames import (
    AssistantFrame,
    Call,
    ClearFrame,
    Context,
    ContextType,
    DescribeFrame,
    FirstMessageMode,
    ForkFrame,
    Frame,
    MessageFrame,
    Mode,
    PartKind,
    RedactionFrame,
    RequestFrame,
    ResponseFrame,
    RewindFrame,
    Role,
    Status,
    SummaryFrame,
    SummaryRole,
    TransferFrame,
    Usage,
)

SCOPES = ("chat", "agent", "coder", "shared_memory")
HEADER = frozenset(("type", "v", "scope", "id", "occurred_at"))

Name = Annotated[str, Meta(min_length=1, max_length=200, pattern=r"\A[^\x00-\x1f\x7f-\x9f]*\Z")]
SCOPE = re.compile(r"[a-z][a-z0-9_]{0,63}\Z")
Scope = Annotated[str, Meta(pattern=rf"\A{SCOPE.pattern}")]
Count = Annotated[int, Meta(ge=0)]
Part: TypeAlias = dict[str, Any]
Content: TypeAlias = str | list[Part]
Tool: TypeAlias = dict[str, Any]

_PARTS: dict[str, PartKind] = {
    "text": "text",
    "image": "image",
    "image_url": "image",
    "audio": "audio",
    "input_audio": "audio",
    "file": "file",
    "reasoning": "reasoning",
    "thinking": "reasoning",
}


def parts_of(content: Content | None) -> tuple[PartKind, ...]:
    """The kinds of a content's parts in order, a text only if it is not empty; `other` for a kind of one's own."""
    if not content:
        return ()
    if isinstance(content, str):
        return ("text",)
    return tuple(_PARTS.get(part["type"], "other") for part in content if part["type"] != "text" or part["text"])


def tool_names(tools: Sequence[Tool]) -> tuple[str, ...]:
    """The names of tools given either flat or as OpenAI's `{"type": "function", "function": {…}}`."""
    inner = (tool.get("function", tool) for tool in tools)
    return tuple(tool["name"] for tool in inner if isinstance(tool, dict) and isinstance(tool.get("name"), str))


def _said(text: str | None) -> bool | None:
    return None if text is None else bool(text)


class ToolCall(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A call by a model; `arguments` is the JSON text it wrote, valid or not."""

    id: Name
    name: Name
    arguments: str


class TransferContext(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Which visible messages a transfer keeps (DESIGN section 4, rule 4.2)."""

    type: ContextType
    max_messages: int | None = msgspec.field(default=None, name="maxMessages")


class TokenUsage(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Tokens of a model call."""

    prompt_tokens: Count
    completion_tokens: Count
    total_tokens: Count
    cached_tokens: Count | None = None
    reasoning_tokens: Count | None = None

    def frame(self) -> Usage:
        return Usage(**msgspec.structs.asdict(self))


class NewEvent(msgspec.Struct, kw_only=True, omit_defaults=True, tag_field="type"):
    """What every event may carry beside its own fields."""

    scope: str | None = None
    id: Name | None = None
    occurred_at: Annotated[datetime, Meta(tz=True)] | None = None
    actor: Any = None
    meta: dict[str, Any] | None = None
    extra: dict[str, Any] | None = None

    default_scope: ClassVar[str | None] = "chat"

    def frame(self) -> Frame:
        """What of this event survives erasure."""
        raise NotImplementedError


class Describe(NewEvent, kw_only=True, tag="describe"):
    """About the conversation; the latest wins, key by key. `scopes` lists further scopes."""

    title: str | None = None
    metadata: dict[str, Any] | None = None
    scopes: list[Scope] | None = None

    default_scope: ClassVar[str | None] = None

    def frame(self) -> DescribeFrame:
        return DescribeFrame(scopes=None if self.scopes is None else tuple(self.scopes))


class Assistant(NewEvent, kw_only=True, tag="assistant"):
    """Declares an assistant in a scope."""

    assistant: Name
    system: str | None = None
    tools: list[Tool] | None = None
    first_message: str | None = None
    model: str | None = None

    def frame(self) -> AssistantFrame:
        return AssistantFrame(
            assistant=self.assistant,
            system=_said(self.system),
            tools=None if self.tools is None else tool_names(self.tools),
            first_message=_said(self.first_message),
            model=_said(self.model),
        )


class Message(NewEvent, kw_only=True, tag="message"):
    """Something said. A `system` message is a note; prompts come from `Assistant` and `Transfer`."""

    role: Role
    content: Content = ""
    tool_calls: list[ToolCall] | None = None
    tool_call_id: Name | None = None
    name: Name | None = None
    assistant: Name | None = None

    def frame(self) -> MessageFrame:
        return MessageFrame(
            role=self.role,
            parts=parts_of(self.content),
            tool_calls=_calls(self.tool_calls),
            tool_call_id=self.tool_call_id,
            assistant=self.assistant,
            name=self.name if self.role == "tool" else None,
        )


class Transfer(NewEvent, kw_only=True, tag="transfer", rename={"from_": "from"}):
    """A handoff inside its scope; `message` is the destination message, spoken before it."""

    to: Name
    mode: Mode | None = None
    from_: Name | None = None
    message: str | None = None
    system: str | None = None
    tools: list[Tool] | None = None
    first_message: str | None = None
    first_message_mode: FirstMessageMode | None = None
    tool_call_id: Name | None = None
    context: TransferContext | None = None
    reason: str | None = None
    inferred: bool | None = None

    def frame(self) -> TransferFrame:
        context = self.context
        return TransferFrame(
            to=self.to,
            mode=self.mode,
            from_=self.from_,
            message=_said(self.message),
            system=_said(self.system),
            tools=None if self.tools is None else tool_names(self.tools),
            first_message=_said(self.first_message),
            first_message_mode=self.first_message_mode,
            tool_call_id=self.tool_call_id,
            context=None if context is None else Context(type=context.type, max_messages=context.max_messages),
            inferred=self.inferred,
        )


class Summary(NewEvent, kw_only=True, tag="summary"):
    """Stands for `summary_of` original messages, in place of those in `[first, last]` (DESIGN section 4, rule 5)."""

    text: str
    summary_of: Count
    first: int | None = None
    last: int | None = None
    method: str | None = None
    max_tokens: Count | None = None
    usage: TokenUsage | None = None
    role: SummaryRole = "user"

    def frame(self) -> SummaryFrame:
        return SummaryFrame(
            summary_of=self.summary_of,
            text=bool(self.text),
            first=self.first,
            last=self.last,
            max_tokens=self.max_tokens,
            usage=None if self.usage is None else self.usage.frame(),
            role=self.role,
        )


class Request(NewEvent, kw_only=True, tag="request"):
    """A model was called with this scope's history as of version `at`; `history` is that history's digest."""

    at: int
    history: str | None = None
    rules: int | None = None
    model: str | None = None
    cache_points: list[Any] | None = None
    parameters: dict[str, Any] | None = None

    def frame(self) -> RequestFrame:
        return RequestFrame(at=self.at, history=self.history, rules=self.rules)


class Response(NewEvent, kw_only=True, tag="response"):
    """What came back; only `completed` is visible to the model. `message` is the error."""

    request: int
    status: Status
    response: Content | None = None
    tool_calls: list[ToolCall] | None = None
    message: str | None = None
    usage: TokenUsage | None = None
    finish_reason: str | None = None
    response_id: Name | None = None

    def frame(self) -> ResponseFrame:
        return ResponseFrame(
            request=self.request,
            status=self.status,
            parts=parts_of(self.response),
            tool_calls=_calls(self.tool_calls),
            usage=None if self.usage is None else self.usage.frame(),
        )


class Rewind(NewEvent, kw_only=True, tag="rewind"):
    """The log goes on from version `to` (0: the beginning); without a scope, in every scope."""

    to: int

    default_scope: ClassVar[str | None] = None

    def frame(self) -> RewindFrame:
        return RewindFrame(to=self.to)


class Clear(NewEvent, kw_only=True, tag="clear"):
    """Empties its scope of messages."""

    def frame(self) -> ClearFrame:
        return ClearFrame()


class Fork(NewEvent, kw_only=True, tag="fork"):
    """First own event of a forked conversation: `parent` is a uuid, `at` the last version shared."""

    parent: str
    at: int

    default_scope: ClassVar[str | None] = None

    def frame(self) -> ForkFrame:
        return ForkFrame(parent=self.parent, at=self.at)


class Redaction(NewEvent, kw_only=True, tag="redaction"):
    """Erases what the event of version `target` said; `replacement` is shown in its place."""

    target: int
    reason: str
    replacement: str | None = None

    default_scope: ClassVar[str | None] = None

    def frame(self) -> RedactionFrame:
        return RedactionFrame(target=self.target, replacement=_said(self.replacement))


class Custom(NewEvent, kw_only=True):
    """An event of a type of one's own, `x:…`: kept and shown to nobody."""

    def frame(self) -> Frame:
        return Frame()


TYPES: dict[str, type[NewEvent]] = {
    cls.__struct_config__.tag: cls  # type: ignore[misc]
    for cls in (
        Describe,
        Assistant,
        Message,
        Transfer,
        Summary,
        Request,
        Response,
        Rewind,
        Clear,
        Fork,
        Redaction,
    )
}
CUSTOM_TYPE = re.compile(r"x:[^\x00-\x20\x7f-\x9f]{1,100}\Z")


def _calls(calls: list[ToolCall] | None) -> tuple[Call, ...]:
    return tuple([Call(id=call.id, name=call.name) for call in calls]) if calls else ()
