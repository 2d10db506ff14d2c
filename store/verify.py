"""Verify: recompute every digest, and hold the store against a checkpoint kept elsewhere (DESIGN section 7)."""

from __future__ import annotations

import hmac
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import sha256

import msgspec

from . import migrations
from .chain import digest_of_body, digest_of_event, genesis
from .codec import Event
from .database import Database
from .errors import InvalidEvent
from .events import ForkFrame, RedactionFrame, read_frame
from .exchange import follows_from_body
from .searching import Index
from .streams import OPEN, Head, Segment


@dataclass(frozen=True)
class Fault:
    """The first thing wrong with a conversation, or with the store as a whole (`conversation` is None)."""

    conversation: str | None
    version: int | None
    why: str


@dataclass
class Verified:
    """What was looked at, and what is wrong with it.

    `derived` has notes on what is derived from the log and differs from it: no faults, since it can be made again.
    """

    conversations: int = 0
    events: int = 0
    faults: list[Fault] = field(default_factory=list)
    derived: list[str] = field(default_factory=list)


class Mark(msgspec.Struct, frozen=True):
    """A conversation in a checkpoint: its last version and that event's digest (hex)."""

    uuid: str
    version: int
    digest: str


class Checkpoint(msgspec.Struct, frozen=True, kw_only=True):
    """Where every conversation stood; `root` is over all of them, an HMAC if `keyed`."""

    turnlog_checkpoint: int = 1
    taken_at: str
    keyed: bool
    conversations: list[Mark]
    root: str


def checkpoint(db: Database, key: bytes | None = None) -> Checkpoint:
    """Return where every conversation is; see `Store.checkpoint`."""
    rows = db.rows(
        "SELECT conversations.uuid, events.version, events.digest FROM conversations"
        " JOIN events ON events.conversation = conversations.key AND events.version ="
        "   (SELECT max(version) FROM events WHERE conversation = conversations.key)"
        " ORDER BY conversations.uuid"
    )
    marks = [Mark(uuid, version, digest.hex()) for uuid, version, digest in rows]
    taken_at = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    return Checkpoint(taken_at=taken_at, keyed=key is not None, conversations=marks, root=_root(marks, key))


def read_checkpoint(data: bytes) -> Checkpoint:
    """Return a checkpoint from its file.

    :raises InvalidEvent: it is not one, or a newer build's.
    """
    try:
        written = msgspec.json.decode(data)
        version = written.get("turnlog_checkpoint") if isinstance(written, dict) else None
        if isinstance(version, int) and version != 1:
            raise InvalidEvent("turnlog_checkpoint", version, "is not a version that this build reads (1)")
        return msgspec.convert(written, Checkpoint)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise InvalidEvent("checkpoint", data[:40], f"is not a checkpoint: {error}") from None


def verify(
    db: Database,
    pages: Callable[[Segment], Iterator[Event]],
    against: Checkpoint | None,
    key: bytes | None,
    progress: Callable[[int, int], None],
    derived: Callable[[], Iterable[str]] = tuple,
) -> Verified:
    """Recompute every digest; see `Store.verify`.

    `pages` reads the events of a segment. `derived` compares what else is derived from the log with it, and returns a
    line for each difference.
    """
    found = Verified()
    found.faults += _triggers(db)
    found.faults += _strays(db)
    total = int((db.row("SELECT count(*) FROM events") or (0,))[0])
    last_key = -OPEN
    while (row := db.row(f"{_CONVERSATION} key > ? ORDER BY key LIMIT 1", (last_key,))) is not None:
        conversation = _Conversation(*row)
        last_key = conversation.key
        found.conversations += 1
        fault = _verify_one(db, conversation, pages, found, lambda: progress(found.events, total))
        if fault is not None:
            found.faults.append(fault)
    if against is not None:
        found.faults += _compare(db, against, key)
    found.derived += [*Index(db).differences(), *derived()]
    return found


_CONVERSATION = "SELECT key, uuid, parent, forked_at FROM conversations WHERE"


@dataclass(frozen=True)
class _Conversation:
    """A row as it stands: nothing in it is believed."""

    key: int
    uuid: str
    parent: int | None
    forked_at: int | None


def _verify_one(
    db: Database,
    conversation: _Conversation,
    pages: Callable[[Segment], Iterator[Event]],
    found: Verified,
    progress: Callable[[], None],
) -> Fault | None:
    parent = _parent(db, conversation)
    head = _before(db, conversation, parent)
    redacted = _redacted(db, conversation.key)
    # Of a fork's parent, a restored export has what the fork shares; the parent's later redactions are not here.
    partial = db.row(
        "SELECT 1 WHERE (SELECT max(forked_at) FROM conversations WHERE parent = ?1)"
        " = (SELECT max(version) FROM events WHERE conversation = ?1)",
        (conversation.key,),
    )
    position = count = 0
    for event in pages(Segment(conversation.key, conversation.uuid, -OPEN, OPEN)):
        if head is None:
            return Fault(conversation.uuid, event.version, "what it was forked from is not here")
        why = _why_bad(event, head, position)
        if why is None and event.redacted and event.version not in redacted and not partial:
            why = "its body is gone and no redaction names it"
        if why is None and not count:
            why = _why_not_begun(event, conversation, parent)
        if why is not None:
            return Fault(conversation.uuid, event.version, why)
        count += 1
        head = Head(event.version, event.digest, event.recorded_us)
        position = event.position
        found.events += 1
        if found.events % 1000 == 0:
            progress()
    if not count:
        return Fault(conversation.uuid, None, "it has no events")
    # A version that stands there twice can be missed between two pages.
    there = db.row("SELECT count(*) FROM events WHERE conversation = ?", (conversation.key,))
    return None if there == (count,) else Fault(conversation.uuid, None, "one of its versions stands there twice")


def _parent(db: Database, conversation: _Conversation) -> _Conversation | None:
    if conversation.parent is None:
        return None
    row = db.row(f"{_CONVERSATION} key = ?", (conversation.parent,))
    return None if row is None else _Conversation(*row)


def _before(db: Database, conversation: _Conversation, parent: _Conversation | None) -> Head | None:
    """Return what the first event of a conversation follows; None if it is a fork of what is not here."""
    if conversation.parent is None and conversation.forked_at is None:
        return Head(0, genesis(conversation.uuid), 0)
    seen: set[int] = set()
    at, owner = conversation.forked_at, None
    while parent is not None and at is not None and parent.key not in seen:
        # A version that the parent shares with its own parent is owned further up.
        if owner is None and (parent.forked_at is None or parent.forked_at < at):
            owner = parent.key
        if parent.parent is None:
            row = db.row(
                "SELECT version, digest, recorded_at FROM events WHERE conversation = ? AND version = ?", (owner, at)
            )
            return None if row is None else Head(*row)
        seen.add(parent.key)
        parent = _parent(db, parent)
    return None


def _why_bad(event: Event, before: Head, position: int) -> str | None:
    if event.version != before.version + 1:
        return f"it follows version {before.version}"
    if event.position <= position:
        return "its position is not after that of the version before"
    if (event.body_text is None) != (event.salt is None) or (event.body_text is None) == (event.body_digest is None):
        return "it has neither a body with its salt nor, erased, the digest of one"
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


def _why_not_begun(event: Event, conversation: _Conversation, parent: _Conversation | None) -> str | None:
    """Return why an event may not begin this conversation; a fork begins with the event that says so, nothing else."""
    frame = event.frame
    if isinstance(frame, ForkFrame):
        held = parent is not None and (frame.parent, frame.at) == (parent.uuid, conversation.forked_at)
        return None if held else "it is a fork, and the conversation is not one of that version"
    return "the conversation is a fork, and does not begin as one" if conversation.parent is not None else None


def _redacted(db: Database, key: int) -> set[int]:
    rows = db.rows(
        "SELECT v, version, scope, frame FROM events"
        " WHERE conversation = ? AND type = 'redaction' AND type <> 'message'",
        (key,),
    )
    frames = (read_frame("redaction", v, version, scope, frame) for v, version, scope, frame in rows)
    return {frame.target for frame in frames if isinstance(frame, RedactionFrame)}


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
    elif key is not None and not against.keyed:
        yield Fault(None, None, "the checkpoint was made without a key, by anybody")
    elif not hmac.compare_digest(_root(against.conversations, key).encode(), against.root.encode()):
        yield Fault(None, None, "the checkpoint's root is not that of what it says, or was made with another key")
    for mark in against.conversations:
        known = db.row("SELECT key FROM conversations WHERE uuid = ?", (mark.uuid,))
        if known is None:
            yield Fault(mark.uuid, None, "it is in the checkpoint and not in the store")
            continue
        row = db.row("SELECT digest FROM events WHERE conversation = ? AND version = ?", (known[0], mark.version))
        if row is None:
            last = db.row(
                "SELECT coalesce(max(events.version), conversations.forked_at, 0) FROM conversations"
                " LEFT JOIN events ON events.conversation = conversations.key WHERE conversations.key = ?",
                known,
            )
            at = None if last is None else last[0]
            yield Fault(mark.uuid, at, f"it ends here, and had {mark.version} versions at the checkpoint")
        elif row[0].hex() != mark.digest:
            yield Fault(mark.uuid, mark.version, "it is another event than at the checkpoint")


def _root(marks: Sequence[Mark], key: bytes | None) -> str:
    text = "".join(f"{mark.uuid} {mark.version} {mark.digest}\n" for mark in marks).encode()
    return sha256(text).hexdigest() if key is None else hmac.new(key, text, sha256).hexdigest()
