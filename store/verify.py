"""Verify: recompute every digest, and hold the store against a checkpoint kept elsewhere (DESIGN section 7)."""

from __future__ import annotations

import hmac
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import sha256

import msgspec

from . import migrations, streams
from .chain import digest_of_body, digest_of_event
from .codec import Event
from .database import Database
from .errors import InvalidEvent
from .exchange import follows_from_body
from .frames import ForkFrame
from .streams import Head, Stream


@dataclass(frozen=True)
class Fault:
    """The first thing wrong with a conversation, or with the store as a whole (`conversation` is None)."""

    conversation: str | None
    version: int | None
    why: str


@dataclass
class Verified:
    """What was looked at, and what is wrong with it."""

    conversations: int = 0
    events: int = 0
    faults: list[Fault] = field(default_factory=list)


class Mark(msgspec.Struct, frozen=True):
    """A conversation in a checkpoint: its last version and that event's digest (hex)."""

    uuid: str
    version: int
    digest: str


class Checkpoint(msgspec.Struct, frozen=True, omit_defaults=True):
    """Where every conversation stood; `root` is over all of them, an HMAC if `keyed`."""

    conversations: list[Mark]
    root: str
    taken_at: str
    keyed: bool = False
    turnlog_checkpoint: int = 1


def checkpoint(db: Database, key: bytes | None = None) -> Checkpoint:
    """See `Store.checkpoint`."""
    rows = db.rows(
        "SELECT conversations.uuid, events.version, events.digest FROM conversations"
        " JOIN events ON events.conversation = conversations.key AND events.version ="
        "   (SELECT max(version) FROM events WHERE conversation = conversations.key)"
        " ORDER BY conversations.uuid"
    )
    marks = [Mark(uuid, version, digest.hex()) for uuid, version, digest in rows]
    taken_at = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    return Checkpoint(marks, _root(marks, key), taken_at, keyed=key is not None)


def read_checkpoint(data: bytes) -> Checkpoint:
    """A checkpoint from its file.

    :raises InvalidEvent: it is not one, or a newer build's.
    """
    try:
        read = msgspec.json.decode(data, type=Checkpoint)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise InvalidEvent("checkpoint", data[:40], f"is not a checkpoint: {error}") from None
    if read.turnlog_checkpoint != 1:
        raise InvalidEvent("turnlog_checkpoint", read.turnlog_checkpoint, "is not a version that this build reads (1)")
    return read


def verify(
    db: Database,
    pages: Callable[[Stream], Iterator[Event]],
    against: Checkpoint | None,
    key: bytes | None,
    progress: Callable[[int, int], None],
) -> Verified:
    """See `Store.verify`; `pages` reads the events that a conversation itself owns."""
    found = Verified()
    found.faults += _triggers(db)
    found.faults += _strays(db)
    total = int((db.row("SELECT count(*) FROM events") or (0,))[0])
    last_key = -1
    while True:
        row = db.row("SELECT key, uuid FROM conversations WHERE key > ? ORDER BY key LIMIT 1", (last_key,))
        if row is None:
            break
        last_key, identity = row
        found.conversations += 1
        fault = _verify_one(db, identity, pages, found, lambda: progress(found.events, total))
        if fault is not None:
            found.faults.append(fault)
    if against is not None:
        found.faults += _compare(db, against, key)
    return found


def _verify_one(
    db: Database,
    identity: str,
    pages: Callable[[Stream], Iterator[Event]],
    found: Verified,
    progress: Callable[[], None],
) -> Fault | None:
    stream = streams.get(db, identity)
    own = stream.lineage[-1]
    head = streams.before_own(db, stream)
    redacted = _redacted(db, stream)
    position = 0
    for event in pages(stream):
        why = _why_bad(event, head, position)
        if why is None and event.redacted and event.version not in redacted:
            why = "its body is gone and no redaction names it"
        if why is None and event.version == own.first:
            why = _why_not_begun(event, stream)
        if why is not None:
            return Fault(identity, event.version, why)
        head = Head(event.version, event.digest, event.recorded_us)
        position = event.position
        found.events += 1
        if found.events % 1000 == 0:
            progress()
    return None if head.version >= own.first else Fault(identity, None, "it has no events")


def _why_bad(event: Event, before: Head, position: int) -> str | None:
    if event.version != before.version + 1:
        return f"it follows version {before.version}"
    if event.position <= position:
        return "its position is not after that of the version before"
    if event.body_text is None:
        body_digest = event.body_digest or b""
    else:
        body_digest = digest_of_body(event.salt or b"", event.body_text)
    try:
        header = event.header
    except OverflowError:
        return "its time is none"
    if digest_of_event(before.digest, header, event.frame_text, body_digest) != event.digest:
        return "its digest is not that of what it says and what came before"
    if event.recorded_us < before.recorded_at:
        return "it was recorded before the version before"
    if not follows_from_body(event):
        return "its frame does not follow from its body"
    return None


def _why_not_begun(event: Event, stream: Stream) -> str | None:
    """A fork begins with the event that says so, and nothing else does."""
    frame = event.frame
    parents = [segment.uuid for segment in stream.lineage[:-1]]
    if isinstance(frame, ForkFrame):
        held = bool(parents) and frame.at == event.version - 1
        return None if held else "it is a fork, and the conversation is not one of that version"
    return "the conversation is a fork, and does not begin as one" if parents else None


def _redacted(db: Database, stream: Stream) -> set[int]:
    rows = db.rows(
        "SELECT json_extract(frame, '$.target') FROM events WHERE conversation = ? AND type = 'redaction'",
        (stream.key,),
    )
    return {target for (target,) in rows}


def _triggers(db: Database) -> Iterator[Fault]:
    there = dict(db.rows("SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'"))
    for name, text in migrations.triggers().items():
        if name not in there:
            yield Fault(None, None, f"the trigger {name} is missing")
        elif there[name] != text:
            yield Fault(None, None, f"the trigger {name} is not as it was made")


def _strays(db: Database) -> Iterator[Fault]:
    for key, version in db.rows(
        "SELECT conversation, min(version) FROM events WHERE conversation NOT IN (SELECT key FROM conversations)"
        " GROUP BY conversation"
    ):
        yield Fault(None, version, f"an event belongs to no conversation (key {key})")
    # Positions are given without gaps, since nothing is ever deleted.
    row = db.row("SELECT count(*), max(position) FROM events")
    if row is not None and row[0] and row[0] != row[1]:
        gap = db.row(
            "SELECT conversations.uuid, events.version FROM events"
            " LEFT JOIN conversations ON conversations.key = events.conversation"
            " WHERE events.position > 1 AND NOT EXISTS"
            "   (SELECT 1 FROM events AS before WHERE before.position = events.position - 1)"
            " ORDER BY events.position LIMIT 1"
        )
        if gap is not None:
            yield Fault(gap[0], gap[1], "the position before its own is missing: an event was removed or moved")


def _compare(db: Database, against: Checkpoint, key: bytes | None) -> Iterator[Fault]:
    if against.keyed and key is None:
        yield Fault(None, None, "the checkpoint was made with a key: give it to check its root")
    elif not hmac.compare_digest(_root(against.conversations, key if against.keyed else None), against.root):
        yield Fault(None, None, "the checkpoint's root is not that of what it says, or was made with another key")
    for mark in against.conversations:
        stream = streams.find_uuid(db, mark.uuid)
        if stream is None:
            yield Fault(mark.uuid, None, "it is in the checkpoint and not in the store")
            continue
        row = db.row("SELECT digest FROM events WHERE conversation = ? AND version = ?", (stream.key, mark.version))
        if row is None:
            last = streams.head(db, stream).version
            yield Fault(mark.uuid, last, f"it ends here, and had {mark.version} versions at the checkpoint")
        elif row[0].hex() != mark.digest:
            yield Fault(mark.uuid, mark.version, "it is another event than at the checkpoint")


def _root(marks: Sequence[Mark], key: bytes | None) -> str:
    text = "".join(f"{mark.uuid} {mark.version} {mark.digest}\n" for mark in marks).encode()
    return sha256(text).hexdigest() if key is None else hmac.new(key, text, sha256).hexdigest()
