"""What a redaction or an erasure concerns: the events whose text goes, and the summaries that tell of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .database import Database
from .errors import NotFound
from .events import SummaryFrame, read_frame
from .streams import OPEN, Stream


@dataclass(frozen=True)
class Target:
    """An event that a redaction erases or, of a summary, that tells of one; `conversation` is the uuid of its owner."""

    conversation: str
    version: int
    type: str
    scope: str | None


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


def covering_summaries(db: Database, stream: Stream, wanted: Sequence[Target]) -> list[Target]:
    """Return the summaries that cover any of these events: in the conversations that own them, and in their forks."""
    found = []
    for target in wanted:
        segment = stream.owner(target.version)
        for key, identity in [(segment.key, segment.uuid), *_forks(db, segment.key, target.version)]:
            rows = db.rows(
                "SELECT version, type, scope, frame FROM events WHERE conversation = ? AND type = 'summary'"
                " AND type <> 'message' AND scope IS ? ORDER BY version",
                (key, target.scope),
            )
            for version, type_, scope, frame in rows:
                covers = read_frame(type_, 1, version, scope, frame)
                if isinstance(covers, SummaryFrame) and (covers.first or OPEN) <= target.version <= (covers.last or 0):
                    found.append(Target(identity, version, type_, scope))
    return [target for target in dict.fromkeys(found) if target not in wanted]


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


def _forks(db: Database, key: int, version: int) -> list[tuple[int, str]]:
    """Return the conversations that share a version by forking, directly or not."""
    return [
        (child, identity)
        for child, identity in db.rows(
            "WITH RECURSIVE forks (key, uuid) AS ("
            " SELECT key, uuid FROM conversations WHERE parent = ? AND forked_at >= ?"
            " UNION SELECT below.key, below.uuid FROM conversations AS below"
            " JOIN forks ON below.parent = forks.key AND below.forked_at >= ?)"
            " SELECT key, uuid FROM forks",
            (key, version, version),
        )
    ]
