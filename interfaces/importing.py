"""Import: lossless and safe to repeat (DESIGN section 8)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from turnlog.projections import describe
from turnlog.projections.timelines.catch_up import path_of
from turnlog.store import (
    Event,
    Exported,
    InvalidArgument,
    InvalidEvent,
    NotFound,
    Store,
    TurnlogError,
)
from turnlog.store.arguments import instance_of, one_of
from turnlog.store.codec import Prepared, prepare, same_body
from turnlog.store.errors import shown
from turnlog.store.events import RewindFrame, references_of
from turnlog.store.streams import checked_name

from .formats import chatcli, log, openai
from .formats.document import BrokenFile, Document, Value, values
from .formats.transfers import TransferTools

FORMATS = ("openai", "events", "chatcli")
_RECOGNISE = {"chatcli": chatcli.recognises, "events": log.recognises, "openai": openai.recognises}
_READ = {"openai": openai.read, "chatcli": chatcli.read}
OnDivergence = Literal["refuse", "rewind"]


class Diverged(TurnlogError):
    """A document's earlier part is not what the log has; nothing of its file was imported.

    `place` is where in the file the first difference stands, `version` the event it differs from.
    """

    def __init__(self, file: str, place: str, conversation: str, version: int, difference: str) -> None:
        self.file = file
        self.place = place
        self.conversation = conversation
        self.version = version
        self.difference = difference
        where = f"{file}, {place}" if place else file
        super().__init__(f"{where}: differs from version {version} of conversation {shown(conversation)}: {difference}")


@dataclass(frozen=True)
class Imported:
    """What an import did to one conversation; `rewound_to` is the version it went back to, if it did."""

    conversation: str
    added: int
    present: int
    rewound_to: int | None = None


@dataclass
class _Plan:
    """What of a document is new, by place in it, and the rewinds that go before; `present` was there already.

    `events` are those to append where they are not the document's own.
    """

    new: list[int]
    rewinds: list[dict[str, Any]]
    present: int = 0
    events: dict[int, dict[str, Any]] = field(default_factory=dict)


def import_file(
    store: Store,
    file: str,
    data: bytes,
    stem: str | None,
    *,
    format: str | None = None,
    conversation: str | None = None,
    diverged: OnDivergence = "refuse",
    tools: TransferTools | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> list[Imported]:
    """Import a file's conversations, all or nothing. `stem` names a document that has no name of its own.

    :raises BrokenFile: the file is not what its format says.
    :raises Diverged: its earlier part is not what the log has.
    :raises RestoreRefused: an exported event was changed or does not fit.
    """
    if format is not None:
        one_of("format", format, FORMATS)
    one_of("diverged", diverged, get_args(OnDivergence))
    found = values(file, instance_of("data", data, bytes, "bytes"))
    format = format or _recognised(file, found[0])
    if format == "events" and log.is_export(found[0].value):
        return _restore(store, log.read_export(file, data), conversation)
    documents = log.read(file, found) if format == "events" else [_READ[format](file, each, tools) for each in found]
    if conversation is not None and len(documents) > 1:
        raise InvalidArgument("conversation", conversation, f"cannot name all {len(documents)} conversations of {file}")
    imported = []
    with store.transaction():
        for number, document in enumerate(documents):
            name = _name(file, document, conversation, stem if len(documents) == 1 else None)
            imported.append(_import(store, file, name, document, diverged))
            progress(number + 1, len(documents))
    return imported


def _restore(store: Store, exported: list[Exported], name: str | None) -> list[Imported]:
    with store.transaction():
        restored = store.restore(exported, name)
        if name is not None and restored[-1].name != checked_name(name):
            raise InvalidArgument("conversation", name, f"is here already, as {restored[-1].name}")
    return [Imported(each.name or each.conversation, each.added, each.present) for each in restored]


def _name(file: str, document: Document, conversation: str | None, stem: str | None) -> str:
    name = conversation or document.name or stem
    place = document.places[0] if document.places else ""
    if name is None:
        raise BrokenFile(file, place, "id", None, "is missing: give --conversation NAME")
    try:
        return checked_name(name)
    except InvalidArgument as error:
        raise BrokenFile(file, place, error.field, error.value, error.why) from None


def _recognised(file: str, value: Value) -> str:
    for format, recognises in _RECOGNISE.items():
        if recognises(value.value):
            return format
    raise BrokenFile(file, value.place, "", value.value, f"is of no known format ({', '.join(FORMATS)})")


def _import(store: Store, file: str, name: str, document: Document, diverged: OnDivergence) -> Imported:
    batch = [_prepared(file, event, place) for event, place in zip(document.events, document.places, strict=True)]
    try:
        store.stream(name)
    except NotFound:
        plan = _Plan(list(range(len(batch))), [])
    else:
        compared = _compared_log if document.could_hold is None else _compared_paths
        plan = compared(store, file, name, document, batch, diverged)
    events = [*plan.rewinds, *(plan.events.get(index, document.events[index]) for index in plan.new)]
    if events:
        try:
            store.append(name, events)
        except InvalidEvent as error:
            number = (error.index or 0) - len(plan.rewinds)
            raise BrokenFile(file, document.places[plan.new[number]], error.field, error.value, error.why) from None
    rewound = min((rewind["to"] for rewind in plan.rewinds), default=None)
    return Imported(name, len(plan.new), plan.present, rewound)


def _prepared(file: str, event: dict[str, Any], place: str) -> Prepared:
    try:
        return prepare(event)
    except InvalidEvent as error:
        raise BrokenFile(file, place, error.field, error.value, error.why) from None


def _compared_paths(
    store: Store, file: str, name: str, document: Document, batch: list[Prepared], diverged: OnDivergence
) -> _Plan:
    """Compare a document of messages with each scope's path, as far as the format could hold it."""
    plan = _Plan([], [])
    places: dict[str, list[int]] = {}
    for index, event in enumerate(batch):
        if event.scope is not None:
            places.setdefault(event.scope, []).append(index)
        elif _is_described(store, name, document.events[index]):
            plan.present += 1
        else:
            plan.new.append(index)
    for scope, indexes in places.items():
        recorded = list(filter(document.could_hold, path_of(store, name, scope)))
        for number, (index, there) in enumerate(zip(indexes, recorded, strict=False)):
            if _is_same(batch[index], there):
                plan.present += 1
                continue
            if diverged == "refuse":
                raise _diverged(file, name, document, index, batch[index], there)
            to = recorded[number - 1].version if number else 0
            plan.rewinds.append(_rewind(to, document.events[index]) | {"scope": scope})
            plan.new += indexes[number:]
            break
        else:
            plan.new += indexes[len(recorded) :]
    plan.new.sort()
    return plan


def _compared_log(
    store: Store, file: str, name: str, document: Document, batch: list[Prepared], diverged: OnDivergence
) -> _Plan:
    """Compare a whole log with the recorded one, whose own detours, each ended by a rewind, it need not know.

    After a detour the recorded versions are others than the file's, so that what points at a version is translated.
    """
    plan = _Plan([], [])
    recorded = list(store.events(name))
    versions = [0]
    at, head = 0, recorded[-1].version
    for index, original in enumerate(document.events):
        event = _translated(original, versions)
        prepared = batch[index] if event == original else _prepared(file, event, document.places[index])
        while at < len(recorded) and not _is_same(prepared, recorded[at]):
            back = next((n for n in range(at, len(recorded)) if _rewinds_all_to(recorded[n], versions[-1])), None)
            if back is not None:
                at = back + 1
                continue
            if diverged == "refuse":
                raise _diverged(file, name, document, index, prepared, recorded[at])
            plan.rewinds.append(_rewind(versions[-1], event))
            at, head = len(recorded), head + 1
        if at < len(recorded):
            plan.present += 1
            versions.append(recorded[at].version)
            at += 1
        else:
            head += 1
            versions.append(head)
            plan.new.append(index)
            plan.events[index] = event
    return plan


def _rewind(to: int, event: dict[str, Any]) -> dict[str, Any]:
    """Return the rewind before an event of a file; it has the time of that event."""
    time = {"occurred_at": event["occurred_at"]} if "occurred_at" in event else {}
    return {"type": "rewind", "to": to} | time


def _rewinds_all_to(event: Event, version: int) -> bool:
    frame = event.frame
    return isinstance(frame, RewindFrame) and event.scope is None and frame.to == version


def _translated(event: dict[str, Any], versions: list[int]) -> dict[str, Any]:
    """Return an event of a file with its references to the file's versions made those of the log."""

    def translated(place: Any) -> Any:
        if isinstance(place, list):
            return [translated(each) for each in place]
        return versions[place] if isinstance(place, int) and 0 <= place < len(versions) else place

    return event | {key: translated(event[key]) for key in references_of(event["type"]) if key in event}


def _diverged(file: str, name: str, document: Document, index: int, event: Prepared, recorded: Event) -> Diverged:
    difference = _difference(document.events[index], event, recorded)
    return Diverged(file, document.places[index], name, recorded.version, difference)


def _is_described(store: Store, name: str, event: dict[str, Any]) -> bool:
    known = describe(store, name)
    return all(
        key in there and there[key] == value
        for field, there in (("metadata", known.metadata), ("extra", known.extra))
        for key, value in event.get(field, {}).items()
    )


def _is_same(event: Prepared, recorded: Event) -> bool:
    if (event.type, event.scope, event.id) != (recorded.type, recorded.scope, recorded.id):
        return False
    if recorded.body_text is None:
        return event.frame_text == recorded.frame_text
    return same_body(event.body_text, recorded.body_text)


def _difference(event: dict[str, Any], prepared: Prepared, recorded: Event) -> str:
    """The first field in which a document's event and a recorded one differ."""
    if prepared.type != recorded.type:
        return f"type: {shown(prepared.type)} in the file, {shown(recorded.type)} in the log"
    here = {**event, "scope": prepared.scope}
    there = {**recorded.body, "scope": recorded.scope, "id": recorded.id, "type": recorded.type}
    for key in sorted({*here, *there}):
        if key not in ("v", "occurred_at") and here.get(key) != there.get(key):
            return f"{key}: {shown(here.get(key))} in the file, {shown(there.get(key))} in the log"
    return "the event was redacted"
