"""Reading the log: conversations, their events by version or by position, and what a view needs of them."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from itertools import starmap
from typing import Any

from . import streams, times
from .append import described_scopes
from .arguments import microseconds, whole_number, whole_numbers
from .chain import time_of
from .codec import Event, Source
from .database import Database
from .errors import NotFound
from .events import SCOPES, Frame, RewindFrame, read_frame
from .selection import conditions, pieces
from .streams import OPEN, Segment, Stream
from .times import Clock

_ROW = "events.version, events.type, events.v, events.scope, events.frame, events.body"
_EVENT = (
    f"{_ROW}, events.position, events.id, events.recorded_at, events.occurred_at, events.salt, events.body_digest,"
    " events.digest"
)
_PAGE = 1000


@dataclass(frozen=True)
class Listed:
    """A conversation in `Store.conversations()`; `version` is its last.

    `began` and `changed` are the times (UTC) of its first and its last event. Where rows are damaged they are None, and
    the version is 0.
    """

    conversation: str | None
    uuid: str
    version: int
    title: str | None
    began: datetime | None
    changed: datetime | None
    parent: str | None = None
    forked_at: int | None = None


class Reader:
    """What can be read of a store; wherever a conversation is asked for, its name, its uuid or its stream will do."""

    db: Database

    def erasure_due(self) -> str | None:
        """Return where copies of what was redacted may be left and who holds that up, in one line; None if nowhere."""
        return self.db.erasure.told()

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

    def version_at(self, conversation: str | Stream, time: datetime, *, clock: Clock = "event") -> int:
        """Return the version before the first event whose time is after an aware `time`; 0 if that is the first.

        The time of an event is its `occurred_at`, else its `recorded_at`; with the clock `recorded` always the latter.

        :raises NotFound: there is no such conversation.
        :raises InvalidArgument: the time has no time zone, or the clock is unknown.
        """
        return times.version_at(self.db, self.stream(conversation), microseconds("time", time), clock)

    def times_not_in_order(self, conversation: str | Stream, scopes: Collection[str | None]) -> list[int]:
        """Return the versions of the events of `scopes` whose time is before that of an earlier event of `scopes`.

        None among `scopes` is for events that have none. Where no writer gave a time nothing is read for it.

        :raises NotFound: there is no such conversation.
        """
        wanted, parameters = conditions(None, scopes)
        return times.not_in_order(self.db, self.stream(conversation), wanted, parameters)

    def described_scopes(self, conversation: str | Stream) -> set[str]:
        """The scopes beside the four that a conversation's `describe` events list.

        :raises NotFound: there is no such conversation.
        """
        return described_scopes(self.db, self.stream(conversation))

    def scopes(self, conversation: str | Stream) -> list[str]:
        """The scopes that a conversation may use, the four and those that it describes, and any that it does use.

        :raises NotFound: there is no such conversation.
        """
        further = self.described_scopes(conversation).union(self.scopes_in_use(conversation))
        return [*SCOPES, *sorted(further - set(SCOPES))]

    def scopes_in_use(self, conversation: str | Stream) -> list[str]:
        """The scopes that a conversation has events in.

        :raises NotFound: there is no such conversation.
        """
        found: set[str] = set()
        for segment in self.stream(conversation).lineage:
            rows = self.db.rows(
                "SELECT DISTINCT scope FROM events WHERE conversation = ? AND version <= ? AND scope IS NOT NULL",
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
        wanted, parameters = conditions(types, scopes)
        page = min(whole_number("page", page, 1, "a number of rows"), OPEN)
        for segment in pieces(self.stream(conversation), first, last, backwards):
            yield from self._events(segment, wanted, parameters, backwards, page)

    def frames(
        self,
        conversation: str | Stream,
        first: int,
        last: int,
        scopes: Collection[str | None] | None,
        page: int = _PAGE,
    ) -> Iterator[tuple[int, str, int, str | None, str]]:
        """Return version, type, form, scope and frame of the events of versions `first` to `last`, in order.

        :raises NotFound: there is no such conversation.
        """
        wanted, parameters = conditions(None, scopes)
        page = min(whole_number("page", page, 1, "a number of rows"), OPEN)
        for segment in pieces(self.stream(conversation), first, last, False):
            for rows in self._pages("version, type, v, scope, frame", segment, wanted, parameters, False, page):
                yield from rows

    def structural(
        self, conversation: str | Stream, types: Collection[str], scopes: Collection[str | None], last: int = OPEN
    ) -> Iterator[tuple[int, Frame]]:
        """Return version and frame of the events of some types, none of them messages, in order.

        :raises NotFound: there is no such conversation.
        """
        wanted, parameters = conditions(types, scopes)
        for segment in pieces(self.stream(conversation), 1, last, False):
            rows = self.db.rows(
                "SELECT version, type, v, scope, frame FROM events WHERE conversation = ? AND type <> 'message'"
                f" AND version BETWEEN ? AND ?{wanted} ORDER BY version",
                (segment.key, segment.first, segment.last, *parameters),
            )
            for version, type_, v, scope, text in rows:
                frame = read_frame(type_, v, version, scope, text)
                if frame is not None:
                    yield version, frame

    def rewinds(self, conversation: str | Stream, last: int) -> Iterator[tuple[int, RewindFrame, str | None]]:
        """Return version, frame and scope of the rewinds up to version `last`, in order.

        :raises NotFound: there is no such conversation.
        """
        for segment in pieces(self.stream(conversation), 1, last, False):
            rows = self.db.rows(
                "SELECT version, type, v, scope, frame FROM events WHERE conversation = ? AND type <> 'message'"
                " AND type = 'rewind' AND version BETWEEN ? AND ? ORDER BY version",
                (segment.key, segment.first, segment.last),
            )
            for version, type_, v, scope, text in rows:
                frame = read_frame(type_, v, version, scope, text)
                if isinstance(frame, RewindFrame):
                    yield version, frame, scope

    def sources(self, conversation: str | Stream, versions: Collection[int]) -> Iterator[Source]:
        """Return the events of these versions, as what shows their text needs them.

        :raises NotFound: there is no such conversation.
        """
        columns = f"{_ROW}, events.digest"
        for segment, found in self._of_versions(columns, self.stream(conversation), versions):
            yield from starmap(partial(Source, segment.uuid), found)

    def digests(self, conversation: str | Stream, versions: Collection[int]) -> dict[int, bytes]:
        """The digests of the events of these versions.

        :raises NotFound: there is no such conversation.
        """
        found = self._of_versions("version, digest", self.stream(conversation), versions)
        return {version: digest for _, rows in found for version, digest in rows}

    def event(self, conversation: str | Stream, version: int) -> Event:
        """One event.

        :raises NotFound: there is no such conversation or version.
        :raises InvalidArgument: the version is not a whole number.
        """
        whole_number("version", version, what="a version")
        for event in self.events(conversation, version, version):
            return event
        raise NotFound("version", version)

    def redactions(self, conversation: str | Stream) -> Iterator[Event]:
        """The redactions of the versions that a conversation shows, those that its parents own included.

        :raises NotFound: there is no such conversation.
        """
        for segment in self.stream(conversation).lineage:
            # The same condition twice: the second lets SQLite use the index of events that are no messages.
            rows = self.db.rows(
                f"SELECT {_EVENT} FROM events WHERE conversation = ? AND type = 'redaction' AND type <> 'message'"
                " AND version >= ? ORDER BY version",
                (segment.key, segment.first),
            )
            yield from starmap(partial(Event, segment.uuid), rows)

    def redaction_count(self, conversation: str | Stream) -> int:
        """Return how many redactions `redactions` returns; it grows whenever a text that a view shows may change.

        :raises NotFound: there is no such conversation.
        """
        count = 0
        for segment in self.stream(conversation).lineage:
            row = self.db.row(
                "SELECT count(*) FROM events WHERE conversation = ? AND type = 'redaction' AND type <> 'message'"
                " AND version >= ?",
                (segment.key, segment.first),
            )
            count += 0 if row is None else int(row[0])
        return count

    def follow(self, after: int = 0, conversation: str | None = None) -> Iterator[Event]:
        """The events of the whole store after a position, in the order of positions, up to the present.

        Keep the last event's position and ask again: no event with a lower one ever appears.

        :raises NotFound: there is no such conversation.
        :raises InvalidArgument: `after` is not a position.
        """
        after = max(-1, min(whole_number("after", after, what="a position"), OPEN))
        only = None if conversation is None else self.stream(conversation).key
        # The plus keeps SQLite to the order of positions: there are few after the last one that was seen.
        condition = "" if only is None else " AND +events.conversation = ?"
        while True:
            rows = self.db.rows(
                f"SELECT conversations.uuid, {_EVENT} FROM events"
                " JOIN conversations ON conversations.key = events.conversation"
                f" WHERE events.position > ?{condition} ORDER BY events.position LIMIT {_PAGE}",
                (after,) if only is None else (after, only),
            )
            yield from starmap(Event, rows)
            if len(rows) < _PAGE:
                return
            after = max(after + 1, rows[-1][7])

    def position(self) -> int:
        """The position of the store's last event; 0 if there is none."""
        row = self.db.row("SELECT max(position) FROM events")
        return 0 if row is None or row[0] is None else int(row[0])

    def conversations(self) -> list[Listed]:
        """All conversations in the order in which they began; what is damaged of one hides no other."""
        rows = self.db.rows(
            "SELECT conversations.uuid, conversations.name, parent.uuid, conversations.forked_at,"
            " last.version, coalesce(last.occurred_at, last.recorded_at),"
            " coalesce(first.occurred_at, first.recorded_at),"
            " (SELECT json_extract(described.body, '$.title') FROM events AS described"
            "   WHERE described.conversation = conversations.key AND described.type = 'describe'"
            "   AND json_valid(described.body)"
            "   AND described.type <> 'message' AND json_type(described.body, '$.title') = 'text'"
            "   ORDER BY described.version DESC LIMIT 1)"
            " FROM conversations"
            " LEFT JOIN conversations AS parent ON parent.key = conversations.parent"
            " LEFT JOIN events AS last ON last.conversation = conversations.key AND last.version ="
            "   (SELECT max(version) FROM events WHERE conversation = conversations.key)"
            " LEFT JOIN events AS first ON first.conversation = conversations.key AND first.version ="
            "   (SELECT min(version) FROM events WHERE conversation = conversations.key)"
            " ORDER BY conversations.key"
        )
        return [
            Listed(
                name if isinstance(name, str) else None,
                str(identity),
                version if isinstance(version, int) else 0,
                title if isinstance(title, str) else None,
                _time_of(began),
                _time_of(changed),
                parent if isinstance(parent, str) else None,
                forked_at if isinstance(forked_at, int) else None,
            )
            for identity, name, parent, forked_at, version, changed, began, title in rows
        ]

    def _events(
        self,
        segment: Segment,
        wanted: str = "",
        parameters: tuple[Any, ...] = (),
        backwards: bool = False,
        page: int = _PAGE,
    ) -> Iterator[Event]:
        for rows in self._pages(_EVENT, segment, wanted, parameters, backwards, page):
            yield from starmap(partial(Event, segment.uuid), rows)

    def _pages(
        self,
        columns: str,
        segment: Segment,
        wanted: str,
        parameters: tuple[Any, ...],
        backwards: bool,
        page: int,
    ) -> Iterator[list[tuple[Any, ...]]]:
        # Pages of their own instead of one long cursor: events never change, so nothing is missed between two,
        # and no open read keeps the WAL from being checkpointed.
        first, last = segment.first, segment.last
        query = (
            f"SELECT {columns} FROM events WHERE conversation = ? AND version BETWEEN ? AND ?{wanted}"
            f" ORDER BY version {'DESC' if backwards else 'ASC'} LIMIT ?"
        )
        while first <= last:
            rows = self.db.rows(query, (segment.key, first, last, *parameters, page))
            yield rows
            if len(rows) < page:
                return
            page = min(4 * page, _PAGE)
            # Rows of a damaged index may be in another order; without the bound they could be read for ever.
            if backwards:
                last = min(last, rows[-1][0]) - 1
            else:
                first = max(first, rows[-1][0]) + 1

    def _of_versions(
        self, columns: str, stream: Stream, versions: Collection[int]
    ) -> Iterator[tuple[Segment, list[tuple[Any, ...]]]]:
        query = f"SELECT {columns} FROM events WHERE conversation = ? AND version IN (SELECT value FROM json_each(?))"
        whole_numbers("versions", versions, "a version")
        for segment in stream.lineage:
            own = [version for version in versions if segment.first <= version <= segment.last]
            if own:
                yield segment, self.db.rows(query, (segment.key, str(own)))


def _time_of(microseconds: object) -> datetime | None:
    """Return a time of a row; None if it is damaged."""
    try:
        return time_of(microseconds) if isinstance(microseconds, int) else None
    except OverflowError:
        return None
