"""The `chatcli` format: session documents of chat / agent / coder tools (DESIGN section 8).

Version 2 is an object with a list of messages for each scope; the legacy form is the bare list of the chat history.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pydantic

from turnlog.projections import Description, VisibleMessage
from turnlog.store import Event
from turnlog.store.events import SummaryFrame

from .document import BrokenFile, Document, Value, validate, within
from .messages import ChatMessage, is_prompt, message_event, prompt_event, text_of, with_extra, written
from .times import timed, with_derived_times
from .transfers import TransferTools

VERSION = 2
KEYS = {"chat": "chat_history", "agent": "agent_history", "coder": "coder_history", "shared_memory": "shared_memory"}
_TYPES = ("assistant", "message", "transfer")
_SUMMARY_ROLES = ("system", "user", "assistant")


class _Message(ChatMessage):
    meta: dict[str, Any] | None = None


class _Session(pydantic.BaseModel):
    chat_history: list[_Message] = []
    agent_history: list[_Message] = []
    coder_history: list[_Message] = []
    shared_memory: list[_Message] = []


def recognises(value: Any) -> bool:
    """Whether a value looks like a session document: its keys or, in a bare list, a message with `meta`."""
    if isinstance(value, dict):
        versioned = "version" in value and not any(key in value for key in ("type", "messages"))
        return not value or versioned or any(key in value for key in KEYS.values())
    messages = [message for message in value if isinstance(message, dict)] if isinstance(value, list) else []
    return any("meta" in message for message in messages) and not any("type" in message for message in messages)


def read(file: str, value: Value, tools: TransferTools | None) -> Document:
    """The conversation of a session document, scope by scope; with `tools`, transfers are inferred.

    :raises BrokenFile: names the message and the field, or the version.
    """
    session: dict[str, Any] = value.value
    if isinstance(value.value, list):
        session = {"version": VERSION, KEYS["chat"]: value.value}
    _check_version(file, value.place, session)
    validate(_Session, session, file, value.place)
    events: list[dict[str, Any]] = []
    places: list[str] = []
    metadata = {key: more for key, more in session.items() if key not in ("version", *KEYS.values())}
    absent = [key for key in KEYS.values() if key not in session and isinstance(value.value, dict)]
    if metadata or absent:
        extra = {"extra": {"absent": absent}} if absent else {}
        events.append({"type": "describe", "metadata": metadata, **extra})
        places.append(value.place)
    for scope, key in KEYS.items():
        for number, message in enumerate(session.get(key, ())):
            events.append({"scope": scope} | timed(_event(scope, number, message), message))
            places.append(within(value.place, f"{key}.{number}"))
    if tools is not None:
        events, places = tools.inferred(events, places)
    return Document(None, with_derived_times(events), places, _could_hold)


def write(held: Callable[[str], list[VisibleMessage]], description: Description) -> dict[str, Any]:
    """Return the version 2 document of a conversation: each scope's own messages that are held, visible or not."""
    document: dict[str, Any] = {"version": VERSION}
    for scope, key in KEYS.items():
        messages = [_written(message) for message in held(scope) if message.scope == scope]
        if messages or key not in description.extra.get("absent", ()):
            document[key] = messages
    return document | description.metadata


def _check_version(file: str, place: str, session: dict[str, Any]) -> None:
    version = session.get("version")
    if version is None:
        raise BrokenFile(file, place, "version", None, "is missing: a session document says 2, or is a bare list")
    if version != VERSION or type(version) is not int:
        newer = isinstance(version, int) and version > VERSION
        why = "is newer than this build reads (2)" if newer else "is no version that an object has (2)"
        raise BrokenFile(file, place, "version", version, why)


def _event(scope: str, number: int, message: dict[str, Any]) -> dict[str, Any]:
    meta = message.get("meta")
    plain = message if meta is None else {key: field for key, field in message.items() if key != "meta"}
    summary = meta is not None and meta.get("is_summary") is True and message["role"] in _SUMMARY_ROLES
    if meta is not None and summary and "content" in message:
        event = _summary_event(plain, meta)
    elif number == 0 and scope != "shared_memory" and is_prompt(message):
        event = prompt_event(plain)
    else:
        event = message_event(plain)
    return event if meta is None else event | {"meta": meta}


def _summary_event(message: dict[str, Any], meta: dict[str, Any]) -> dict[str, Any]:
    count = meta.get("summary_of")
    known = isinstance(count, int) and not isinstance(count, bool) and count >= 0
    text = text_of(message.get("content"))
    event = {"type": "summary", "role": message["role"], "text": text, "summary_of": count if known else 1}
    return with_extra(event, message, {"role": message["role"], "content": text})


def _written(message: VisibleMessage) -> dict[str, Any]:
    meta = message.meta
    if message.origin == "summary" and "is_summary" not in (meta or {}):
        meta = {**(meta or {}), "is_summary": True, "summary_of": message.summary_of, "mode": message.scope}
    return written(message) | ({} if meta is None else {"meta": meta})


def _could_hold(event: Event) -> bool:
    """A session holds messages, and summaries of what is older than the log; those with a range are the log's own."""
    frame = event.frame
    return event.type in _TYPES or (isinstance(frame, SummaryFrame) and frame.first is None)
