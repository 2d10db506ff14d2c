"""Redaction and erasure: what was said goes, for good, and what shows that it was said stays (DESIGN section 7)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

import msgspec

from . import streams
from .append import Receipt, insert
from .arguments import text, whole_numbers
from .codec import prepare
from .database import Database
from .errors import InvalidArgument
from .events import Redaction
from .streams import Stream
from .targets import Target, covering_summaries, own_content, targets


@dataclass(frozen=True)
class Redacted:
    """What a redaction erased, or would: `summaries` cover what goes and still tell of it.

    `left_every_file` is False while copies of what was erased may be left in the store's files, and `held_up_by` then
    says in one line where and why. The next write, or the next one to open the store for writing, tries again.
    """

    erased: list[Target]
    summaries: list[Target]
    receipts: list[Receipt]
    held_up_by: str | None = None

    @property
    def left_every_file(self) -> bool:
        """Return whether nothing of what was erased, by whomever, is left in a file of the store."""
        return self.held_up_by is None


def redaction(reason: str, replacement: str | None = None, whole: bool | None = None) -> Redaction:
    """Return a redaction for `append_redactions`, which gives it its targets.

    :raises InvalidArgument: the reason or the replacement is not text, or is too long.
    """
    replacement = None if replacement is None else text("replacement", replacement)
    made = Redaction(target=1, reason=text("reason", reason), replacement=replacement, whole=whole)
    prepare(made)
    return made


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
    if not whole_numbers("versions", versions, "a version"):
        raise InvalidArgument("versions", [], "is empty")
    how = redaction(reason, replacement)
    if dry_run:
        return _planned(db, stream, versions, summaries)
    with db.transaction():
        planned = _planned(db, stream, versions, summaries)
        receipts = append_redactions(db, planned.erased, how)
    return Redacted(planned.erased, planned.summaries, receipts, db.erasure.told())


def erase_conversation(db: Database, conversation: str, reason: str, dry_run: bool) -> Redacted:
    """See `Store.erase`."""
    identity = streams.get(db, conversation).uuid
    how = redaction(reason, whole=True)
    if dry_run:
        return _planned_erasure(db, streams.get(db, identity))
    with db.transaction():
        stream = streams.get(db, identity)
        planned = _planned_erasure(db, stream)
        receipts = append_redactions(db, planned.erased, how)
        if stream.name is None:
            if not streams.was_named(db, stream):
                streams.rename(db, identity, None)  # So that no import names it any more.
            db.erasure.notice()
        else:
            streams.rename(db, identity, None)
            db.erasure.begin()
    return Redacted(planned.erased, planned.summaries, receipts, db.erasure.told())


def _planned_erasure(db: Database, stream: Stream) -> Redacted:
    erased = own_content(db, stream)
    return Redacted(erased, covering_summaries(db, erased), [])


def _planned(db: Database, stream: Stream, versions: Sequence[int], with_summaries: bool) -> Redacted:
    wanted = targets(db, stream, sorted(set(versions)))
    covering = covering_summaries(db, wanted)
    return Redacted([*wanted, *covering], [], []) if with_summaries else Redacted(wanted, covering, [])


def append_redactions(db: Database, wanted: Sequence[Target], how: Redaction) -> list[Receipt]:
    """Append a redaction for each target, in the conversation that owns it."""
    receipts = []
    for owner, group in groupby(sorted(wanted, key=lambda target: target.conversation), lambda each: each.conversation):
        stream = streams.get(db, owner)
        batch = [prepare(msgspec.structs.replace(how, target=target.version)) for target in group]
        receipts.append(insert(db, stream, streams.head(db, stream), batch)[0])
    return receipts
