"""The store: append events to conversations, read them back, follow them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any

from . import streams
from .append import Receipt, append, described_scopes
from .chain import microseconds_of, time_of
from .codec import Event
from .conversation import Conversation
from .database import Database, Durability
from .errors import InvalidEvent, NotFound
from .events import SCOPES, NewEvent
from .exchange import Exported, Restored, restore
from .expected import ANY, ExpectedVersion
from .redact import Redacted, erase_conversation, fork, redact
from .streams import OPEN, Segment, Stream
from .verify import Checkpoint, Verified, checkpoint, verify

_COLUMNS = (
    "events.position, events.version, events.type, events.v, events.scope, events.id, events.recorded_at,"
    " events.occurred_at, events.frame, events.body, events.salt, events.body_digest, events.digest"
)
_PAGE = 1000
# The condition of the index events_that_shape, to the letter.
_SHAPING = (
    "(type IN ('assistant', 'transfer', 'summary', 'clear', 'rewind')"
    """ OR (type = 'message' AND substr(frame, 1, 16) = '{"role":"system"'))"""
)


@dataclass(frozen=True)
class Listed:
    """A conversation in `Store.conversations()`; `version` is its last, the times are UTC."""

    conversation: str | None
    uuid: str
    version: int
    title: str | None
    began: datetime
    changed: datetime
    parent: str | None = None
    forked_at: int | None = None


class Store:
    """A turnlog store in one SQLite file, made if it does not exist. It may be shared between threads.

    `durability` is `"full"` (an append is on the disk when it returns) or `"normal"` (it survives a crash of the
    process, and a power loss may take the last ones). `timeout` is how long, in seconds, a write waits for another
    process's.

    :raises StoreUnusable: the file is not a turnlog store; `NewerStore` if a newer turnlog wrote it.
    """

    def __init__(
        self,
        path: str | Path = "turnlog.db",
        *,
        durability: Durability = "full",
        read_only: bool = False,
        timeout: float = 30.0,
    ) -> None:
        self.db = Database(path, durability, read_only, timeout)

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self, type: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the store; closing it twice is nothing."""
        self.db.close()

    @property
    def path(self) -> str:
        """The file's path."""
        return self.db.path

    def conversation(self, name: str) -> Conversation:
        """A handle on the conversation of this name or uuid, which begins with its first event."""
        return Conversation(self, streams.checked_name(name))

    def append(
        self,
        conversation: str,
        events: Sequence[NewEvent | Mapping[str, Any]],
        *,
        expected: ExpectedVersion = ANY,
    ) -> Receipt:
        """Append a batch, all or nothing (DESIGN section 3). `conversation` is a name or uuid; a new name begins one.

        The same batch with the same ids again gives its first receipt, whatever `expected` says.

        :raises InvalidEvent: a field, a name or a batch is not allowed.
        :raises DuplicateEvent: some of its ids are taken, but not by this same batch.
        :raises VersionConflict: the conversation is not as `expected` says.
        :raises StoreBusy: the store stayed locked.
        """
        return append(self.db, conversation, events, expected)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Make several appends one: all or nothing. Other writers wait meanwhile.

        :raises StoreBusy: the store stayed locked.
        """
        with self.db.transaction():
            yield

    def restore(self, lines: Iterable[Exported], name: str | None = None) -> list[Restored]:
        """Put exported events back verbatim, all or nothing; those that are here already are compared.

        `name` names the conversation, else the export does. A fork's parent is restored up to where it forks.

        :raises RestoreRefused: an event was changed, does not follow the one before, or differs from the store's.
        :raises NameTaken: another conversation has the name.
        """
        with self.db.transaction():
            return restore(self.db, lines, name)

    def fork(self, conversation: str, at: int | None = None, name: str | None = None) -> Receipt:
        """Begin a conversation that shares another's events up to version `at` (its latest, if not given).

        It costs one event; later events on either side are never seen on the other, redactions of what both share
        aside. The receipt's `conversation` is the new uuid.

        :raises NotFound: there is no such conversation or version.
        :raises NameTaken: another conversation has the name.
        """
        return fork(self.db, conversation, at, name)

    def redact(
        self,
        conversation: str,
        versions: Sequence[int],
        *,
        reason: str,
        replacement: str | None = None,
        summaries: bool = False,
        dry_run: bool = False,
    ) -> Redacted:
        """Erase what the events of these versions said, for good and from every file; their frames stay verifiable.

        A version that a fork's parent owns is redacted there, and every fork shows it. The summaries that cover one
        are named, and with `summaries` redacted too; `dry_run` only tells what would go.

        :raises NotFound: there is no such conversation or version; nothing was erased.
        :raises InvalidEvent: the reason or the replacement is not text.
        """
        return redact(self.db, conversation, versions, reason, replacement, summaries, dry_run)

    def erase(self, conversation: str, *, reason: str = "erased", dry_run: bool = False) -> Redacted:
        """Erase all that a conversation says, its name included, and leave its chain; `dry_run` only tells.

        What a fork shares with its parent is the parent's, and stays.

        :raises NotFound: there is no such conversation.
        """
        return erase_conversation(self.db, conversation, reason, dry_run)

    def checkpoint(self, key: bytes | None = None) -> Checkpoint:
        """Where every conversation stands; kept elsewhere, it makes truncation, rollback and loss show in `verify`.

        With a `key` its root is an HMAC, which nobody without the key can make anew.
        """
        return checkpoint(self.db, key)

    def verify(
        self,
        against: Checkpoint | None = None,
        key: bytes | None = None,
        progress: Callable[[int, int], None] = lambda done, total: None,
    ) -> Verified:
        """Recompute every digest of the store; the first bad event of each conversation is named.

        Reads in pages, so that memory does not grow with the store. `progress` hears events done and in all.
        """
        return verify(self.db, self._own_events, against, key, progress)

    def rename(self, conversation: str, name: str | None) -> None:
        """Give a conversation another name, or none: its uuid stays.

        :raises NotFound: there is no such conversation.
        :raises NameTaken: another conversation has the name.
        """
        with self.db.transaction():
            streams.rename(self.db, conversation, name)

    def backup(self, target: str | Path, progress: Callable[[int, int], None] | None = None) -> None:
        """Copy the live store to a new file. `progress` hears the pages left and the pages in all.

        :raises StoreUnusable: the target exists or cannot be written.
        """
        self.db.backup(target, progress)

    def stream(self, conversation: str | Stream) -> Stream:
        """The identity of a conversation, by name or uuid; wherever one is asked for, this will do too.

        :raises NotFound: there is none.
        """
        return conversation if isinstance(conversation, Stream) else streams.get(self.db, conversation)

    def version(self, conversation: str | Stream) -> int:
        """The last version of a conversation.

        :raises NotFound: there is no such conversation.
        """
        return streams.head(self.db, self.stream(conversation)).version

    def version_at(self, conversation: str | Stream, time: datetime) -> int:
        """The last version recorded by an aware `time`; 0 if none was.

        :raises NotFound: there is no such conversation.
        """
        if time.tzinfo is None:
            raise InvalidEvent("time", time.isoformat(), "has no time zone")
        stream = self.stream(conversation)
        # recorded_at never falls within a conversation, so the versions can be searched by halves.
        versions = range(1, streams.head(self.db, stream).version + 1)
        return bisect_right(versions, microseconds_of(time), key=lambda version: self._recorded_at(stream, version))

    def scopes(self, conversation: str | Stream) -> list[str]:
        """The scopes that a conversation may use, the four and those that it describes, and any that it does use.

        :raises NotFound: there is no such conversation.
        """
        further = described_scopes(self.db, self.stream(conversation)).union(self.scopes_in_use(conversation))
        return [*SCOPES, *sorted(further - set(SCOPES))]

    def scopes_in_use(self, conversation: str | Stream) -> list[str]:
        """The scopes that a conversation has events in.

        :raises NotFound: there is no such conversation.
        """
        found: set[str] = set()
        for segment in self.stream(conversation).lineage:
            # From scope to scope by the index, instead of over every event.
            rows = self.db.rows(
                "WITH RECURSIVE used (scope) AS (SELECT min(scope) FROM events WHERE conversation = ?1"
                " UNION ALL SELECT (SELECT min(scope) FROM events WHERE conversation = ?1 AND scope > used.scope)"
                " FROM used WHERE used.scope IS NOT NULL)"
                " SELECT scope FROM used WHERE EXISTS"
                " (SELECT 1 FROM events WHERE conversation = ?1 AND scope = used.scope AND version <= ?2)",
                (segment.key, segment.last),
            )
            found.update(scope for (scope,) in rows)
        return sorted(found, key=lambda scope: (SCOPES.index(scope) if scope in SCOPES else len(SCOPES), scope))

    def events(
        self,
        conversation: str | Stream,
        first: int = 1,
        last: int | None = None,
        *,
        types: Collection[str] | None = None,
        scopes: Collection[str | None] | None = None,
        backwards: bool = False,
        page: int = _PAGE,
    ) -> Iterator[Event]:
        """The events of versions `first` to `last`, in order; None among `scopes` is for events that have none.

        They are read `page` rows at first and more at a time from then on, so that a few cost little.

        :raises NotFound: there is no such conversation.
        """
        stream = self.stream(conversation)
        upto = OPEN if last is None else last
        pieces = [segment.within(first, upto) for segment in stream.lineage]
        wanted, parameters = _filter(types, scopes)
        for piece in reversed(pieces) if backwards else pieces:
            yield from self._pages(piece, wanted, parameters, backwards, page)

    def shaping(self, conversation: str | Stream, last: int, scopes: Collection[str | None]) -> Iterator[Event]:
        """The events up to version `last` that change the shape of a view: all but plain messages.

        :raises NotFound: there is no such conversation.
        """
        wanted, parameters = _filter(None, scopes)
        for segment in self.stream(conversation).lineage:
            yield from self._pages(segment.within(1, last), f" AND {_SHAPING}{wanted}", parameters, False)

    def event(self, conversation: str | Stream, version: int) -> Event:
        """One event.

        :raises NotFound: there is no such conversation or version.
        """
        for event in self.events(conversation, version, version):
            return event
        raise NotFound("version", version)

    def redactions(self, conversation: str | Stream) -> Iterator[Event]:
        """The redactions of the versions that a conversation shows, those that its parents own included.

        :raises NotFound: there is no such conversation.
        """
        for segment in self.stream(conversation).lineage:
            everything = replace(segment, last=OPEN)
            # The same condition twice: the second lets SQLite use the index of events that are no messages.
            yield from self._pages(everything, " AND type = 'redaction' AND type <> 'message'", (), False)

    def follow(self, after: int = 0, conversation: str | None = None) -> Iterator[Event]:
        """The events of the whole store after a position, in the order of positions, up to the present.

        Keep the last event's position and ask again: no event with a lower one ever appears.

        :raises NotFound: there is no such conversation.
        """
        only = None if conversation is None else self.stream(conversation).key
        # The plus keeps SQLite to the order of positions: there are few after the last one that was seen.
        condition = "" if only is None else " AND +events.conversation = ?"
        while True:
            rows = self.db.rows(
                f"SELECT conversations.uuid, {_COLUMNS} FROM events"
                " JOIN conversations ON conversations.key = events.conversation"
                f" WHERE events.position > ?{condition} ORDER BY events.position LIMIT {_PAGE}",
                (min(after, OPEN),) if only is None else (min(after, OPEN), only),
            )
            yield from (_event(*row) for row in rows)
            if len(rows) < _PAGE:
                return
            after = rows[-1][1]

    def conversations(self) -> list[Listed]:
        """All conversations in the order in which they began."""
        rows = self.db.rows(
            "SELECT conversations.uuid, conversations.name, parent.uuid, conversations.forked_at,"
            " last.version, last.recorded_at, first.recorded_at,"
            " (SELECT json_extract(described.body, '$.title') FROM events AS described"
            "   WHERE described.conversation = conversations.key AND described.type = 'describe'"
            "   AND json_valid(described.body)"
            "   AND described.type <> 'message' AND json_type(described.body, '$.title') IS NOT NULL"
            "   ORDER BY described.version DESC LIMIT 1)"
            " FROM conversations"
            " LEFT JOIN conversations AS parent ON parent.key = conversations.parent"
            " JOIN events AS last ON last.conversation = conversations.key AND last.version ="
            "   (SELECT max(version) FROM events WHERE conversation = conversations.key)"
            " JOIN events AS first ON first.conversation = conversations.key AND first.version ="
            "   (SELECT min(version) FROM events WHERE conversation = conversations.key)"
            " ORDER BY conversations.key"
        )
        return [
            Listed(name, identity, version, title, time_of(began), time_of(changed), parent, forked_at)
            for identity, name, parent, forked_at, version, changed, began, title in rows
        ]

    def _own_events(self, stream: Stream) -> Iterator[Event]:
        return self._pages(replace(stream.lineage[-1], first=1), "", (), False)

    def _recorded_at(self, stream: Stream, version: int) -> int:
        segment = next(segment for segment in stream.lineage if segment.first <= version <= segment.last)
        row = self.db.row(
            "SELECT recorded_at FROM events WHERE conversation = ? AND version <= ? ORDER BY version DESC LIMIT 1",
            (segment.key, version),
        )
        return 0 if row is None else int(row[0])

    def _pages(
        self, piece: Segment, wanted: str, parameters: tuple[Any, ...], backwards: bool, page: int = _PAGE
    ) -> Iterator[Event]:
        # Pages of their own instead of one long cursor: events never change, so nothing is missed between two,
        # and no open read keeps the WAL from being checkpointed.
        first, last = piece.first, piece.last
        order = "DESC" if backwards else "ASC"
        while first <= last:
            rows = self.db.rows(
                f"SELECT {_COLUMNS} FROM events WHERE conversation = ? AND version BETWEEN ? AND ?{wanted}"
                f" ORDER BY version {order} LIMIT ?",
                (piece.key, first, last, *parameters, page),
            )
            yield from (_event(piece.uuid, *row) for row in rows)
            if len(rows) < page:
                return
            page = min(4 * page, _PAGE)
            if backwards:
                last = rows[-1][1] - 1
            else:
                first = rows[-1][1] + 1


def _event(conversation: str, position: int, *rest: Any) -> Event:
    return Event(position, conversation, *rest)


def _filter(types: Collection[str] | None, scopes: Collection[str | None] | None) -> tuple[str, tuple[Any, ...]]:
    conditions, parameters = "", []
    if types is not None:
        conditions += f" AND type IN ({', '.join('?' * len(types))})"
        parameters += list(types)
    if scopes is not None:
        named = [scope for scope in scopes if scope is not None]
        conditions += f" AND (scope IN ({', '.join('?' * len(named))})"
        conditions += " OR scope IS NULL)" if None in scopes else ")"
        parameters += named
    return conditions, tuple(parameters)
