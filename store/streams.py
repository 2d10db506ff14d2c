"""Conversations as streams: their identity, their name, and what a fork shares with its parent."""

from __future__ import annotations

import os
import unicodedata
import uuid
from typing import Any

import msgspec

from .arguments import text
from .chain import genesis
from .characters import why_not_a_name
from .database import Database
from .errors import Damaged, InvalidArgument, NameTaken, NotFound
from .events.base import MAX_NAME_LENGTH

OPEN = 2**62
_SALT_SIZE = 16


class Stream(msgspec.Struct, frozen=True, gc=False):
    """A conversation. `key` is its number in the store's tables, `lineage` what it reads, oldest first."""

    key: int
    uuid: str
    name: str | None
    lineage: tuple[Segment, ...]

    @property
    def label(self) -> str:
        """Its name or, without one, its uuid."""
        return self.name or self.uuid

    def owner(self, version: int) -> Segment:
        """The part of what it reads that has a version.

        :raises NotFound: there is no such version.
        """
        for segment in self.lineage:
            if segment.first <= version <= segment.last:
                return segment
        raise NotFound("version", version)

    def owner_sql(self, version: str) -> str:
        """Return SQL for the number of the conversation that owns the event of a version, which is given as SQL."""
        *earlier, last = self.lineage
        cases = "".join(f" WHEN {version} <= {segment.last} THEN {segment.key}" for segment in earlier)
        return f"CASE{cases} ELSE {last.key} END" if cases else str(last.key)


class Segment(msgspec.Struct, frozen=True, gc=False):
    """The versions `first` to `last` that the conversation `key` owns; `last` is OPEN where it goes on."""

    key: int
    uuid: str
    first: int
    last: int

    def within(self, first: int, last: int) -> Segment:
        """What of it lies in a range of versions; `first` is above `last` if nothing does."""
        return Segment(self.key, self.uuid, max(first, self.first), min(last, self.last))


class Head(msgspec.Struct, frozen=True, gc=False):
    """The last event of a conversation: version 0 before the first."""

    version: int
    digest: bytes
    recorded_at: int


def checked_name(name: object) -> str:
    """Return a conversation's name in NFC.

    :raises InvalidArgument: it is empty, blank or longer than 200 characters, or people cannot see what it is.
    """
    normal = unicodedata.normalize("NFC", text("conversation", name))
    if not 1 <= len(normal) <= MAX_NAME_LENGTH:
        raise InvalidArgument("conversation", name, f"is not 1 to {MAX_NAME_LENGTH} characters")
    if (why := why_not_a_name(normal)) is not None:
        raise InvalidArgument("conversation", name, why)
    return normal


_SELECT_HEAD = (
    "SELECT key, uuid, name, parent, forked_at, events.version, events.digest, events.recorded_at"
    " FROM conversations JOIN events ON events.conversation = conversations.key WHERE"
)
_LAST = "ORDER BY events.version DESC LIMIT 1"
_SELECT = "SELECT key, uuid, name, parent, forked_at FROM conversations WHERE "


def find(db: Database, conversation: str) -> Stream | None:
    """The conversation of this name or uuid."""
    name = checked_name(conversation)
    row = db.row(f"{_SELECT} name = ?", (name,))
    return find_uuid(db, name) if row is None else _stream(db, row)


def find_uuid(db: Database, identity: str) -> Stream | None:
    """The conversation of this uuid."""
    row = db.row(f"{_SELECT} uuid = ?", (identity,))
    return None if row is None else _stream(db, row)


def find_key(db: Database, key: int) -> Stream | None:
    """The conversation of this number in the store's tables."""
    row = db.row(f"{_SELECT} key = ?", (key,))
    return None if row is None else _stream(db, row)


def get(db: Database, conversation: str) -> Stream:
    """The conversation of this name or uuid.

    :raises NotFound: there is none.
    """
    stream = db.recall(("stream", conversation), lambda: find(db, conversation))
    if stream is None:
        raise NotFound("conversation", conversation)
    return stream


def create(
    db: Database, name: str | None, identity: str | None = None, fork_of: tuple[Stream, int] | None = None
) -> Stream:
    """Return a new conversation, inside the caller's transaction; a fork at a version that another owns.

    :raises NameTaken: another conversation has the name, or has it as its uuid.
    """
    identity = identity or str(uuid.uuid4())
    for taken in (name, identity):
        if taken is not None and find(db, taken) is not None:
            raise NameTaken(taken)
    parent, at = (None, None) if fork_of is None else (fork_of[0].key, fork_of[1])
    salt = None if name is None else os.urandom(_SALT_SIZE)
    db.rows(
        "INSERT INTO conversations (uuid, name, parent, forked_at, named, name_salt) VALUES (?, ?, ?, ?, ?, ?)",
        (identity, name, parent, at, name is not None, salt),
    )
    made = find_uuid(db, identity)
    assert made is not None
    return made


def rename(db: Database, conversation: str, name: str | None) -> Stream:
    """Give a conversation another name, or none, inside the caller's transaction.

    :raises NotFound: there is no such conversation.
    :raises NameTaken: another conversation has the name, or has it as its uuid.
    """
    stream = get(db, conversation)
    name = None if name is None else checked_name(name)
    other = None if name is None else find(db, name)
    if other is not None and other.key != stream.key:
        raise NameTaken(str(name))
    # The salt is made with the first name and goes with the last, so that nobody can guess a name that is erased.
    db.rows(
        "UPDATE conversations SET name = ?1,"
        " named = 1, name_salt = CASE WHEN ?1 IS NULL THEN NULL ELSE coalesce(name_salt, ?2) END WHERE key = ?3",
        (name, os.urandom(_SALT_SIZE), stream.key),
    )
    return get(db, stream.uuid)


def was_named(db: Database, stream: Stream) -> bool:
    """Return whether anybody ever gave a conversation a name, or took it away."""
    return db.row("SELECT named FROM conversations WHERE key = ?", (stream.key,)) == (1,)


def find_head(db: Database, name: str) -> tuple[Stream, Head] | None:
    """The conversation of this name or uuid with its last event, inside a transaction: what an append needs."""
    found: tuple[Stream, Head] | None = db.remembered(name)
    if found is None:
        row = db.row(f"{_SELECT_HEAD} name = ? {_LAST}", (name,)) or db.row(f"{_SELECT_HEAD} uuid = ? {_LAST}", (name,))
        found = None if row is None else (_stream(db, row[:5]), Head(*row[5:]))
    return found


def head(db: Database, stream: Stream) -> Head:
    """The last event's version, digest and time; of a conversation without events, what the first one follows."""
    return db.recall(("head", stream.key), lambda: _head_of(db, stream.lineage, stream.uuid))


def before_own(db: Database, stream: Stream) -> Head:
    """What the first event that a conversation itself owns follows."""
    return _head_of(db, stream.lineage[:-1], stream.uuid)


def _head_of(db: Database, lineage: tuple[Segment, ...], identity: str) -> Head:
    for segment in reversed(lineage):
        row = db.row(
            "SELECT version, digest, recorded_at FROM events WHERE conversation = ? AND version <= ?"
            " ORDER BY version DESC LIMIT 1",
            (segment.key, segment.last),
        )
        if row is not None:
            return Head(*row)
    return Head(0, genesis(identity), 0)


def _stream(db: Database, own: tuple[Any, ...]) -> Stream:
    """Return a conversation from its row.

    :raises Damaged: what it was forked from cannot be told.
    """
    segments: list[Segment] = []
    seen: set[int] = set()
    row, last = own, OPEN
    while True:
        key, identity, _, parent, forked_at = row
        forked = isinstance(parent, int) and isinstance(forked_at, int)
        if not forked and (parent, forked_at) != (None, None):
            raise Damaged(str(own[1]), None, "a row does not say what it was forked from, and where")
        segment = Segment(key, identity, (forked_at or 0) + 1, last)
        if segment.first <= last:
            segments.append(segment)
        if not forked:
            return Stream(own[0], own[1], own[2], tuple(reversed(segments)))
        seen.add(key)
        above = db.row(f"{_SELECT} key = ?", (parent,))
        if above is None or parent in seen:
            why = "what it was forked from is not here" if above is None else "it is a fork of itself"
            raise Damaged(str(own[1]), None, why)
        row, last = above, min(last, forked_at)
