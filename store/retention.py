"""Retention: erase the conversations in which nothing has happened for long (DESIGN section 7)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from . import streams
from .arguments import microseconds
from .chain import time_of
from .database import Database
from .redact import erase_conversation, redaction
from .targets import forks, own_content


@dataclass(frozen=True)
class Expired:
    """A conversation that is old enough to be erased: the time of its last event, and how many events say something.

    `kept_for` is the uuid of a fork that is not, and because of which what both share is kept; else None.
    """

    conversation: str
    name: str | None
    changed: datetime
    events: int
    kept_for: str | None


@dataclass(frozen=True)
class Retention:
    """What a retention erased, or would, and what it kept for a fork that goes on."""

    erased: list[Expired]
    kept: list[Expired]
    held_up_by: str | None = None


def erase_older_than(db: Database, time: datetime, reason: str, dry_run: bool) -> Retention:
    """See `Store.erase_older_than`."""
    before = microseconds("time", time)
    redaction(reason)
    if dry_run:
        return _expired(db, before)
    with db.transaction():
        found = _expired(db, before)
        for each in found.erased:
            erase_conversation(db, each.conversation, reason, dry_run=False)
        db.erasure.notice()
    return Retention(found.erased, found.kept, db.erasure.told())


def _expired(db: Database, before: int) -> Retention:
    # A redaction is no sign of life: else whoever redacts would put the erasure of the rest off.
    rows = db.rows(
        "SELECT key, uuid, coalesce(forked_at, 0) + 1, (SELECT coalesce(occurred_at, recorded_at) FROM events"
        " WHERE conversation = conversations.key AND type <> 'redaction' ORDER BY version DESC LIMIT 1)"
        " FROM conversations ORDER BY key"
    )
    old = {key for key, _, _, changed in rows if changed is not None and changed < before}
    found = Retention([], [])
    for key, identity, first, changed in rows:
        if key not in old:
            continue
        stream = streams.get(db, identity)
        events = len(own_content(db, stream))
        if not events and stream.name is None:
            continue
        young = next((fork.uuid for fork in forks(db, key, first) if fork.key not in old), None)
        expired = Expired(identity, stream.name, time_of(changed), events, young)
        (found.erased if young is None else found.kept).append(expired)
    return found
