"""`transfer`: hands over to another assistant."""

from __future__ import annotations

from typing import ClassVar, Literal

import msgspec

from .base import Frame, FrameField, Misplaced, Name, NewEvent, Tool, assistants_scope, flag, tool_names

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


class Context(FrameField, frozen=True, kw_only=True, gc=False):
    """Which visible messages a transfer keeps, as a frame has it."""

    type: ContextType
    max_messages: int | None = msgspec.field(default=None, name="maxMessages")


class TransferContext(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Which visible messages a transfer keeps."""

    type: ContextType
    max_messages: int | None = msgspec.field(default=None, name="maxMessages")

    def frame(self) -> Context:
        """Return the context as a frame has it."""
        return Context(type=self.type, max_messages=self.max_messages)


class TransferFrame(Frame, frozen=True, kw_only=True, gc=False):
    """The frame of a `transfer` event."""

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

    def misplaced(self, version: int, scope: str | None) -> Misplaced | None:
        """Return what is wrong if it has no scope or is in shared memory, or keeps no number of messages."""
        return assistants_scope(scope) or self._misplaced_context()

    def _misplaced_context(self) -> Misplaced | None:
        context = self.context
        if context is None or context.type != "lastNMessages":
            return None
        count = context.max_messages
        return ("context.maxMessages", count, "is not a number of messages") if count is None or count < 0 else None


class Transfer(NewEvent, kw_only=True, tag="transfer", rename={"from_": "from"}):
    """Hands over inside its scope; `message` is the destination message, spoken before it."""

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

    frame_type: ClassVar[type[Frame]] = TransferFrame
    texts: ClassVar[tuple[str, ...]] = ("system", "first_message", "message", "reason")

    def frame(self) -> TransferFrame:
        """Return how and to whom it hands over, and whether there are a prompt, tools and messages."""
        return TransferFrame(
            to=self.to,
            mode=self.mode,
            from_=self.from_,
            message=flag(self.message),
            system=flag(self.system),
            tools=tool_names(self.tools),
            first_message=flag(self.first_message),
            first_message_mode=self.first_message_mode,
            tool_call_id=self.tool_call_id,
            context=None if self.context is None else self.context.frame(),
            inferred=self.inferred,
        )
