"""`message`: what a user, an assistant or a tool says, or a note."""

from __future__ import annotations

from typing import ClassVar, Literal

from .base import Frame, Misplaced, Name, NewEvent
from .parts import Call, Content, PartKind, ToolCall, check_content, frame_calls, frame_parts

Role = Literal["system", "user", "assistant", "tool"]


class MessageFrame(Frame, frozen=True, kw_only=True, gc=False):
    """The frame of a `message` event."""

    role: Role
    parts: tuple[PartKind, ...] = ()
    tool_calls: tuple[Call, ...] = ()
    tool_call_id: str | None = None
    assistant: str | None = None
    name: str | None = None
    interim: bool = False

    def misplaced(self, version: int, scope: str | None) -> Misplaced | None:
        """Return what is wrong if it has no scope, is a result that names no call, or is interim and no result."""
        if scope is None:
            return "scope", None, "is missing"
        if self.role == "tool" and self.tool_call_id is None:
            return "tool_call_id", None, "is missing: a tool message names the call it answers"
        if self.interim and self.role != "tool":
            return "interim", True, f"is not allowed: a result may be interim, a message of role {self.role} may not"
        return None


class Message(NewEvent, kw_only=True, tag="message"):
    """A message. One of role `system` is a note; prompts come from `Assistant` and `Transfer`.

    A result that is `interim` shows how far a call has come; a later result of the same call takes its place.
    """

    role: Role
    content: Content = ""
    tool_calls: list[ToolCall] | None = None
    tool_call_id: Name | None = None
    name: Name | None = None
    assistant: Name | None = None
    interim: bool | None = None

    frame_type: ClassVar[type[Frame]] = MessageFrame
    texts: ClassVar[tuple[str, ...]] = ("content",)
    parts_field: ClassVar[str | None] = "content"

    def check(self) -> None:
        """Refuse parts and calls that are not well-formed."""
        if type(self.content) is list:
            check_content("content", self.content, self.tool_calls)

    def frame(self) -> MessageFrame:
        """Return the role, the kinds of the parts, the calls, and who is concerned."""
        return MessageFrame(
            role=self.role,
            parts=frame_parts(self.content),
            tool_calls=frame_calls(self.content, self.tool_calls),
            tool_call_id=self.tool_call_id,
            assistant=self.assistant,
            name=self.name if self.role == "tool" else None,
            interim=bool(self.interim),
        )
