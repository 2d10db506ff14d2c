"""Verify: believe nothing of a store but what its digests prove (DESIGN section 7)."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import chain, groupby
from operator import itemgetter
from typing import Any

from .chain import digest_of_body, digest_of_event, genesis
from .checkpoint import Checkpoint, differences, root_faults
from .codec import Event
from .database import Database
from .errors import Damaged
from .events import ForkFrame, RedactionFrame, read_frame
from .exchange import follows_from_body
from .faults import Fault, Renamed, Verified
from .json_values import repeated_key
from .searching import Index
from .state import State, state_of
from .streams import Head
from .structure import structure_faults

_OWN = "key, uuid, parent, forked_at, name, name_salt"
_EVENT = "version, type, v, scope, frame, body, position, id, recorded_at, occurred_at, salt, body_digest, digest"
_HEAD = "version, digest, recorded_at"
# What each column of these may hold. SQLite holds writers to it, and damaged bytes to nothing.
_TYPES: dict[str, tuple[type, ...]] = {
    "key": (int,),
    "uuid": (str,),
    "parent": (int, type(None)),
    "forked_at": (int, type(None)),
    "name": (str, type(None)),
    "name_salt": (bytes, type(None)),
    "version": (int,),
    "type": (str,),
    "v": (int,),
    "scope": (str, type(None)),
    "frame": (str,),
    "body": (str, type(None)),
    "position": (int,),
    "id": (str, type(None)),
    "recorded_at": (int,),
    "occurred_at": (int, type(None)),
    "salt": (bytes, type(None)),
    "body_digest": (bytes, type(None)),
    "digest": (bytes,),
}
_WIDTH = len(_OWN.split(", "))  # The columns of a conversation come first.
_TICK = 1000  # Events between two notes of progress.


def verify(
    db: Database,
    against: Checkpoint | None,
    key: bytes | None,
    progress: Callable[[int, int], None],
    derived: Callable[[], Iterable[str]] = tuple,
) -> Verified:
    """Verify the store; see `Store.verify`.

    `derived` compares what else is derived from the log with it, and returns a line for each difference.
    """
    found = Verified()
    with state_of(db) as state:
        _collect(found, (Fault(None, None, why) for why in structure_faults(state)))
        _collect(found, _stray_faults(state))
        _collect(found, _event_faults(state, found, progress))
        if against is not None:
            _collect(found, root_faults(against, key))
            _collect(found, differences(state, against.conversations))
    found.erasure = db.erasure.told()
    found.derived += Index(db).differences()
    try:
        found.derived += derived()
    except Exception as error:
        if not found.faults:
            raise
        found.derived.append(f"cannot be compared with a damaged log: {' '.join(str(error).split())}")
    return found


def _collect(found: Verified, more: Iterator[Fault | Renamed] | Iterator[Fault]) -> None:
    """Add to what was found, up to where damage lets nothing more be read, which is a fault itself."""
    try:
        for each in more:
            if isinstance(each, Fault):
                found.faults.append(each)
            else:
                found.renamed.append(each)
    except (sqlite3.DatabaseError, MemoryError) as error:
        # SQLite asks for more memory than there is where damaged bytes give it a length.
        why = f"cannot all be read: {error or 'it takes more memory than there is'}"
        found.faults.append(Fault(None, None, why))


@dataclass(frozen=True)
class _Conversation:
    """A row as it stands: nothing in it is believed."""

    key: int
    uuid: str
    parent: int | None
    forked_at: int | None
    name: str | None
    salt: bytes | None


def _event_faults(state: State, found: Verified, progress: Callable[[int, int], None]) -> Iterator[Fault]:
    """Recompute the digests of all conversations in one pass; return the first thing wrong with each."""
    for _, rows in groupby(_rows(state, progress), key=itemgetter(0)):
        found.conversations += 1
        fault = _conversation_fault(state, found, rows)
        if fault is not None:
            yield fault


def _rows(state: State, progress: Callable[[int, int], None]) -> Iterator[tuple[Any, ...]]:
    """Return each conversation with each of its events, in order; one without events once."""
    total = int((state.row("SELECT count(*) FROM events") or (0,))[0])
    columns = [f"conversations.{name}" for name in _OWN.split(", ")] + [f"events.{name}" for name in _EVENT.split(", ")]
    rows = state.each(
        f"SELECT {', '.join(columns)} FROM conversations LEFT JOIN events ON events.conversation = conversations.key"
        " ORDER BY conversations.key, events.version"
    )
    for done, row in enumerate(rows, start=1):
        yield row
        if done % _TICK == 0:
            progress(min(done, total), total)


def _conversation_fault(state: State, found: Verified, rows: Iterator[tuple[Any, ...]]) -> Fault | None:
    first = next(rows)
    conversation = _Conversation(*first[:_WIDTH])
    if (why := _mistyped(tuple(map(type, first[:_WIDTH])), _OWN)) is not None:
        return Fault(None, None, f"the conversation of key {conversation.key}: {why}")
    if all(value is None for value in first[_WIDTH:]):
        return Fault(conversation.uuid, None, "it has no events")
    parent = _parent(state, conversation)
    head = _before(state, conversation, parent)
    position = 0
    erasures = _Erasures(state, conversation.key)
    for count, row in enumerate(chain((first,), rows)):
        values = row[_WIDTH:]
        if (why := _mistyped(tuple(map(type, values)), _EVENT)) is not None:
            return _fault(conversation.uuid, values[0], why)
        event = Event(conversation.uuid, *values)
        if head is None:
            return Fault(conversation.uuid, event.version, "what it was forked from is not here")
        why = _why_bad(event, head, position)
        if why is None and event.redacted and not erasures.excuse(event.version):
            why = "its body is gone and no redaction names it"
        if why is None and not count:
            why = _why_not_begun(event, conversation, parent)
        if why is not None:
            return Fault(conversation.uuid, event.version, why)
        head = Head(event.version, event.digest, event.recorded_us)
        position = event.position
        found.events += 1
    why = _why_misnamed(conversation)
    return None if why is None else Fault(conversation.uuid, None, why)


def _why_misnamed(conversation: _Conversation) -> str | None:
    if (conversation.name is None) != (conversation.salt is None):
        return "it has a name without its salt, or the salt of a name that is gone"
    # As damaged text is read; see `State`.
    return "its name is not UTF-8" if (conversation.name or "").endswith("\0") else None


@cache
def _mistyped(kinds: tuple[type, ...], names: str) -> str | None:
    """Return what is wrong if a row has values of these types in these columns, which may not have one of them."""
    for kind, name in zip(kinds, names.split(", "), strict=True):
        if kind not in _TYPES[name]:
            return f"its {name} is damaged: it is {kind.__name__}, not {_TYPES[name][0].__name__}"
    return None


def _parent(state: State, conversation: _Conversation) -> _Conversation | None:
    if conversation.parent is None:
        return None
    row = state.row(f"SELECT {_OWN} FROM conversations WHERE key = ?", (conversation.parent,))
    return None if row is None or _mistyped(tuple(map(type, row)), _OWN) else _Conversation(*row)


def _before(state: State, conversation: _Conversation, parent: _Conversation | None) -> Head | None:
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
            row = state.row(
                "SELECT version, digest, recorded_at FROM events WHERE conversation = ? AND version = ?", (owner, at)
            )
            return None if row is None or _mistyped(tuple(map(type, row)), _HEAD) else Head(*row)
        seen.add(parent.key)
        parent = _parent(state, parent)
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
    except Damaged as error:
        return error.why
    if digest_of_event(before.digest, header, event.frame_text, body_digest) != event.digest:
        return "its digest is not that of what it says and what came before"
    if event.recorded_us < before.recorded_at:
        return "it was recorded before the version before"
    if not follows_from_body(event):
        return "its frame does not follow from its body"
    if event.body_text is not None and (name := repeated_key(event.body_text)) is not None:
        return f"its body has the key {name!r} twice in one object, so that it can be read in two ways"
    return None


def _why_not_begun(event: Event, conversation: _Conversation, parent: _Conversation | None) -> str | None:
    """Return why an event may not begin this conversation; a fork begins with the event that says so, nothing else."""
    frame = event.frame
    if isinstance(frame, ForkFrame):
        held = parent is not None and (frame.parent, frame.at) == (parent.uuid, conversation.forked_at)
        return None if held else "it is a fork, and the conversation is not one of that version"
    return "the conversation is a fork, and does not begin as one" if conversation.parent is not None else None


class _Erasures:
    """Which bodies of a conversation may be gone. Nothing is read for a conversation that lacks none."""

    def __init__(self, state: State, key: int) -> None:
        self._state = state
        self._key = key

    def excuse(self, version: int) -> bool:
        """Return whether a redaction names a version, or may do so where it is not here."""
        return version in self._named or self._is_partial

    @cached_property
    def _named(self) -> set[int]:
        rows = self._state.each(
            # Not by the index of types, which may lack some.
            "SELECT v, version, scope, frame FROM events WHERE conversation = ? AND +type = 'redaction'",
            (self._key,),
        )
        frames = (read_frame("redaction", v, version, scope, frame) for v, version, scope, frame in rows)
        return {frame.target for frame in frames if isinstance(frame, RedactionFrame)}

    @cached_property
    def _is_partial(self) -> bool:
        """A restore of a fork has of its parent what they share: the parent's later redactions are not here."""
        row = self._state.row(
            "SELECT 1 WHERE (SELECT max(forked_at) FROM conversations WHERE parent = ?1)"
            " = (SELECT max(version) FROM events WHERE conversation = ?1)",
            (self._key,),
        )
        return row is not None


def _stray_faults(state: State) -> Iterator[Fault]:
    """Return the events that belong to no conversation, and the first that stands where another was removed."""
    for key, version in state.rows(
        "SELECT conversation, min(version) FROM events WHERE conversation NOT IN (SELECT key FROM conversations)"
        " GROUP BY conversation"
    ):
        yield _fault(None, version, f"an event belongs to no conversation (key {key})")
    # Positions are given without gaps, since nothing is ever deleted.
    row = state.row("SELECT count(*), max(position) FROM events")
    if row is not None and row[0] and row[0] != row[1]:
        gap = state.row(
            "SELECT conversations.uuid, events.version FROM events"
            " LEFT JOIN conversations ON conversations.key = events.conversation"
            " WHERE events.position > 1 AND NOT EXISTS"
            "   (SELECT 1 FROM events AS before WHERE before.position = events.position - 1)"
            " ORDER BY events.position LIMIT 1"
        )
        if gap is not None:
            yield _fault(gap[0], gap[1], "the position before its own is missing: an event was removed or moved")


def _fault(conversation: Any, version: Any, why: str) -> Fault:
    """Return a fault of what damaged rows may call a conversation and a version."""
    known = conversation if isinstance(conversation, str) else None
    return Fault(known, version if isinstance(version, int) else None, why)
