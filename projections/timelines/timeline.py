"""A timeline: of every message of a scope, from which version until which it was visible, and what ended that."""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from itertools import islice
from typing import Any, TypeVar

import msgspec

from turnlog.store import NotFound, Store
from turnlog.store.arguments import whole_number
from turnlog.store.events import Frame, MessageFrame, Mode, ResponseFrame, text_of
from turnlog.store.spans import (
    NEVER,
    ORIGINS,
    ROLES,
    RULES_THAT_HIDE,
    TEXT_ONLY,
    HidingRow,
    SpanRow,
    version_of,
    versions_of,
)
from turnlog.store.streams import Stream
from turnlog.store.times import Clock

from ..history import History, ReadGiven, given_last, messages_of, read_history
from ..reading import Reading, checked_what_if, resolve
from ..render import VisibleMessage
from .catch_up import Line, Lines
from .frames import Frames, Paths
from .item import Item, item_then, visible_calls
from .modes import WhatIf
from .spans import Changes, Hidden, Span, Step, check_page, hidden_of

At = int | datetime | None
T = TypeVar("T")
# What reading rows that are missing, damaged or tampered with raises.
DAMAGE = (sqlite3.DatabaseError, msgspec.MsgspecError, LookupError, AssertionError, TypeError, ValueError)


class Timeline:
    """The timeline of one scope of a conversation; it is caught up with the log whenever it is asked."""

    def __init__(self, store: Store, stream: Stream, scope: str, what_if: WhatIf, *, audit: bool = False) -> None:
        self.store = store
        self.stream = stream
        self.scope = scope
        self.what_if = what_if
        self._audit = audit
        self._frames = Frames(store, stream)
        self.last_given: tuple[tuple[int | None, int | None, int], ReadGiven] | None = None

    def at(
        self,
        version: At = None,
        *,
        first: int | None = None,
        count: int | None = None,
        last: int | None = None,
        clock: Clock = "event",
    ) -> History:
        """Return the view at a version or an aware time; the latest, if none is given.

        `last` asks for that many messages from the end, `first` and `count` for a page counted from 0.

        :raises NotFound: there is no such version.
        :raises InvalidArgument: a number is negative, or `last` is given beside the others.
        """
        check_page(first, count, last)
        return self.ask(
            version, lambda line, at: read_history(self, line, self._reading(at), first, count, last), clock
        )

    def view(self, reading: Reading) -> History:
        """Return the view at the version of a reading, with its redactions."""
        return self.ask(reading.version, lambda line, _: read_history(self, line, reading, None, None, None))

    def _reading(self, at: int) -> Reading:
        return Reading.of(self.store, self.stream, at)

    def ask(self, at: At, question: Callable[[Line, int], T], clock: Clock = "event") -> T:
        """Return what a question gives that is asked of the rows of this timeline, caught up to a point.

        Rows that are missing or damaged are dropped and made again, and if that does not help the question is asked
        of rows that are made in memory from the log alone.

        :raises NotFound: there is no such version.
        """
        lines = Lines.of(self.store)
        version: int | None = None
        ready: Line | None = None
        try:
            # One that has met a damaged page raises an error again when it ends.
            with self.store.db.snapshot():
                version = self.version(at, clock)
                ready = None if self._audit else lines.known(self.stream, self.scope, self.what_if, version)
                if ready is not None:
                    return question(ready, version)
        except DAMAGE:
            if version is None:
                raise
        if ready is not None:
            lines.mend()
        for _ in range(2):
            try:
                line = self.line(version)
                with self.store.db.snapshot():
                    return question(line, version)
            except DAMAGE:
                lines.mend()
        line = lines.audited(self.stream, self.scope, self.what_if, version)
        with self.store.db.snapshot():
            return question(line, version)

    def tried(self, version: int, mode: Mode, question: Callable[[Line], T]) -> T:
        """Return what a question gives that is asked of this timeline as if the transfer of `version` had a mode."""
        lines = Lines.of(self.store)
        return lines.tried(self.stream, self.scope, self.what_if, version, mode, question, self._audit)

    def __getitem__(self, version: int) -> History:
        """Return the view at a version."""
        return self.at(version)

    def line(self, version: int) -> Line:
        """Return where the rows of this timeline are, caught up to a version."""
        lines = Lines.of(self.store)
        ready = lines.audited if self._audit else lines.ready
        return ready(self.stream, self.scope, self.what_if, version)

    def version(self, at: At = None, clock: Clock = "event") -> int:
        """Return the version that a point means.

        :raises NotFound: there is no such version.
        """
        return resolve(self.store, self.stream, at, clock)

    # What is hidden

    def hidden(
        self, at: At = None, first: int = 0, count: int | None = None, *, after: int | None = None
    ) -> list[Hidden]:
        """Return what is hidden and why, by version, origin and call; a page of it, or what comes `after` a version.

        :raises NotFound: there is no such version.
        :raises InvalidArgument: a number is negative, or none.
        """
        check_page(whole_number("first", first, 0, "a number of messages"), count, None)
        after = None if after is None else min(whole_number("after", after, 0, "a version"), NEVER)
        first, stop = min(first, NEVER), None if count is None else min(first + count, NEVER)
        return self.ask(at, lambda line, version: list(islice(self._hidden(line, version, after), first, stop)))

    def _hidden(self, line: Line, version: int, after: int | None) -> Iterator[Hidden]:
        rows, number = line
        for blocks in rows.hiding_blocks(number, version, after):
            entries = []
            for item in self._items(line, rows.eventful(number, blocks, version), *versions_of(blocks), version):
                if after is not None and item.version <= after:
                    continue
                if item.why is not None:
                    entries.append(hidden_of(item.version, item.origin, item.why, None))
                else:
                    for call, reason in sorted(item.removed.items()):
                        entries.append(hidden_of(item.version, item.origin, reason, self.call_id(item.version, call)))
            yield from sorted(entries, key=lambda entry: (entry.version, entry.origin, entry.call or ""))

    def items(self, line: Line, first: int, last: int, at: int) -> list[Item]:
        """Return all that the events of a range placed, as it was after version `at`, visible or not."""
        return self._items(line, line.rows.of_messages(line.line, first, last, at), first, last, at)

    def _items(self, line: Line, rows: list[SpanRow], first: int, last: int, at: int) -> list[Item]:
        spans: dict[tuple[int, int], list[SpanRow]] = defaultdict(list)
        hidings: dict[tuple[int, int], list[HidingRow]] = defaultdict(list)
        for span in rows:
            spans[version_of(span), span.origin].append(span)
        for hiding in line.rows.hidings_of(line.line, first, last, at):
            hidings[hiding.version, hiding.origin].append(hiding)
        items = (
            item_then(sorted(spans[key], key=lambda span: span.since), hidings.get(key, ()), at)
            for key in spans.keys() | hidings.keys()
        )
        return [item for item in items if item is not None]

    def frame(self, version: int) -> Frame | None:
        """Return the frame of an event."""
        return self._frames[version]

    def is_shared(self, version: int) -> bool:
        """Return whether an event is of shared memory."""
        return self._frames.is_shared(version)

    def call_id(self, version: int, call: int) -> str:
        """Return the id of a call of a message, by its index."""
        frame = self._frames[version]
        assert isinstance(frame, MessageFrame | ResponseFrame)
        return frame.tool_calls[call].id

    def as_recorded(self) -> Timeline:
        """Return the timeline of the same scope without a what-if."""
        return Timeline(self.store, self.stream, self.scope, WhatIf(), audit=self._audit)

    def held(self, at: At = None) -> list[VisibleMessage]:
        """Return what is held at a point, visible or not, in order: what an export writes.

        :raises NotFound: there is no such version.
        """

        def question(line: Line, version: int) -> list[VisibleMessage]:
            spans = line.rows.covering(line.line, version, held=True)
            return messages_of(self, line, spans, self._reading(version).redactions)

        return self.ask(at, question)

    def given(self, at: At = None) -> tuple[list[dict[str, Any]] | None, str | None]:
        """Return the tools and the model given last to the active assistant or, if it has none, to another.

        :raises NotFound: there is no such version.
        """
        return self.ask(at, lambda line, version: given_last(self, line, self._reading(version)))

    # Lifelines

    def spans(self, version: int) -> list[Span]:
        """Return the lifelines of what an event placed, up to the latest version, by origin and time.

        :raises NotFound: there is no such version.
        """
        latest = self.store.version(self.stream)
        if not 0 < whole_number("version", version, what="a version") <= latest:
            raise NotFound("version", version, f"is not between 1 and {latest}, the last of {self.stream.label}")
        return self.ask(latest, lambda line, _: self.spans_on(line, version))

    def spans_on(self, line: Line, version: int) -> list[Span]:
        """Return the lifelines of what an event placed, from the rows of a timeline that is caught up to it."""
        names = line.rows.names(line.line)
        rows: dict[int, list[SpanRow]] = defaultdict(list)
        for row in line.rows.of_message(line.line, version):
            rows[row.origin].append(row)
        found = [span for origin in sorted(rows) for span in self._lifeline(rows[origin], names)]
        seen = {span.origin for span in found}
        hidings = line.rows.hidings_of(line.line, version, version, NEVER)
        never = [each for each in hidings if each.since == version and ORIGINS[each.origin] not in seen]
        return found + [self._never_visible(version, hiding) for hiding in never]

    def _lifeline(self, rows: list[SpanRow], names: list[str]) -> list[Span]:
        visible = [row for row in rows if row.why is None]
        if not visible:
            first = rows[0]
            return [self._span(first, names, until=first.since, reason=(first.why or 0, first.why_by or 0))]
        found: list[Span] = []
        for number, row in enumerate(visible):
            follows = number + 1 < len(visible) and visible[number + 1].since == row.until
            found.append(self._span(row, names, goes_on=follows))
        return found

    def _span(
        self,
        row: SpanRow,
        names: list[str],
        until: int | None = None,
        reason: tuple[int, int] | None = None,
        goes_on: bool = False,
    ) -> Span:
        version = version_of(row)
        until = row.until if until is None else until
        if reason is None and row.until is not None and row.rule is not None:
            reason = row.rule, row.until if row.by is None else row.by
        return Span(
            version=version,
            origin=ORIGINS[row.origin],
            place=row.place,
            role=ROLES[row.role],
            assistant=None if row.assistant is None else names[row.assistant],
            source=version if row.source is None else row.source,
            since=row.since,
            until=until,
            rule=None if reason is None else RULES_THAT_HIDE[reason[0]],
            by=None if reason is None else reason[1],
            calls=tuple(self.call_id(version, index) for index in visible_calls(row.form, row.removed)),
            text_only=bool(row.parts & TEXT_ONLY),
            goes_on=goes_on,
        )

    def _never_visible(self, version: int, hiding: HidingRow) -> Span:
        origin = ORIGINS[hiding.origin]
        role = "system" if origin == "prompt" else "assistant"
        if origin == "summary":
            role = self._frames[version].role  # type: ignore[union-attr]
        return Span(
            version=version,
            origin=origin,
            place=4 * version,
            role=role,
            assistant=None,
            source=version,
            since=version,
            until=version,
            rule=RULES_THAT_HIDE[hiding.rule],
            by=hiding.by,
        )

    def changes(self, version: int) -> Changes:
        """Return what an event showed, hid, and left in another form.

        :raises NotFound: there is no such version.
        """
        return self.ask(version, self._changes)

    def _changes(self, line: Line, version: int) -> Changes:
        rows, number = line
        began = {(version_of(row), row.origin): row for row in rows.began_at(number, version) if row.why is None}
        ended = {(version_of(row), row.origin): row for row in rows.ended_at(number, version) if row.why is None}
        names = rows.names(number)
        changed = [
            self._span(row, names, goes_on=True)
            for key, row in ended.items()
            if key in began and (row.parts, row.removed) != (began[key].parts, began[key].removed)
        ]
        return Changes(
            version,
            [self._span(row, names) for key, row in began.items() if key not in ended],
            [self._span(row, names) for key, row in ended.items() if key not in began],
            changed,
        )

    def steps(self) -> list[Step]:
        """Return after which events what is visible changed: how many messages it was, with how many characters."""
        return self.ask(None, self._steps)

    def _steps(self, line: Line, version: int) -> list[Step]:
        deltas: dict[int, list[int]] = defaultdict(lambda: [0, 0])
        rows = [row for row in line.rows.all_spans(line.line) if row.why is None]
        messages = messages_of(self, line, rows, self._reading(version).redactions)
        for row, message in zip(rows, messages, strict=True):
            content = message.content
            texts = [content] if isinstance(content, str) else map(text_of, content)
            size = sum(map(len, texts))
            for moment, sign in ((row.since, 1), (row.until, -1)):
                if moment is not None:
                    deltas[moment][0] += sign
                    deltas[moment][1] += sign * size
        found, visible, characters = [], 0, 0
        for moment in sorted(deltas):
            visible += deltas[moment][0]
            characters += deltas[moment][1]
            found.append(Step(moment, visible, characters))
        return found

    def paths(self, at: int) -> Paths:
        """Return the paths of this scope and of shared memory after a version."""
        return Paths(self.store, self.stream, self.scope, at)


def timeline(
    store: Store,
    conversation: str,
    scope: str = "chat",
    *,
    mode: Mode | None = None,
    modes: Mapping[int, Mode] | None = None,
) -> Timeline:
    """Return the timeline of a scope; with `mode` or `modes`, as it would be if transfers had these modes.

    :raises NotFound: there is no such conversation or scope.
    :raises InvalidArgument: a mode is unknown.
    """
    stream = store.stream(conversation)
    return timeline_of(store, stream, scope, mode, modes)


def timeline_of(
    store: Store,
    stream: Stream,
    scope: str,
    mode: Mode | None = None,
    modes: Mapping[int, Mode] | None = None,
    *,
    audit: bool = False,
) -> Timeline:
    """Return the timeline of a scope of a stream; see `timeline`."""
    return Timeline(store, stream, scope, checked_what_if(store, stream, scope, mode, modes), audit=audit)


def history(
    store: Store,
    conversation: str,
    scope: str = "chat",
    at: At = None,
    mode: Mode | None = None,
    modes: Mapping[int, Mode] | None = None,
    last: int | None = None,
    *,
    clock: Clock = "event",
) -> History:
    """Return what the model could see of a scope at `at`: a version, an aware time, or the latest if none is given.

    `mode` projects every transfer as if it had that mode, `modes` single ones, by version; nothing is appended. `last`
    asks for that many messages from the end. The rules are in docs/design.md, section 4.

    :raises NotFound: there is no such conversation, version or scope.
    :raises InvalidArgument: a mode is unknown, or `last` is negative.
    """
    return timeline_of(store, store.stream(conversation), scope, mode, modes).at(at, last=last, clock=clock)
