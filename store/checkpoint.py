"""Checkpoints: where every conversation is, kept elsewhere, so that what a store cannot show by itself shows."""

from __future__ import annotations

import hmac
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from hashlib import sha256
from typing import Annotated, Any

import msgspec

from .arguments import instance_of
from .chain import digest_of_name
from .database import Database
from .errors import InvalidArgument
from .faults import Fault, Renamed
from .state import State


class Mark(msgspec.Struct, frozen=True, omit_defaults=True):
    """A conversation in a checkpoint: its last version and that event's digest, and the digest of its name (hex)."""

    uuid: str
    version: Annotated[int, msgspec.Meta(ge=1, le=2**63 - 1)]
    digest: str
    name: str | None = None


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
        "SELECT conversations.uuid, events.version, events.digest, name_salt, name FROM conversations"
        " JOIN events ON events.conversation = conversations.key AND events.version ="
        "   (SELECT max(version) FROM events WHERE conversation = conversations.key)"
        " ORDER BY conversations.uuid"
    )
    marks = [Mark(uuid, version, digest.hex(), _digest_of(uuid, *named)) for uuid, version, digest, *named in rows]
    taken_at = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    return Checkpoint(taken_at=taken_at, keyed=key is not None, conversations=marks, root=_root(marks, key))


def read_checkpoint(data: bytes) -> Checkpoint:
    """Return a checkpoint from its file.

    :raises InvalidArgument: it is not one, or a newer build's.
    """
    instance_of("checkpoint", data, bytes, "bytes")
    try:
        written = msgspec.json.decode(data)
        version = written.get("turnlog_checkpoint") if isinstance(written, dict) else None
        if isinstance(version, int) and version != 1:
            raise InvalidArgument("turnlog_checkpoint", version, "is not a version that this build reads (1)")
        return msgspec.convert(written, Checkpoint)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise InvalidArgument("checkpoint", data[:40], f"is not a checkpoint: {error}") from None


def root_faults(against: Checkpoint, key: bytes | None) -> Iterator[Fault]:
    """Return what is wrong with a checkpoint itself."""
    if against.keyed and key is None:
        yield Fault(None, None, "the checkpoint was made with a key: give it to check its root")
    elif key is not None and not against.keyed:
        yield Fault(None, None, "the checkpoint was made without a key, by anybody")
    elif not hmac.compare_digest(_root(against.conversations, key).encode(), against.root.encode()):
        yield Fault(None, None, "the checkpoint's root is not that of what it says, or was made with another key")


def differences(state: State, marks: Sequence[Mark]) -> Iterator[Fault | Renamed]:
    """Return the conversations that are not as they were at a checkpoint, those that only grew since aside."""
    for mark in marks:
        row = state.row(
            "SELECT conversations.key, events.digest, name_salt, name FROM conversations"
            " LEFT JOIN events ON events.conversation = conversations.key AND events.version = ?"
            " WHERE conversations.uuid = ?",
            (mark.version, mark.uuid),
        )
        if row is None:
            yield Fault(mark.uuid, None, "it is in the checkpoint and not in the store")
            continue
        key, digest, salt, name = row
        if digest is None:
            why = f"it ends here, and had {mark.version} versions at the checkpoint"
            yield Fault(mark.uuid, _end_of(state, key), why)
        elif not isinstance(digest, bytes) or digest.hex() != mark.digest:
            yield Fault(mark.uuid, mark.version, "it is another event than at the checkpoint")
        if _digest_of(mark.uuid, salt, name) != mark.name:
            yield Renamed(mark.uuid, name if isinstance(name, str) else None)


def _digest_of(uuid: str, salt: Any, name: Any) -> str | None:
    """Return the digest of a conversation's name (hex); None if it has none, or its row is damaged."""
    known = isinstance(salt, bytes) and isinstance(name, str)
    return digest_of_name(salt, uuid, name).hex() if known else None


def _end_of(state: State, key: int) -> int | None:
    row = state.row(
        "SELECT coalesce(max(events.version), conversations.forked_at, 0) FROM conversations"
        " LEFT JOIN events ON events.conversation = conversations.key WHERE conversations.key = ?",
        (key,),
    )
    return row[0] if row is not None and isinstance(row[0], int) else None


def _root(marks: Sequence[Mark], key: bytes | None) -> str:
    lines = (f"{mark.uuid} {mark.version} {mark.digest} {mark.name or '-'}\n" for mark in marks)
    text = "".join(lines).encode()
    return sha256(text).hexdigest() if key is None else hmac.new(key, text, sha256).hexdigest()
