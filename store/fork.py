"""Fork: a conversation that begins with what another has said so far (DESIGN section 7)."""

from __future__ import annotations

from . import streams
from .append import Receipt, insert
from .arguments import whole_number
from .codec import prepare
from .database import Database
from .errors import NotFound
from .events import Fork


def fork(db: Database, conversation: str, at: int | None, name: str | None) -> Receipt:
    """See `Store.fork`."""
    checked = None if name is None else streams.checked_name(name)
    with db.transaction():
        parent = streams.get(db, conversation)
        latest = streams.head(db, parent).version
        at = latest if at is None else whole_number("at", at, what="a version")
        if not 1 <= at <= latest:
            raise NotFound("version", at, f"is not between 1 and {latest}, the last of {parent.label}")
        # A version that the parent shares with its own parent is owned further up.
        owner = streams.get(db, parent.owner(at).uuid)
        child = streams.create(db, checked, fork_of=(owner, at))
        return insert(db, child, streams.head(db, child), [prepare(Fork(parent=owner.uuid, at=at))])[0]
