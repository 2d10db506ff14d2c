"""Catch timelines up with the log: in the store's file where that can be written, else in memory."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple

import msgspec

from turnlog.store import Event, Store, StoreBusy, StoreUnusable
from turnlog.store.events import Frame, RewindFrame, TransferFrame, read_frame
from turnlog.store.searching import is_unwritable
from turnlog.store.spans import LineRow, Spans, TimelineKey
from turnlog.store.streams import Stream

from .modes import WhatIf
from .path import Path
from .rules import apply
from .tip import Tip

RULES = 2  # The revision of the rules, raised when a change gives any log another view.
SHARED = "shared_memory"
STEP = 0.01  # Seconds for which a step of catching up holds the write lock.
PATIENCE = 0.1  # Seconds to wait for the write lock before going on in memory.
MAX_IN_MEMORY = 16  # Timelines kept in memory; of more, the one that was used longest ago goes.
_PAGE = 1000
MAX_FRAMES = 20_000


class Line(NamedTuple):
    """Where the rows of a timeline are, and its number there."""

    rows: Spans
    line: int

    @property
    def is_stored(self) -> bool:
        """Return whether the rows are in the store's file, not in memory."""
        return self.rows.schema == "main"


class Frames:
    """The frames of a conversation's events by version, and which of them are of shared memory, read when asked for."""

    def __init__(self, store: Store, stream: Stream) -> None:
        self._store = store
        self._stream = stream
        self._kept: dict[int, tuple[Frame | None, str | None]] = {}

    def __getitem__(self, version: int) -> Frame | None:
        return self._read(version)[0]

    def is_shared(self, version: int) -> bool:
        """Return whether an event is of shared memory."""
        return self._read(version)[1] == SHARED

    def keep(self, version: int, frame: Frame | None, scope: str | None) -> None:
        """Keep a frame that has been read, and not too many."""
        if len(self._kept) >= MAX_FRAMES:
            self._kept.clear()
        self._kept[version] = frame, scope

    def _read(self, version: int) -> tuple[Frame | None, str | None]:
        if version not in self._kept:
            found: tuple[Frame | None, str | None] = (None, None)
            for type_, v, number, scope, text in self._store.frames(self._stream, version, version, None, 1):
                found = read_frame(type_, v, number, scope, text), scope
            self.keep(version, *found)
        return self._kept[version]


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
        if found is not None and max(found.version, self._scanned.get(key, 0)) >= version:
            return Line(self._file, found.line)
        for _ in range(0 if self._store.db.read_only else 2):
            try:
                return self._in_file(key, stream, version)
            except (StoreBusy, StoreUnusable):
                break
            except (sqlite3.DatabaseError, msgspec.MsgspecError, LookupError) as error:
                if isinstance(error, sqlite3.DatabaseError) and is_unwritable(error):
                    break
                self.mend()
        self.forget()
        return self._in_memory(key, stream, what_if, version)

    def audited(self, stream: Stream, scope: str, what_if: WhatIf, version: int, secret: bytes | None = None) -> Line:
        """Return a timeline that is built in memory from the log alone, whatever is stored, with a secret if given."""
        key = TimelineKey(stream.key, scope, f"audit {what_if.key} {secret.hex() if secret else ''}", RULES)
        return self._in_memory(key, stream, what_if, version, secret)

    def mend(self) -> None:
        """Drop every timeline, because rows of one are missing or damaged, if the store's file can be written."""
        self.forget()
        with suppress(sqlite3.DatabaseError, StoreBusy, StoreUnusable):
            self._store.db.derive(self._file.create, PATIENCE)
        with suppress(sqlite3.DatabaseError):
            self._store.db.derive(self._memory.create, None)
        self._used.clear()

    def forget(self) -> None:
        """Forget what is remembered of rows, which may have been undone or dropped."""
        self._tips.clear()
        self._scanned.clear()

    def _found(self, rows: Spans, key: TimelineKey) -> LineRow | None:
        try:
            return rows.find(key)
        except sqlite3.OperationalError:
            return None

    def _in_file(self, key: TimelineKey, stream: Stream, version: int) -> Line:
        found: list[LineRow] = []

        def step() -> bool:
            if not self._file.exists():
                self._file.create()
                self.forget()
            line = self._current(self._file, key, stream)
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
        def step() -> Line:
            if not self._memory.exists():
                self._memory.create()
                self._used.clear()
            line = self._current(self._memory, key, stream)
            if line is None:
                line = self._begin(self._memory, key, stream, what_if, version, secret)
            self._make_room(key)
            self._advance(self._memory, line, key, stream, what_if, version, None)
            return Line(self._memory, line.line)

        return self._store.db.derive(step, None)

    def _current(self, rows: Spans, key: TimelineKey, stream: Stream) -> LineRow | None:
        """Return a timeline that is there, unless it is of a log that has been undone."""
        found = rows.find(key)
        if found is not None and found.version > self._store.version(stream):
            rows.drop(found.line)
            return None
        return found

    def _make_room(self, key: TimelineKey) -> None:
        """Drop the timelines in memory that were used longest ago."""
        self._used.pop(key, None)
        self._used[key] = None
        for old in list(self._used)[:-MAX_IN_MEMORY]:
            del self._used[old]
            gone = self._memory.find(old)
            if gone is not None:
                self._tips.pop(("temp", gone.line), None)
                self._memory.drop(gone.line)

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
        own, shared = self._paths(stream, key.scope, at)
        rows.open_copied(made.line, own, shared)
        rows.set_path(made.line, own)
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
            frames: Iterator[tuple[int, Frame | None]] = ((row[2], read_frame(*row)) for row in found)
        else:
            frames = iter(self._store.structural(stream, ("transfer",), {scope}, last))
        for version, frame in frames:
            if isinstance(frame, TransferFrame) and what_if.of(version, frame) != WhatIf().of(version, frame):
                return version
        return None

    def _paths(self, stream: Stream, scope: str, at: int) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
        tip = Paths(self._store, stream, scope, at)
        return tip.own.ranges, tip.shared.ranges

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
        if max(found.version, self._scanned.get(key, 0) if rows is self._file else 0) >= version:
            return True
        scope = key.scope
        tip = self._tips.get((rows.schema, found.line))
        if tip is None or tip.version != found.version:
            frames = Frames(self._store, stream)
            tip = Tip(rows, found, scope == SHARED, frames)
            paths = Paths(self._store, stream, scope, found.version)
            tip.own, tip.shared = paths.own, paths.shared
            self._tips[rows.schema, found.line] = tip
        deadline = None if step is None else time.monotonic() + step
        began, applied = tip.version, False
        page = 1 if version - began == 1 else _PAGE
        try:
            for type_, v, number, event_scope, text in self._store.frames(
                stream, max(tip.version, self._scanned.get(key, 0)) + 1, version, {scope, SHARED, None}, page
            ):
                frame = read_frame(type_, v, number, event_scope, text)
                if frame is None:
                    if not type_.startswith("x:"):
                        tip.note(number, "unknown-event")
                        applied = True
                    continue
                tip.frames.keep(number, frame, event_scope)
                shared = None if event_scope is None else event_scope == SHARED
                if event_scope is not None or isinstance(frame, RewindFrame):
                    apply(tip, number, shared, frame, what_if)
                    applied = True
                if deadline is not None and time.monotonic() > deadline:
                    tip.write_rest(number)
                    return number >= version
            if applied or version - began >= _PAGE or rows is self._memory:
                tip.write_rest(version)
            else:
                self._scanned[key] = version
        except BaseException:
            self.forget()
            raise
        return True


class Paths:
    """The paths of a scope and of shared memory, as the rewinds up to a version leave them."""

    def __init__(self, store: Store, stream: Stream, scope: str, at: int) -> None:
        self.own, self.shared = Path(), Path()
        for version, frame, event_scope in store.rewinds(stream, at):
            if event_scope in (None, scope) and scope != SHARED:
                self.own.rewind(version, frame.to)
            if event_scope in (None, SHARED):
                self.shared.rewind(version, frame.to)


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
