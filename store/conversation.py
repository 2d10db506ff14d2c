"""A handle on one conversation, with a method for each thing that is said often."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from .append import Receipt
from .events import (
    Assistant,
    Clear,
    Content,
    Message,
    NewEvent,
    Rewind,
    ToolCall,
    Transfer,
)
from .expected import ANY, ExpectedVersion


class Appends(Protocol):
    """What a handle needs of a store."""

    def append(
        self, conversation: str, events: Sequence[NewEvent | Mapping[str, Any]], *, expected: ExpectedVersion = ANY
    ) -> Receipt: ...


class Conversation:
    """The conversation `name` of a store. Every method appends and returns the receipt of `Store.append`.

    Further keywords are the event's own fields (`scope`, `id`, `meta` …). What is not here is appended as an event:
    `call.append(Summary(text="…", summary_of=2, first=1, last=2))`.
    """

    def __init__(self, store: Appends, name: str) -> None:
        self.store = store
        self.name = name

    def append(self, *events: NewEvent | Mapping[str, Any], expected: ExpectedVersion = ANY) -> Receipt:
        """Append a batch, all or nothing; raises what `Store.append` raises."""
        return self.store.append(self.name, events, expected=expected)

    def assistant(self, assistant: str, **fields: Any) -> Receipt:
        """Declare an assistant: `system`, `tools`, `first_message`, `model`."""
        return self.append(Assistant(assistant=assistant, **fields))

    def user(self, content: Content, **fields: Any) -> Receipt:
        """What the user said."""
        return self.append(Message(role="user", content=content, **fields))

    def reply(self, content: Content = "", tool_calls: Sequence[ToolCall] = (), **fields: Any) -> Receipt:
        """What the assistant said, and the tools it called."""
        return self.append(Message(role="assistant", content=content, tool_calls=list(tool_calls) or None, **fields))

    def tool(self, tool_call_id: str, content: Content, **fields: Any) -> Receipt:
        """A tool's result."""
        return self.append(Message(role="tool", tool_call_id=tool_call_id, content=content, **fields))

    def note(self, content: Content, **fields: Any) -> Receipt:
        """A system message in the middle of a conversation."""
        return self.append(Message(role="system", content=content, **fields))

    def transfer(self, to: str, **fields: Any) -> Receipt:
        """Hand over to another assistant: `mode`, `message`, `system`, `tools`, `context` …"""
        return self.append(Transfer(to=to, **fields))

    def rewind(self, to: int, scope: str | None = None) -> Receipt:
        """Go on from version `to`, in one scope or in all."""
        return self.append(Rewind(to=to, scope=scope))

    def clear(self, scope: str = "chat") -> Receipt:
        """Empty a scope of messages."""
        return self.append(Clear(scope=scope))
