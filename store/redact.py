"""Redaction, erasure and forks: appends that concern more than one conversation (DESIGN section 7)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from . import streams
from .append import Receipt, insert
from .codec import prepare
from .database import Database
from .erasure import Target, covering_summaries, own_content, targets
from .errors import InvalidEvent, NotFound
from .events import Fork, Redaction
from .streams import Stream


@dataclass(frozen=True)
class Redacted:
    """What a redaction erased, or would: `summaries` cover what goes and still tell of it.

    `left_every_file` is False while a reader keeps erased bytes in the WAL: they go with the next write after that.
    """

    erased: list[Target]
    summaries: list[Target]
    receipts: list[Receipt]
    left_every_file: bool = True


def redact(
    db: Database,
    conversation: str,
    versions: Sequence[int],
    reason: str,
    replacement: str | None,
    summaries: bool,
    dry_run: bool,
) -> Redacted:
    """See `Store.redact`."""
    stream = streams.get(db, conversation)
    if not versions:
        raise InvalidEvent("versions", [], "is empty")
    for version in versions:
        if isinstance(version, bool) or not isinstance(version, int):
            raise InvalidEvent("versions", version, "is not a version")
    prepare(Redaction(target=1, reason=reason, replacement=replacement))
    if dry_run:
        return _planned(db, stream, versions, summaries)
    with db.transaction():
        planned = _planned(db, stream, versions, summaries)
        receipts = _append(db, planned.erased, reason, replacement)
    return Redacted(planned.erased, planned.summaries, receipts, db.left_every_file)


def erase_conversation(db: Database, conversation: str, reason: str, dry_run: bool) -> Redacted:
    """See `Store.erase`."""
    stream = streams.get(db, conversation)
    if dry_run:
        erased = own_content(db, stream)
        return Redacted(erased, covering_summaries(db, stream, erased), [])
    with db.transaction():
        erased = own_content(db, stream)
        summaries = covering_summaries(db, stream, erased)
        receipts = _append(db, erased, reason, None)
        streams.rename(db, stream.uuid, None)
        db.erased()
    return Redacted(erased, summaries, receipts, db.left_every_file)


def fork(db: Database, conversation: str, at: int | None, name: str | None) -> Receipt:
    """See `Store.fork`."""
    checked = None if name is None else streams.checked_name(name)
    with db.transaction():
        parent = streams.get(db, conversation)
        latest = streams.head(db, parent).version
        at = latest if at is None else at
        if isinstance(at, bool) or not 1 <= at <= latest:
            raise NotFound("version", at, f"is not between 1 and {latest}, the last of {parent.label}")
        child = streams.create(db, checked, fork_of=(parent, at))
        return insert(db, child, streams.head(db, child), [prepare(Fork(parent=parent.uuid, at=at))])[0]


def _planned(db: Database, stream: Stream, versions: Sequence[int], with_summaries: bool) -> Redacted:
    wanted = targets(db, stream, sorted(set(versions)))
    covering = covering_summaries(db, stream, wanted)
    return Redacted([*wanted, *covering], [], []) if with_summaries else Redacted(wanted, covering, [])


def _append(db: Database, wanted: Sequence[Target], reason: str, replacement: str | None) -> list[Receipt]:
    """A redaction event for each target, in the conversation that owns it."""
    receipts = []
    for owner, group in groupby(sorted(wanted, key=lambda target: target.conversation), lambda each: each.conversation):
        stream = streams.get(db, owner)
        batch = [prepare(Redaction(target=target.version, reason=reason, replacement=replacement)) for target in group]
        receipts.append(insert(db, stream, streams.head(db, stream), batch)[0])
    return receipts
