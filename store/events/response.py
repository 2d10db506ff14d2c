"""`response`: records what a model answered."""

from __future__ import annotations

from typing import ClassVar, Literal

from .base import Frame, Misplaced, Name, NewEvent, not_earlier, scope_missing
from .parts import Call, Content, PartKind, ToolCall, check_content, frame_calls, frame_parts
from .usage import TokenUsage, Usage

Status = Literal["processing", "completed", "error"]


class ResponseFrame(Frame, frozen=True, kw_only=True, gc=False):
    """The frame of a `response` event."""

    request: int
    status: Status
    parts: tuple[PartKind, ...] = ()
    tool_calls: tuple[Call, ...] = ()
    usage: Usage | None = None

    def misplaced(self, version: int, scope: str | None) -> Misplaced | None:
        """Return what is wrong if it has no scope, or its request is not an earlier version."""
        return scope_missing(scope) or not_earlier("request", self.request, version, "response")


class Response(NewEvent, kw_only=True, tag="response"):
    """Records what a model answered; only a `completed` one is visible to it. `message` is the error."""

    request: int
    status: Status
    response: Content | None = None
    tool_calls: list[ToolCall] | None = None
    message: str | None = None
    usage: TokenUsage | None = None
    finish_reason: str | None = None
    response_id: Name | None = None

    frame_type: ClassVar[type[Frame]] = ResponseFrame
    texts: ClassVar[tuple[str, ...]] = ("response", "message")
    parts_field: ClassVar[str | None] = "response"
    references: ClassVar[tuple[str, ...]] = ("request",)

    def check(self) -> None:
        """Refuse parts and calls that are not well-formed."""
        if type(self.response) is list:
            check_content("response", self.response, self.tool_calls)

    def frame(self) -> ResponseFrame:
        """Return the status, the kinds of the parts, the calls and the token counts."""
        return ResponseFrame(
            request=self.request,
            status=self.status,
            parts=frame_parts(self.response),
            tool_calls=frame_calls(self.response, self.tool_calls),
            usage=None if self.usage is None else self.usage.frame(),
        )
