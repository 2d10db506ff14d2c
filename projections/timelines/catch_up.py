"""Catch timelines up with the log: in the store's file where that can be written, else in memory."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import NamedTuple, TypeVar

import msgspec

from turnlog.store import Event, Store, StoreBusy, StoreUnusable
from turnlog.store.derived_tables import discard_damaged, is_damage
from turnlog.store.events import Frame, MessageFrame, Mode, RewindFrame, TransferFrame, read_frame
from turnlog.store.searching import is_unwritable
from turnlog.store.spans import LineRow, Spans, TimelineKey
from turnlog.store.streams import Stream

from .frames import SHARED, Frames, Paths
from .modes import WhatIf
from .rules import apply
from .tip import Tip

T = TypeVar("T")
RULES = 2  # The revision of the rules, raised when a change gives any log another view.
STEP = 0.01  # Seconds for which a step of catching up holds the write lock.
PATIENCE = 0.1  # Seconds to wait for the write lock before going on in memory.
MAX_IN_MEMORY = 16  # Timelines kept in memory; of more, the one that was used longest ago goes.
_PAGE = 1000
_FIRST_PAGE = 128  # Frames read at first in a step, which may end long before all of a full page are applied.


class Line(NamedTuple):
    """Where the rows of a timeline are, and its number there."""

    rows: Spans
    line: int

    @property
    def is_stored(self) -> bool:
        """Return whether the rows are in the store's file, not in memory."""
        return self.rows.schema == "main"


class Lines:
    """The timelines of a store that have been used by this connection."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._file = Spans(store.db, "main")
        self._memory = Spans(store.db, "temp")
        self._tips: dict[tuple[str, int], Tip] = {}
        self._scanned: dict[TimelineKey, int] = {}
        self._used: dict[TimelineKey, None] = {}

    @classmethod
    def of(cls, store: Store) -> Lines:
        """Return those of a store."""
        lines = store.db.derived.get("lines")
        if not isinstance(lines, Lines):
            lines = store.db.derived["lines"] = cls(store)
        return lines

    def ready(self, stream: Stream, scope: str, what_if: WhatIf, version: int) -> Line:
        """Return a timeline that is caught up to a version at least.

        :raises StoreUnusable: the store is closed.
        """
        key = TimelineKey(stream.key, scope, what_if.key, RULES)
        if key.what_if:
            if self._first_changed(stream, scope, what_if, version) is None:
                return self.ready(stream, scope, WhatIf(), version)
            return self._in_memory(key, stream, what_if, version)
        found = self._found(self._file, key)
        if found is not None and self._reached(self._file, key, found) >= version:
            return Line(self._file, found.line)
        for _ in range(0 if self._store.db.read_only else 2):
            try:
                return self._in_file(key, stream, version)
            except (StoreBusy, StoreUnusable):
                # What was remembered of rows may not have come to be written.
                self.forget()
                break
            except (sqlite3.DatabaseError, msgspec.MsgspecError, LookupError) as error:
                if isinstance(error, sqlite3.DatabaseError) and is_unwritable(error):
                    self.forget()
                    break
                self.mend()
        return self._in_memory(key, stream, what_if, version)

    def known(self, stream: Stream, scope: str, what_if: WhatIf, version: int) -> Line | None:
        """Return a timeline of the file if it needs no catching up to a version, inside a snapshot."""
        if what_if.key:
            return None
        key = TimelineKey(stream.key, scope, "", RULES)
        found = self._store.db.recall(key, lambda: self._found(self._file, key))
        if found is None or self._reached(self._file, key, found) < version:
            return None
        return Line(self._file, found.line)

    def audited(self, stream: Stream, scope: str, what_if: WhatIf, version: int, secret: bytes | None = None) -> Line:
        """Return a timeline that is built in memory from the log alone, whatever is stored, with a secret if given."""
        key = TimelineKey(stream.key, scope, f"audit {what_if.key} {secret.hex() if secret else ''}", RULES)
        return self._in_memory(key, stream, what_if, version, secret)

    def drop(self, line: Line) -> None:
        """Drop a timeline in memory."""
        self._tips.pop((line.rows.schema, line.line), None)
        self._store.db.derive(lambda: line.rows.drop(line.line), None)

    def tried(
        self,
        stream: Stream,
        scope: str,
        what_if: WhatIf,
        version: int,
        mode: Mode,
        question: Callable[[Line], T],
        audit: bool = False,
    ) -> T:
        """Return what a question gives that is asked of a timeline on which the transfer of `version` has a mode.

        For an `audit` it is built from the log alone.
        The rows are in memory, and without that transfer again when this returns; it costs least in the order of the
        log, when they only go on.
        """
        key = TimelineKey(stream.key, scope, f"{'audit ' if audit else ''}tried {what_if.key}", RULES)
        found = self._found(self._memory, key)
        if found is not None and found.version >= version:
            self.drop(Line(self._memory, found.line))
        at = self._memory.schema, self._in_memory(key, stream, what_if, version - 1).line
        changed = WhatIf(what_if.mode, {**what_if.modes, version: mode})

        def step() -> T:
            found = self._memory.find(key)
            assert found is not None
            tip = self._tips.pop(at, None)
            if tip is not None:
                self._tips[at] = tip.copy()
            self._store.db.write("SAVEPOINT tried")
            self._advance(self._memory, found, key, stream, changed, version, None)
            answer = question(Line(self._memory, found.line))
            self._store.db.write("ROLLBACK TO tried")
            self._store.db.write("RELEASE tried")
            del self._tips[at]
            if tip is not None:
                self._tips[at] = tip
            return answer

        return self._store.db.derive(step, None)

    def mend(self) -> None:
        """Drop every timeline, because rows of one are missing or damaged, if the store's file can be written."""
        self.forget()
        db = self._store.db
        try:
            db.derive(self._file.create, PATIENCE)
        except (StoreBusy, StoreUnusable):
            pass
        except sqlite3.DatabaseError as error:
            if is_damage(error) and not db.in_transaction:
                # Not even dropped can be what has damaged pages.
                with suppress(sqlite3.DatabaseError, StoreUnusable), db.alone() as connection:
                    discard_damaged(connection)
        with suppress(sqlite3.DatabaseError):
            db.derive(self._memory.create, None)

    def forget(self) -> None:
        """Forget what is remembered of rows, which may have been undone or dropped."""
        self._tips.clear()
        self._scanned.clear()

    def _found(self, rows: Spans, key: TimelineKey) -> LineRow | None:
        try:
            return rows.find(key)
        except sqlite3.DatabaseError:
            return None

    def _reached(self, rows: Spans, key: TimelineKey, found: LineRow) -> int:
        """Return the version up to which a timeline has all there is: events of other scopes are not always noted."""
        return max(found.version, self._scanned.get(key, 0)) if rows is self._file else found.version

    def _in_file(self, key: TimelineKey, stream: Stream, version: int) -> Line:
        found: list[LineRow] = []

        def step() -> bool:
            line = self._current(self._file, key, stream, version)
            if line is None:
                self.forget()
                line = self._begin(self._file, key, stream, WhatIf(), version)
            found[:] = [line]
            return self._advance(self._file, line, key, stream, WhatIf(), version, STEP)

        while not self._store.db.derive(step, PATIENCE):
            pass
        return Line(self._file, found[0].line)

    def _in_memory(
        self, key: TimelineKey, stream: Stream, what_if: WhatIf, version: int, secret: bytes | None = None
    ) -> Line:
        found = self._found(self._memory, key)
        if found is not None and version <= found.version <= self._store.version(stream):
            self._use(key)
            return Line(self._memory, found.line)

        def step() -> Line:
            line = self._current(self._memory, key, stream, version)
            if line is None:
                line = self._begin(self._memory, key, stream, what_if, version, secret)
            self._use(key)
            self._make_room()
            self._advance(self._memory, line, key, stream, what_if, version, None)
            return Line(self._memory, line.line)

        return self._store.db.derive(step, None)

    def _current(self, rows: Spans, key: TimelineKey, stream: Stream, version: int) -> LineRow | None:
        """Return a timeline that is there, unless it is of a log that has been undone; make the tables if need be."""
        try:
            found = rows.find(key)
        except sqlite3.OperationalError as error:
            if "no such" not in str(error):
                raise
            rows.create()
            self.forget()
            return None
        if found is not None and found.version > version and found.version > self._store.version(stream):
            rows.drop(found.line)
            return None
        return found

    def _use(self, key: TimelineKey) -> None:
        """Note that a timeline in memory was used just now."""
        self._used.pop(key, None)
        self._used[key] = None

    def _make_room(self) -> None:
        """Drop the timelines in memory that were used longest ago, those that nobody remembers first."""
        lines = dict(self._memory.lines())
        self._used = {key: None for key in self._used if key in lines}
        order = [*(lines.keys() - self._used.keys()), *self._used]
        for old in order[:-MAX_IN_MEMORY]:
            self._used.pop(old, None)
            self._tips.pop(("temp", lines[old].line), None)
            self._memory.drop(lines[old].line)

    def _begin(
        self,
        rows: Spans,
        key: TimelineKey,
        stream: Stream,
        what_if: WhatIf,
        version: int,
        secret: bytes | None = None,
    ) -> LineRow:
        """Add a timeline: as a copy of what it shares with another that is there, or empty."""
        source, at, origin = self._source(rows, key, stream, what_if, version)
        if source is None or at == 0:
            return rows.add(key, stream, secret)
        made = rows.copy(origin, source, key, stream, at)
        paths = Paths(self._store, stream, key.scope, at)
        rows.open_copied(made.line, paths.own.ranges, paths.shared.ranges)
        rows.set_path(made.line, paths.own.ranges)
        return made

    def _source(
        self, rows: Spans, key: TimelineKey, stream: Stream, what_if: WhatIf, version: int
    ) -> tuple[LineRow | None, int, Spans]:
        at = version
        if key.what_if.startswith("audit"):
            return None, 0, rows
        if key.what_if:
            at = (self._first_changed(stream, key.scope, what_if, at) or at + 1) - 1
            if at <= 0:
                return None, 0, rows
            base = self.ready(stream, key.scope, WhatIf(), at)
            plain = TimelineKey(key.conversation, key.scope, "", key.rules)
            return base.rows.find(plain), at, base.rows
        if rows is self._memory:
            found = self._found(self._file, key)
            if found is not None and found.version <= self._store.version(stream):
                return found, min(found.version, version), self._file
        if len(stream.lineage) > 1 and (fork := stream.lineage[-1].first - 1) > 0:
            above = self._store.stream(stream.lineage[-2].uuid)
            known = TimelineKey(above.key, key.scope, "", key.rules)
            if rows is self._memory:
                line = self.ready(above, key.scope, WhatIf(), fork)
                return line.rows.find(known), fork, line.rows
            found = rows.find(known) or self._begin(rows, known, above, WhatIf(), fork)
            self._advance(rows, found, known, above, WhatIf(), fork, None)
            return rows.find(known), fork, rows
        return None, 0, rows

    def _first_changed(self, stream: Stream, scope: str, what_if: WhatIf, last: int) -> int | None:
        """Return the version of the first transfer up to `last` that a what-if changes, or None."""
        if what_if.mode is None:
            versions = [version for version in sorted(what_if.modes) if 0 < version <= last]
            found = (row for version in versions for row in self._store.frames(stream, version, version, {scope}, 1))
            frames: Iterator[tuple[int, Frame | None]] = (
                (number, read_frame(type_, v, number, scope_, text)) for number, type_, v, scope_, text in found
            )
        else:
            frames = iter(self._store.structural(stream, ("transfer",), {scope}, last))
        for version, frame in frames:
            if isinstance(frame, TransferFrame) and what_if.of(version, frame) != WhatIf().of(version, frame):
                return version
        return None

    def _advance(
        self,
        rows: Spans,
        found: LineRow,
        key: TimelineKey,
        stream: Stream,
        what_if: WhatIf,
        version: int,
        step: float | None,
    ) -> bool:
        """Apply events up to a version, for `step` seconds at most; return whether that was all."""
        began = self._reached(rows, key, found)
        if began >= version:
            return True
        scope = key.scope
        tip = self._tips.get((rows.schema, found.line))
        if tip is None or tip.version != found.version:
            paths = Paths(self._store, stream, scope, found.version)
            tip = Tip(rows, found, scope == SHARED, Frames(self._store, stream), paths)
            self._tips[rows.schema, found.line] = tip
        deadline = None if step is None else time.monotonic() + step
        applied = False
        page = min(version - began, _FIRST_PAGE)
        try:
            for number, type_, v, event_scope, text in self._store.frames(
                stream, began + 1, version, {scope, SHARED, None}, page
            ):
                frame = read_frame(type_, v, number, event_scope, text)
                if frame is None:
                    if not type_.startswith("x:"):
                        tip.note(number, "unknown-event")
                        applied = True
                    continue
                if not isinstance(frame, MessageFrame) or frame.tool_calls or frame.role == "tool":
                    # Nobody asks for the frames of other messages again.
                    tip.frames.keep(number, frame, event_scope)
                shared = None if event_scope is None else event_scope == SHARED
                if event_scope is not None or isinstance(frame, RewindFrame):
                    apply(tip, number, shared, frame, what_if)
                    applied = True
                if deadline is not None and time.monotonic() > deadline:
                    tip.write_rest(number)
                    return number >= version
                if number % _PAGE == 0:
                    tip.write_plain()  # What waits to be written must not grow with the log.
            if applied or version - tip.version >= _PAGE or rows is self._memory:
                tip.write_rest(version)
            else:
                self._scanned[key] = version
        except BaseException:
            self.forget()
            raise
        return True


def path_of(store: Store, conversation: str, scope: str) -> list[Event]:
    """Return the events on a scope's path now: those that no rewind has abandoned.

    :raises NotFound: there is no such conversation.
    """
    stream = store.stream(conversation)
    path = Paths(store, stream, scope, store.version(stream))
    on_path = path.shared if scope == SHARED else path.own
    return [
        event for event in store.events(stream, scopes={scope}) if event.type != "rewind" and on_path.has(event.version)
    ]
