"""Usage: the tokens that models took, per conversation, scope, assistant and model (DESIGN section 7)."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from turnlog.store import Event, Store
from turnlog.store.events import ResponseFrame, SummaryFrame, Usage

from .history import active_at
from .timelines.timeline import Timeline, timeline_of

_TYPES = ("request", "response", "summary")


class UsageRow(msgspec.Struct):
    """The tokens of some calls; cached and reasoning tokens are parts of the prompt's and the completion's."""

    conversation: str
    scope: str
    assistant: str | None
    model: str | None
    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    total_tokens: int = 0
    cached_tokens: int = 0
    reasoning_tokens: int = 0

    def add(self, usage: Usage) -> None:
        """Add a call's tokens."""
        self.calls += 1
        self.prompt_tokens += usage.prompt_tokens
        self.completion_tokens += usage.completion_tokens
        self.total_tokens += usage.total_tokens
        self.cached_tokens += usage.cached_tokens or 0
        self.reasoning_tokens += usage.reasoning_tokens or 0


def usage(store: Store, conversation: str | None = None) -> list[UsageRow]:
    """What every response and summary with a usage took, rewound ones included; a fork has only its own.

    :raises NotFound: there is no such conversation.
    """
    wanted = [each.uuid for each in store.conversations()] if conversation is None else [conversation]
    return [row for name in wanted for row in _of(store, name)]


def _of(store: Store, conversation: str) -> list[UsageRow]:
    stream = store.stream(conversation)
    rows: dict[tuple[str, str | None, str | None], UsageRow] = {}
    models: dict[int, str | None] = {}
    lines: dict[str, Timeline] = {}
    for event in store.events(conversation, types=_TYPES):
        if event.type == "request":
            models[event.version] = event.body.get("model")
        scope = event.scope or "chat"
        for spent, model in _spent(event, models):
            if event.conversation == stream.uuid:
                if scope not in lines:
                    lines[scope] = timeline_of(store, stream, scope)
                active = lines[scope].ask(event.version, active_at)
                assistant = None if active is None else active.name
                row = rows.setdefault((scope, assistant, model), UsageRow(stream.label, scope, assistant, model))
                row.add(spent)
    return list(rows.values())


def _spent(event: Event, models: dict[int, str | None]) -> Iterator[tuple[Usage, str | None]]:
    frame = event.frame
    if isinstance(frame, ResponseFrame) and frame.usage is not None:
        yield frame.usage, models.get(frame.request)
    elif isinstance(frame, SummaryFrame) and frame.usage is not None:
        yield frame.usage, event.body.get("method")
