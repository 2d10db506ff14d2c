"""The `openai` format: chat messages as OpenAI's chat completions take them, one document or one a line."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pydantic

from turnlog.projections import Description, Timeline

from .document import Document, Value, validate, within
from .messages import ASSISTANT, ChatMessage, is_prompt, message_event, prompt_event, written
from .times import timed, with_derived_times
from .transfers import TransferTools

_TYPES = ("assistant", "message", "transfer")


class _Conversation(pydantic.BaseModel):
    id: str | None = None
    messages: list[ChatMessage]
    tools: list[dict[str, Any]] | None = None
    model: str | None = None


def recognises(value: Any) -> bool:
    """Whether a value looks like a list of chat messages, or an object with one."""
    messages = value.get("messages") if isinstance(value, dict) else value
    return isinstance(messages, list) and all(isinstance(message, dict) and "role" in message for message in messages)


def read(file: str, value: Value, tools: TransferTools | None) -> Document:
    """The conversation of one value of a file; with `tools`, transfers are inferred.

    :raises BrokenFile: names the message and the field.
    """
    given: dict[str, Any] = {"messages": value.value} if isinstance(value.value, list) else value.value
    validate(_Conversation, given, file, value.place)
    messages = given["messages"]
    events: list[dict[str, Any]] = []
    places: list[str] = []
    fields = {"messages", *(key for key in ("id", "tools", "model") if given.get(key) is not None)}
    metadata = {key: more for key, more in given.items() if key not in fields}
    if metadata:
        events.append({"type": "describe", "metadata": metadata})
        places.append(value.place)
    declared = {key: given[key] for key in ("tools", "model") if given.get(key) is not None}
    prompted = bool(messages) and is_prompt(messages[0])
    if prompted or declared:
        prompt = prompt_event(messages[0]) if prompted else {"type": "assistant", "assistant": ASSISTANT}
        events.append(timed(prompt, messages[0]) | declared if prompted else prompt | declared)
        places.append(within(value.place, "messages.0"))
    for number, message in enumerate(messages):
        if number > 0 or not prompted:
            events.append(timed(message_event(message), message))
            places.append(within(value.place, f"messages.{number}"))
    if tools is not None:
        events, places = tools.inferred(events, places)
    return Document(given.get("id"), with_derived_times(events), places, lambda event: event.type in _TYPES)


def write(conversation: str, timeline: Timeline, at: int | datetime | None, description: Description) -> dict[str, Any]:
    """Return the document of a view: what is held, visible or not, so that nothing a file had is lost."""
    messages = [written(message) for message in timeline.held(at)]
    document: dict[str, Any] = {"id": conversation, "messages": messages}
    tools, model = timeline.given(at)
    if tools is not None:
        document["tools"] = tools
    if model is not None:
        document["model"] = model
    return document | description.metadata
