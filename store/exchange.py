"""The `events` format: one recorded event a line, and the verbatim restore of such lines (docs/format.md)."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from typing import Annotated, Any

import msgspec

from . import streams
from .append import INSERT
from .arguments import instance_of
from .bodies import erase_bodies
from .chain import digest_of_body, digest_of_event
from .characters import why_not_a_name
from .codec import GIVEN_BY_STORE, Event, checked_time, prepare
from .database import Database
from .errors import InvalidArgument, InvalidEvent, RestoreRefused
from .events import HEADER, TYPES, ForkFrame, Frame, RedactionFrame
from .events.base import NO_CONTROLS
from .json_values import repeated_key
from .streams import Head, Stream

_Hex = Annotated[str, msgspec.Meta(pattern=r"\A([0-9a-f]{2})*\Z")]
_Uuid = Annotated[str, msgspec.Meta(pattern=r"\A[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\Z")]
_Time = Annotated[datetime, msgspec.Meta(tz=True)]
_RESERVED = GIVEN_BY_STORE.union(HEADER)


class _Line(msgspec.Struct, kw_only=True):
    conversation: _Uuid
    version: int
    type: str
    v: int
    scope: str | None = None
    id: Annotated[str, msgspec.Meta(pattern=NO_CONTROLS)] | None = None
    recorded_at: _Time
    occurred_at: _Time | None = None
    conversation_name: str | None = None
    frame: msgspec.Raw
    salt: _Hex | None = None
    body_digest: _Hex | None = None
    digest: _Hex


@dataclass(frozen=True)
class Exported:
    """A line of an export: the event, and the conversation's name if the line gives it."""

    event: Event
    name: str | None


@dataclass(frozen=True)
class Restored:
    """What a restore did to one conversation."""

    conversation: str
    name: str | None
    added: int
    present: int


def line_of(event: Event, name: str | None = None) -> str:
    """Return an event as a line of the `events` format, without the newline; the body's text is as it is at its end."""
    body = "{}" if event.body_text is None else event.body_text
    return _prefix(event, name) + ("}" if body == "{}" else "," + body[1:])


def read_line(text: str) -> Exported:
    """Return the event of such a line.

    :raises InvalidEvent: names the field that is missing or not what it should be.
    """
    instance_of("line", text, str, "text")
    if (key := repeated_key(text)) is not None:
        raise InvalidEvent(key, None, "stands twice in one object, so that the line can be read in two ways")
    try:
        line = msgspec.json.decode(text, type=_Line)
        fields = msgspec.json.decode(text, type=dict[str, Any])
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise InvalidEvent("line", text, f"is not an exported event: {error}") from None
    event = Event(
        position=0,
        conversation=line.conversation,
        version=line.version,
        type=line.type,
        v=line.v,
        scope=line.scope,
        id=line.id,
        recorded_us=checked_time("recorded_at", line.recorded_at),
        occurred_us=None if line.occurred_at is None else checked_time("occurred_at", line.occurred_at),
        frame_text=bytes(line.frame).decode(),
        body_text=None,
        salt=None if line.salt is None else bytes.fromhex(line.salt),
        body_digest=None if line.body_digest is None else bytes.fromhex(line.body_digest),
        digest=bytes.fromhex(line.digest),
    )
    rest = {key: value for key, value in fields.items() if key not in _RESERVED}
    if line.body_digest is not None:
        for key, value in rest.items():
            raise InvalidEvent(key, value, "is not what a redacted event has")
    else:
        prefix = _prefix(event, line.conversation_name)
        # As it stands, byte for byte, unless some other program wrote the line anew.
        verbatim = text.startswith(prefix) and rest
        body = "{" + text[len(prefix) + 1 :].rstrip() if verbatim else msgspec.json.encode(rest).decode()
        event = msgspec.structs.replace(event, body_text=body)
    if not text.startswith(_prefix(event, line.conversation_name)):
        frame_text = msgspec.json.encode(fields["frame"]).decode()
        event = msgspec.structs.replace(event, frame_text=frame_text)
    return Exported(event, line.conversation_name)


def restore(db: Database, lines: Iterable[Exported], name: str | None = None) -> list[Restored]:
    """Put exported events back as they were, inside the caller's transaction; what is there already is compared.

    `name` goes before the name in the export, which a conversation that is here gets if it never had any: a fork's
    parent is restored with the fork, up to where the fork begins, and without its name.

    :raises RestoreRefused: an event does not fit its chain, or differs from the store's own.
    :raises NameTaken: another conversation has the name.
    """
    if not isinstance(lines, Iterable):
        raise InvalidArgument("lines", lines, "is not a list of exported events")
    name = None if name is None else streams.checked_name(name)
    checked = (instance_of("lines", line, Exported, "an exported event") for line in lines)
    found = []
    groups = [list(group) for _, group in groupby(checked, key=lambda line: line.event.conversation)]
    for number, group in enumerate(groups):
        names = [streams.checked_name(line.name) for line in group if line.name is not None]
        called = names[0] if names else None
        if number == len(groups) - 1 and name is not None:
            called = name
        found.append(_restore_one(db, [line.event for line in group], called))
    return found


def _restore_one(db: Database, events: list[Event], name: str | None) -> Restored:
    identity = events[0].conversation
    stream = streams.find_uuid(db, identity) or _begin(db, events[0], name)
    last = streams.head(db, stream).version
    head = _before(db, stream, events[0])
    present = 0
    rows: list[tuple[Any, ...]] = []
    for event in events:
        head = _link(stream, head, event)
        if event.version <= last:
            _compare(db, stream, event)
            present += 1
            continue
        rows.append(
            (
                stream.key,
                event.version,
                event.type,
                event.v,
                event.scope,
                event.id,
                event.recorded_us,
                event.occurred_us,
                event.frame_text,
                event.body_text,
                event.salt,
                event.body_digest,
                event.digest,
            )
        )
    try:
        if rows:
            db.insert(INSERT, rows)
    except (sqlite3.IntegrityError, OverflowError) as error:
        raise RestoreRefused(identity, events[0].version, str(error)) from None
    if name is not None and stream.name is None and not streams.was_named(db, stream):
        stream = streams.rename(db, identity, name)
    frames = [event.frame for event in events[present:]]
    erase_bodies(db, stream, [frame.target for frame in frames if isinstance(frame, RedactionFrame)])
    return Restored(identity, stream.name, len(rows), present)


def _begin(db: Database, event: Event, name: str | None) -> Stream:
    frame = event.frame
    if not isinstance(frame, ForkFrame):
        return streams.create(db, name, event.conversation)
    parent = streams.find_uuid(db, frame.parent)
    why = None
    if parent is None or streams.head(db, parent).version < frame.at:
        why = "is not here"
    elif frame.at < parent.lineage[-1].first:
        why = "is another's: a fork names the conversation that owns the version"
    if parent is None or why is not None:
        raise RestoreRefused(
            event.conversation, event.version, f"is a fork of {frame.parent} at {frame.at}, which {why}"
        )
    return streams.create(db, name, event.conversation, fork_of=(parent, frame.at))


def _before(db: Database, stream: Stream, event: Event) -> Head:
    """Return what the first line of a conversation must follow: an export may begin where the store has its events."""
    row = db.row(
        "SELECT version, digest, recorded_at FROM events WHERE conversation = ? AND version = ?",
        (stream.key, event.version - 1),
    )
    return streams.before_own(db, stream) if row is None else Head(*row)


def _compare(db: Database, stream: Stream, event: Event) -> None:
    row = db.row("SELECT digest FROM events WHERE conversation = ? AND version = ?", (stream.key, event.version))
    if row is None or row[0] != event.digest:
        raise RestoreRefused(stream.uuid, event.version, "differs from the event that the store has")


def _link(stream: Stream, head: Head, event: Event) -> Head:
    """Check that an event is what was exported and follows the one before it."""

    def refused(why: str) -> RestoreRefused:
        return RestoreRefused(stream.uuid, event.version, why)

    for field, value in (("type", event.type), ("scope", event.scope)):
        if value is not None and (why := why_not_a_name(value)) is not None:
            raise refused(f"has a {field} that {why}")
    if event.version != head.version + 1:
        raise refused(f"does not follow version {head.version}")
    if event.recorded_us < head.recorded_at:
        raise refused("was recorded before the version it follows")
    if event.body_text is None:
        body_digest = event.body_digest
    else:
        body_digest = None if event.salt is None else digest_of_body(event.salt, event.body_text)
    if body_digest is None or len(body_digest) != 32 or (event.body_text is None) == (event.salt is not None):
        raise refused("has neither a salt and its body nor, redacted, the digest of its body")
    if digest_of_event(head.digest, event.header, event.frame_text, body_digest) != event.digest:
        raise refused("was changed, or does not follow the version before it: its digest is another")
    if not follows_from_body(event):
        raise refused("has a frame that does not follow from its body")
    return Head(event.version, event.digest, event.recorded_us)


def follows_from_body(event: Event) -> bool:
    """Return whether an event's frame is the one that its body gives, as far as this build can tell.

    It cannot of a redacted event, of a type it does not know, or where a newer build has written a value it does not.
    """
    if _is_as_written(event):
        return True
    try:
        derived = None if event.redacted else prepare({"type": event.type, "v": event.v, **event.body}).frame
        known = event.frame
        if known is not None and known == derived and msgspec.json.encode(known).decode() == event.frame_text:
            return True
        stored = msgspec.json.decode(event.frame_text)
    except (InvalidEvent, msgspec.MsgspecError, UnicodeError, RecursionError):
        return True
    if known is not None and not _is_written_as_described(known, stored, event.frame_text):
        return False
    if derived is None:
        return True
    if not isinstance(stored, dict) or not msgspec.to_builtins(derived).keys() <= stored.keys():
        return False
    return known is None or known == derived


def _is_as_written(event: Event) -> bool:
    """Return whether an event's body gives its frame to the letter, as nearly every event's does.

    An event that this says no of may be as sound; it is only looked at more closely, which takes three times as long.
    """
    cls = TYPES.get(event.type)
    if cls is None or event.redacted or event.v != 1:
        return False
    try:
        new = msgspec.convert({**event.body, "type": event.type}, cls)
        new.check()
        return msgspec.json.encode(new.frame()).decode() == event.frame_text
    except (InvalidEvent, msgspec.MsgspecError, UnicodeError, RecursionError):
        return False


def _is_written_as_described(read: Frame, stored: dict[str, Any], text: str) -> bool:
    """Return whether a frame is written as docs/format.md says, so that it is found where its text is looked at."""
    return msgspec.json.encode(stored).decode() == text and _omits_defaults(read, stored)


def _omits_defaults(read: msgspec.Struct, stored: dict[str, Any]) -> bool:
    """Return whether a stored object leaves out what has its usual value; fields that are not known do not count."""
    written = msgspec.to_builtins(read)
    for field in msgspec.structs.fields(read):
        if field.encode_name in stored and field.encode_name not in written:
            return False
        inner = getattr(read, field.name)
        if isinstance(inner, msgspec.Struct) and not _omits_defaults(inner, stored[field.encode_name]):
            return False
    return True


def _prefix(event: Event, name: str | None) -> str:
    head = msgspec.json.encode(event.header).decode()[:-1]
    if name is not None:
        head += f',"conversation_name":{msgspec.json.encode(name).decode()}'
    head += f',"frame":{event.frame_text}'
    if event.salt is not None:
        head += f',"salt":"{event.salt.hex()}"'
    if event.body_digest is not None:
        head += f',"body_digest":"{event.body_digest.hex()}"'
    return f'{head},"digest":"{event.digest.hex()}"'
