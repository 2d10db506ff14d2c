"""What a redaction or an erasure concerns: the events whose text goes, and the summaries that tell of them."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from .database import Database
from .errors import NotFound
from .events import SummaryFrame, read_frame
from .streams import OPEN, Stream, find_uuid


@dataclass(frozen=True)
class Target:
    """An event that a redaction erases or, of a summary, that tells of one; `conversation` is the uuid of its owner."""

    conversation: str
    version: int
    type: str
    scope: str | None


@dataclass(frozen=True)
class Fork:
    """A conversation that shares another's versions, up to `shared`."""

    key: int
    uuid: str
    shared: int


def targets(db: Database, stream: Stream, versions: Sequence[int]) -> list[Target]:
    """Return the events of these versions, each with the conversation that owns it.

    :raises NotFound: there is no such version.
    """
    found = []
    for version in versions:
        segment = stream.owner(version)
        row = db.row("SELECT type, scope FROM events WHERE conversation = ? AND version = ?", (segment.key, version))
        if row is None:
            raise NotFound("version", version)
        found.append(Target(segment.uuid, version, *row))
    return found


def covering_summaries(db: Database, wanted: Sequence[Target]) -> list[Target]:
    """Return the summaries that cover any of these events: in the conversations that own them, and in their forks."""
    versions: dict[tuple[str, str | None], list[int]] = {}
    for target in wanted:
        insort(versions.setdefault((target.conversation, target.scope), []), target.version)
    found = []
    for owner in dict.fromkeys(target.conversation for target in wanted):
        own = Fork(_key_of(db, owner), owner, OPEN)
        for fork in [own, *forks(db, own.key, 1)]:
            for target, first, last in _summaries(db, fork):
                covered = versions.get((owner, target.scope), [])
                at = bisect_left(covered, first)
                if at < len(covered) and covered[at] <= min(last, fork.shared):
                    found.append(target)
    known = set(wanted)
    return [target for target in dict.fromkeys(found) if target not in known]


def own_content(db: Database, stream: Stream) -> list[Target]:
    """Return the events that a conversation itself owns and that say more than their frame does.

    The reasons of an earlier erasure of the conversation are not among them: they say why it was erased, and stay.
    """
    own = stream.lineage[-1]
    rows = db.rows(
        "SELECT version, type, scope FROM events WHERE conversation = ? AND body IS NOT NULL AND body <> frame"
        " AND NOT (type = 'redaction' AND json_extract(frame, '$.whole') IS 1) ORDER BY version",
        (own.key,),
    )
    return [Target(own.uuid, version, type_, scope) for version, type_, scope in rows]


def forks(db: Database, key: int, version: int) -> list[Fork]:
    """Return the conversations that share this version of one by forking, directly or not."""
    rows = db.rows(
        "WITH RECURSIVE forks (key, uuid, shared) AS ("
        " SELECT key, uuid, forked_at FROM conversations WHERE parent = ? AND forked_at >= ?"
        " UNION SELECT below.key, below.uuid, min(below.forked_at, forks.shared) FROM conversations AS below"
        " JOIN forks ON below.parent = forks.key AND below.forked_at >= ?)"
        " SELECT key, uuid, shared FROM forks",
        (key, version, version),
    )
    return [Fork(*row) for row in rows]


def _summaries(db: Database, of: Fork) -> Iterator[tuple[Target, int, int]]:
    """Return the summaries that a conversation owns and that are not redacted, with the first and last they cover."""
    rows = db.rows(
        "SELECT version, type, scope, frame FROM events WHERE conversation = ? AND type = 'summary'"
        " AND type <> 'message' AND body IS NOT NULL ORDER BY version",
        (of.key,),
    )
    for version, type_, scope, frame in rows:
        covers = read_frame(type_, 1, version, scope, frame)
        if isinstance(covers, SummaryFrame) and covers.first is not None and covers.last is not None:
            yield Target(of.uuid, version, type_, scope), covers.first, covers.last


def _key_of(db: Database, identity: str) -> int:
    stream = find_uuid(db, identity)
    assert stream is not None
    return stream.key
