"""`assistant`: declares an assistant in a scope."""

from __future__ import annotations

from typing import ClassVar

from .base import Frame, Misplaced, Name, NewEvent, Tool, assistants_scope, flag, tool_names


class AssistantFrame(Frame, frozen=True, kw_only=True, gc=False):
    """The frame of an `assistant` event."""

    assistant: str
    system: bool | None = None
    tools: tuple[str, ...] | None = None
    first_message: bool | None = None
    model: bool | None = None

    def misplaced(self, version: int, scope: str | None) -> Misplaced | None:
        """Return what is wrong if it has no scope or is in shared memory."""
        return assistants_scope(scope)


class Assistant(NewEvent, kw_only=True, tag="assistant"):
    """Declares an assistant in a scope."""

    assistant: Name
    system: str | None = None
    tools: list[Tool] | None = None
    first_message: str | None = None
    model: str | None = None

    frame_type: ClassVar[type[Frame]] = AssistantFrame
    texts: ClassVar[tuple[str, ...]] = ("system", "first_message")

    def frame(self) -> AssistantFrame:
        """Return the name, and whether there are a prompt, tools, a first message and a model."""
        return AssistantFrame(
            assistant=self.assistant,
            system=flag(self.system),
            tools=tool_names(self.tools),
            first_message=flag(self.first_message),
            model=flag(self.model),
        )
