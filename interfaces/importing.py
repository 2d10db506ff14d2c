"""Import: lossless and safe to repeat (DESIGN section 8)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from turnlog.projections import describe, path_of
from turnlog.store import Event, InvalidEvent, NotFound, Store, TurnlogError
from turnlog.store.codec import Prepared, prepare, same_body
from turnlog.store.errors import shown

from .formats import chatcli, log, openai
from .formats.document import BrokenFile, Document, Value, values
from .formats.transfers import TransferTools

FORMATS = ("openai", "events", "chatcli")
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
    """What of a document is new, by place in it, and the rewinds that go before; `present` was there already."""

    new: list[int]
    rewinds: list[dict[str, Any]]
    present: int = 0


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
    found = values(file, data)
    format = format or _recognised(file, found[0])
    if format == "events" and log.is_export(found[0].value):
        exported = log.read_export(file, data)
        restored = store.restore(exported, conversation)
        return [Imported(each.name or each.conversation, each.added, each.present) for each in restored]
    documents = log.read(file, found) if format == "events" else [_READ[format](file, each, tools) for each in found]
    if conversation is not None and len(documents) > 1:
        raise InvalidEvent("conversation", conversation, f"cannot name all {len(documents)} conversations of {file}")
    imported = []
    with store.transaction():
        for number, document in enumerate(documents):
            name = conversation or document.name or (stem if len(documents) == 1 else None)
            if name is None:
                raise BrokenFile(file, document.places[0] if document.places else "", "id", None, "is missing")
            imported.append(_import(store, file, name, document, diverged))
            progress(number + 1, len(documents))
    return imported


def _recognised(file: str, value: Value) -> str:
    if chatcli.recognises(value.value):
        return "chatcli"
    if openai.recognises(value.value):
        return "openai"
    if log.recognises(value.value):
        return "events"
    raise BrokenFile(file, value.place, "", value.value, f"is of no known format ({', '.join(FORMATS)})")


def _import(store: Store, file: str, name: str, document: Document, diverged: OnDivergence) -> Imported:
    batch = [_prepared(file, event, place) for event, place in zip(document.events, document.places, strict=True)]
    try:
        store.stream(name)
    except NotFound:
        plan = _Plan(list(range(len(batch))), [])
    else:
        plan = _compared(store, file, name, document, batch, diverged)
    events = [*plan.rewinds, *(document.events[index] for index in plan.new)]
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


def _compared(
    store: Store, file: str, name: str, document: Document, batch: list[Prepared], diverged: OnDivergence
) -> _Plan:
    """Compare a document with what the log has of it: the whole log or, of messages, each scope's path."""
    plan = _Plan([], [])
    places: dict[str | None, list[int]] = {}
    if document.could_hold is None:
        places[None] = list(range(len(batch)))
    else:
        for index, event in enumerate(batch):
            if event.type != "describe":
                places.setdefault(event.scope, []).append(index)
            elif _is_described(store, name, document.events[index]):
                plan.present += 1
            else:
                plan.new.append(index)
    for scope, indexes in places.items():
        if document.could_hold is None:
            recorded = list(store.events(name))
        else:
            recorded = list(filter(document.could_hold, path_of(store, name, scope or "chat")))
        for number, (index, there) in enumerate(zip(indexes, recorded, strict=False)):
            if _is_same(batch[index], there):
                plan.present += 1
                continue
            if diverged == "refuse" or scope is None:
                difference = _difference(document.events[index], batch[index], there)
                raise Diverged(file, document.places[index], name, there.version, difference)
            plan.rewinds.append({"type": "rewind", "to": recorded[number - 1].version if number else 0, "scope": scope})
            plan.new += indexes[number:]
            break
        else:
            plan.new += indexes[len(recorded) :]
    plan.new.sort()
    return plan


def _is_described(store: Store, name: str, event: dict[str, Any]) -> bool:
    metadata = describe(store, name).metadata
    return all(key in metadata and metadata[key] == value for key, value in event["metadata"].items())


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
    for field in sorted({*here, *there}):
        if field not in ("v", "occurred_at") and here.get(field) != there.get(field):
            return f"{field}: {shown(here.get(field))} in the file, {shown(there.get(field))} in the log"
    return "the event was redacted"
