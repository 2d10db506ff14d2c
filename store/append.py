"""The one write: append a batch of events to a conversation, all or nothing (DESIGN section 3)."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from . import streams
from .bodies import erase_bodies
from .chain import digest_of_body, digest_of_event, header
from .codec import Prepared, check_place, prepare, same_body
from .database import Database
from .errors import DuplicateEvent, InvalidArgument, InvalidEvent, VersionConflict
from .events import SCOPES, DescribeFrame, ForkFrame, MessageFrame, NewEvent, RedactionFrame, ResponseFrame, read_frame
from .expected import Expected, ExpectedVersion, Unchanged
from .streams import OPEN, Head, Stream

INSERT = (
    "INSERT INTO events (conversation, version, type, v, scope, id, recorded_at, occurred_at, frame, body, salt,"
    " body_digest, digest) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)


class Receipt(msgspec.Struct, frozen=True, gc=False):
    """What an append did: the versions `first` to `last`, and the last one's position and digest (hex)."""

    conversation: str
    first: int
    last: int
    position: int
    digest: str


def append(
    db: Database,
    conversation: str,
    events: Sequence[NewEvent | Mapping[str, Any]],
    expected: ExpectedVersion,
) -> Receipt:
    """See `Store.append`."""
    name = streams.checked_name(conversation)
    if not isinstance(events, list):
        events = _listed(events)
    if not events:
        raise InvalidArgument("events", [], "is an empty batch")
    alone = len(events) == 1
    batch = [prepare(event, None if alone else index) for index, event in enumerate(events)]
    ids = _checked_ids(batch)
    return db.write_all(lambda: _append(db, name, batch, bool(ids), expected))


def _append(db: Database, name: str, batch: Sequence[Prepared], has_ids: bool, expected: ExpectedVersion) -> Receipt:
    stream, head = streams.find_head(db, name) or (None, None)
    if has_ids and stream is not None:
        earlier = _earlier_receipt(db, stream, batch)
        if earlier is not None:
            return earlier
    _check_expected(db, name, stream, head, expected)
    if stream is None or head is None:
        stream = streams.create(db, name)
        head = streams.head(db, stream)
    check_batch(db, stream, head, batch)
    receipt, head = insert(db, stream, head, batch)
    db.remember((stream.uuid, stream.name), (stream, head))
    return receipt


def insert(db: Database, stream: Stream, head: Head, batch: Sequence[Prepared]) -> tuple[Receipt, Head]:
    """Write a checked batch after `head`, inside the caller's transaction, and erase what its redactions name."""
    key, identity, version = stream.key, stream.uuid, head.version
    now = max(time.time_ns() // 1000, head.recorded_at)
    digest = head.digest
    salts = os.urandom(16 * len(batch))
    rows = []
    for number, event in enumerate(batch):
        version += 1
        salt = salts[16 * number : 16 * number + 16]
        type_, v, scope, id_, at, frame, body = (
            event.type,
            event.v,
            event.scope,
            event.id,
            event.occurred_at,
            event.frame_text,
            event.body_text,
        )
        digest = digest_of_event(
            digest, header(identity, version, type_, v, scope, id_, now, at), frame, digest_of_body(salt, body)
        )
        rows.append((key, version, type_, v, scope, id_, now, at, frame, body, salt, None, digest))
    position = db.insert(INSERT, rows)
    redacted = [event.frame.target for event in batch if isinstance(event.frame, RedactionFrame)]
    if redacted:
        erase_bodies(db, stream, redacted)
    receipt = Receipt(identity, head.version + 1, version, position, digest.hex())
    return receipt, Head(version, digest, now)


def check_batch(db: Database, stream: Stream, head: Head, batch: Sequence[Prepared]) -> None:
    """Refuse what only the log can tell: places, scopes, and what a response or a redaction points at.

    :raises InvalidEvent: names the field and the value.
    """
    own = stream.lineage[-1].first
    described: set[str] | None = None
    for index, event in enumerate(batch):
        where = index if len(batch) > 1 else None
        check_place(event, head.version + 1 + index, where)
        match event.frame:
            case MessageFrame():
                pass
            case ResponseFrame(request=request):
                _check_request(db, stream, head, batch, request, where)
            case ForkFrame():
                raise InvalidEvent("type", "fork", "is appended by a fork alone", where)
            case RedactionFrame(target=target) if target < own:
                raise InvalidEvent("target", target, "is owned by the conversation this one was forked from", where)
            case RedactionFrame(whole=True):
                raise InvalidEvent("whole", True, "is said by the erasure of a conversation alone", where)
        if event.scope is not None and event.scope not in SCOPES:
            if described is None:
                described = described_scopes(db, stream)
            if event.scope not in described | _scopes_in(batch[:index]):
                raise InvalidEvent("scope", event.scope, "is not listed by a describe event", where)


def described_scopes(db: Database, stream: Stream) -> set[str]:
    """The further scopes that the conversation's `describe` events list."""
    found: set[str] = set()
    for segment in stream.lineage:
        rows = db.rows(
            "SELECT version, v, scope, frame FROM events WHERE conversation = ? AND type = 'describe'"
            " AND type <> 'message' AND version <= ?",
            (segment.key, segment.last),
        )
        for version, v, scope, frame_text in rows:
            frame = read_frame("describe", v, version, scope, frame_text)
            if isinstance(frame, DescribeFrame):
                found.update(frame.scopes or ())
    return found


def _scopes_in(batch: Sequence[Prepared]) -> set[str]:
    return {scope for event in batch if isinstance(event.frame, DescribeFrame) for scope in event.frame.scopes or ()}


def _check_request(
    db: Database, stream: Stream, head: Head, batch: Sequence[Prepared], request: int, index: int | None
) -> None:
    if request > head.version:
        found = batch[request - head.version - 1].type
    else:
        found = ""
        for segment in stream.lineage:
            row = db.row(
                "SELECT type FROM events WHERE conversation = ? AND version = ? AND version BETWEEN ? AND ?",
                (segment.key, request, segment.first, segment.last),
            )
            found = row[0] if row else found
    if found != "request":
        raise InvalidEvent("request", request, f"is a {found}, not a request", index)


def _listed(events: object) -> list[Any]:
    if isinstance(events, NewEvent | Mapping | str) or not isinstance(events, Iterable):
        raise InvalidArgument("events", type(events).__name__, "is one thing, not a list of events")
    return list(events)


def _checked_ids(batch: Sequence[Prepared]) -> set[str]:
    seen: set[str] = set()
    for index, event in enumerate(batch):
        if event.id is not None:
            if event.id in seen:
                raise InvalidEvent("id", event.id, "is used twice in the batch", index)
            seen.add(event.id)
    return seen


def _earlier_receipt(db: Database, stream: Stream, batch: Sequence[Prepared]) -> Receipt | None:
    """The receipt of this same batch if it was appended before; None if none of its ids is known.

    :raises DuplicateEvent: only some of its ids are known, or another event has them.
    """
    found = {}
    for index, event in enumerate(batch):
        if event.id is None:
            continue
        for segment in stream.lineage:
            row = db.row(
                "SELECT version FROM events WHERE conversation = ? AND id = ? AND version <= ?",
                (segment.key, event.id, segment.last),
            )
            if row is not None:
                found[event.id] = row[0] - index
    if not found:
        return None
    first = next(iter(found.values()))
    rows = []
    for segment in stream.lineage:
        piece = segment.within(first, first + len(batch) - 1)
        rows += db.rows(
            "SELECT type, scope, id, body, digest, position FROM events"
            " WHERE conversation = ? AND version BETWEEN ? AND ? ORDER BY version",
            (piece.key, piece.first, piece.last),
        )
    if len(rows) == len(batch) and all(map(_is_same, batch, rows)):
        *_, digest, position = rows[-1]
        return Receipt(stream.uuid, first, first + len(batch) - 1, position, digest.hex())
    raise DuplicateEvent(stream.label, list(found))


def _is_same(event: Prepared, row: tuple[Any, ...]) -> bool:
    type_, scope, id_, body, *_ = row
    if event.id != id_:
        return False
    if body is None and id_ is not None:
        return True
    return event.type == type_ and event.scope == scope and (body is None or same_body(event.body_text, body))


def _check_expected(
    db: Database, name: str, stream: Stream | None, head: Head | None, expected: ExpectedVersion
) -> None:
    if expected is Expected.ANY:
        return
    version = 0 if head is None else head.version
    match expected:
        case int() if not isinstance(expected, bool) and expected >= 0:
            held = version == expected
        case Expected.NONE_YET:
            held = stream is None
        case Expected.MUST_EXIST:
            held = stream is not None
        case Unchanged() if expected.is_sound():
            broken = None if stream is None else _first_change(db, stream, expected)
            held, version = broken is None, version if broken is None else broken
        case _:
            raise InvalidArgument("expected", expected, "is neither a version nor one of the expectations")
    if not held:
        raise VersionConflict(name, expected, version)


def _first_change(db: Database, stream: Stream, expected: Unchanged) -> int | None:
    types = tuple(expected.types)
    for segment in stream.lineage:
        row = db.row(
            "SELECT min(version) FROM events WHERE conversation = ? AND version > ? AND version <= ?"
            f" AND type IN ({', '.join('?' * len(types))}) AND (scope = ? OR scope IS NULL)",
            (segment.key, min(expected.since, OPEN), segment.last, *types, expected.scope),
        )
        if row is not None and row[0] is not None:
            return int(row[0])
    return None
