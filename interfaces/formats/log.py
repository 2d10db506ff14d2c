"""The `events` format: one event a line, either as people write them or as `export` does (docs/format.md)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from turnlog.store import Exported, InvalidEvent, Store, line_of, read_line

from .document import BrokenFile, Document, Value, within

_DROPPED = ("conversation", "version", "recorded_at", "position")


def recognises(value: Any) -> bool:
    """Whether a value looks like an event, or a list of events."""
    first = value[0] if isinstance(value, list) and value else value
    return isinstance(first, dict) and isinstance(first.get("type"), str) and "messages" not in first


def is_export(value: Any) -> bool:
    """Whether a value is a line that `export` wrote, to be restored as it was."""
    return isinstance(value, dict) and "digest" in value


def read(file: str, values: list[Value]) -> list[Document]:
    """The conversations of a file of events as people write them, told apart by `conversation`.

    A `version`, if there is one, must be the event's place in its conversation; `recorded_at` is taken as
    `occurred_at`, since recording is what happens now.

    :raises BrokenFile: names the line and the field.
    """
    documents: dict[str | None, Document] = {}
    for value in _flat(values):
        event = value.value
        if not isinstance(event, dict):
            raise BrokenFile(file, value.place, "", event, "is not an event")
        name = event.get("conversation")
        if not isinstance(name, str | None):
            raise BrokenFile(file, value.place, "conversation", name, "is not a name")
        document = documents.setdefault(name, Document(name, [], [], None))
        version = event.get("version", len(document.events) + 1)
        if version != len(document.events) + 1:
            raise BrokenFile(file, value.place, "version", version, f"is not {len(document.events) + 1}, its place")
        occurred = {"occurred_at": event["recorded_at"]} if "recorded_at" in event else {}
        document.events.append(occurred | {key: field for key, field in event.items() if key not in _DROPPED})
        document.places.append(value.place)
    return list(documents.values())


def read_export(file: str, data: bytes) -> list[Exported]:
    """The events of an export.

    :raises BrokenFile: names the line.
    """
    exported = []
    for number, line in enumerate(data.decode("utf-8-sig").split("\n"), 1):
        if line.strip():
            try:
                exported.append(read_line(line))
            except InvalidEvent as error:
                raise BrokenFile(file, f"line {number}", error.field, error.value, error.why) from None
    return exported


def write(store: Store, conversation: str) -> Iterator[str]:
    """The lines of a conversation, its fork's parent's first; its name stands on its own first event."""
    stream = store.stream(conversation)
    own = stream.lineage[-1]
    for event in store.events(conversation):
        named = event.conversation == own.uuid and event.version == own.first
        yield line_of(event, stream.name if named else None)


def _flat(values: list[Value]) -> Iterator[Value]:
    for value in values:
        if isinstance(value.value, list):
            for number, event in enumerate(value.value):
                yield Value(within(value.place, f"[{number}]"), event)
        else:
            yield value
