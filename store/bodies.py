"""Reducing events to their frames: what was said goes, and the digests and the shape of every view stay."""

from __future__ import annotations

from collections.abc import Sequence

from .chain import digest_of_body
from .costs import purge_costs
from .database import Database
from .search_file import purge
from .streams import Stream


def erase_bodies(db: Database, stream: Stream, versions: Sequence[int]) -> None:
    """Erase the bodies and salts of events, inside the transaction that appended their redactions."""
    if versions:
        purge_costs(db, stream)
    erased = []
    for version in versions:
        row = db.row(
            "SELECT position, salt, body FROM events WHERE conversation = ? AND version = ? AND body IS NOT NULL",
            (stream.key, version),
        )
        if row is None:
            continue
        position, salt, body = row
        erased.append(position)
        db.rows(
            "UPDATE events SET body = NULL, salt = NULL, body_digest = ? WHERE conversation = ? AND version = ?",
            (digest_of_body(salt, body), stream.key, version),
        )
    if erased:
        db.erasure.begin()
        purge(db, erased)
    else:
        # Perhaps it was somebody else who erased these same events and did not come to finish it.
        db.erasure.notice()
