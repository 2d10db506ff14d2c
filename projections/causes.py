"""Causes: which findings each transfer of a scope has brought about, from one way along its timeline."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import lru_cache

from turnlog.store.events import MessageFrame, ResponseFrame, SummaryFrame, read_frame
from turnlog.store.spans import NEVER, SpanRow, version_of

from .history import active_of, profile_of
from .problems import Found, is_within, tools_named
from .timelines.catch_up import Line
from .timelines.frames import SHARED
from .timelines.item import FIRST_MESSAGE, PROMPT, SUMMARY, visible_calls
from .timelines.timeline import Timeline
from .timelines.tip import Active

Tools = frozenset[str] | None  # The names of the active assistant's tools; None if nothing was said of them.


class Facts:
    """What was known of the assistants of a timeline after any version."""

    def __init__(self, timeline: Timeline, line: Line) -> None:
        self._timeline = timeline
        self._since: dict[str, list[int]] = defaultdict(list)
        self._values: dict[str, list[str | None]] = defaultdict(list)
        for name, since, value in line.rows.fact_history(line.line):
            self._since[name].append(since)
            self._values[name].append(value)
        self._active = lru_cache(active_of)
        self._named = lru_cache(lambda value: tools_named(timeline, profile_of(value)))

    def active(self, at: int) -> Active | None:
        """Return the assistant that was active after a version."""
        return self._active(self._value("active", at))

    def tools(self, at: int) -> Tools:
        """Return the names of the tools of that assistant."""
        active = self.active(at)
        return None if active is None else self._named(self._value(f"known:{active.name}", at))

    def _value(self, name: str, at: int) -> str | None:
        number = bisect_right(self._since.get(name, ()), at)
        return self._values[name][number - 1] if number else None


class Causes:
    """Goes along a timeline once, and says which findings each of some transfers, in order, has caused."""

    def __init__(self, timeline: Timeline, line: Line, facts: Facts, versions: Sequence[int]) -> None:
        self._timeline, self._line, self._facts = timeline, line, facts
        rows = line.rows.with_origins(line.line, (PROMPT, FIRST_MESSAGE, SUMMARY))
        self._called: dict[int, list[tuple[str, str]]] = {}
        if any(_may_be_foreign(facts.tools(version - 1), facts.tools(version)) for version in versions):
            calling = line.rows.with_calls(line.line)
            self._called = self._read_calls(set(map(version_of, calling)))
            rows += calling
        self._begins = sorted(rows, key=lambda row: row.since, reverse=True)
        self._ends: dict[int, list[SpanRow]] = defaultdict(list)
        for row in rows:
            if row.until is not None:
                self._ends[row.until].append(row)
        self._moments = sorted(self._ends, reverse=True)
        self._notes: dict[int, list[Found]] = defaultdict(list)
        for version, rule, call in line.rows.notes(line.line, NEVER):
            self._notes[version].append((version, rule, call))
        summaries = timeline.store.structural(timeline.stream, ("summary",), {timeline.scope, SHARED})
        self._ranges = {version: frame for version, frame in summaries if isinstance(frame, SummaryFrame)}
        self._found: tuple[Active | None, set[Found]] | None = None  # On prompts and first messages, as they are now.
        self._prompts: dict[int, SpanRow] = {}
        self._firsts: dict[int, SpanRow] = {}
        self._summaries: dict[int, SpanRow] = {}
        self._calls: dict[str, dict[tuple[int, int], str]] = defaultdict(dict)

    def of(self, version: int, hid: list[int]) -> set[Found]:
        """Return the findings that a transfer has caused, which hid what the events of `hid` placed."""
        self._go_to(version - 1)
        before = self._of_prompts(version - 1)
        self._go_to(version)
        found = self._of_prompts(version) - before
        had, tools = self._facts.tools(version - 1), self._facts.tools(version)
        if tools is not None and _may_be_foreign(had, tools):
            for name in (self._calls.keys() if had is None else had) - tools:
                calls = self._calls.get(name, {})
                found |= {(placed, "foreign-tool-calls", call) for (placed, _), call in calls.items()}
        return found.union(self._of_summaries(version, hid) if hid and self._summaries else (), self._notes[version])

    def _read_calls(self, versions: set[int]) -> dict[int, list[tuple[str, str]]]:
        """Return the calls of some messages, each as the name of its tool and its id."""
        found = {}
        first, last = min(versions, default=1), max(versions, default=0)
        scopes = {self._timeline.scope, SHARED}
        for version, type_, v, scope, text in self._timeline.store.frames(self._timeline.stream, first, last, scopes):
            frame = read_frame(type_, v, version, scope, text) if version in versions else None
            if isinstance(frame, MessageFrame | ResponseFrame):
                found[version] = [(call.name, call.id) for call in frame.tool_calls]
        return found

    def _go_to(self, version: int) -> None:
        while (self._moments and self._moments[-1] <= version) or (self._begins and self._begins[-1].since <= version):
            # What ends with an event goes before what begins with it.
            if self._moments and (not self._begins or self._moments[-1] <= self._begins[-1].since):
                for row in self._ends[self._moments.pop()]:
                    self._change(row, False)
            else:
                self._change(self._begins.pop(), True)

    def _change(self, row: SpanRow, begins: bool) -> None:
        self._found = None
        kept = {PROMPT: self._prompts, FIRST_MESSAGE: self._firsts, SUMMARY: self._summaries}.get(row.origin)
        if kept is not None and begins:
            kept[row.place] = row
        elif kept is not None:
            kept.pop(row.place, None)
        version = version_of(row)
        for index in visible_calls(row.form, row.removed):
            name, call = self._called[version][index]
            if begins:
                self._calls[name][version, index] = call
            else:
                self._calls[name].pop((version, index), None)

    def _of_prompts(self, at: int) -> set[Found]:
        active = self._facts.active(at)
        if self._found is None or self._found[0] != active:
            self._found = active, {*self._read_prompts(active)}
        return self._found[1]

    def _read_prompts(self, active: Active | None) -> Iterator[Found]:
        prompts = self._prompts.values()
        if len({row.assistant for row in prompts}) > 1:
            yield max(map(version_of, prompts)), "several-prompts", ""
        if active is not None and not prompts:
            yield active.since, "no-prompt", ""
        seen: set[int | None] = set()
        for place in sorted(self._firsts):
            row = self._firsts[place]
            if row.assistant in seen:
                yield version_of(row), "repeated-first-message", ""
            seen.add(row.assistant)

    def _of_summaries(self, at: int, hid: list[int]) -> Iterator[Found]:
        """Find the summaries that cover what the event of `at` has hidden, and nothing that was hidden before."""
        for row in self._summaries.values():
            frame = self._ranges.get(version_of(row))
            if frame is None or frame.first is None or frame.last is None:
                continue
            now = [version for version in hid if frame.first <= version <= frame.last]
            if any(self._tells(row, frame, version, version, at) for version in now) and not self._tells(
                row, frame, frame.first, frame.last, at - 1
            ):
                yield version_of(row), "summary-tells-hidden", ""

    def _tells(self, row: SpanRow, frame: SummaryFrame, first: int, last: int, at: int) -> bool:
        """Return whether a summary covers what events of a range placed that is hidden by a transfer."""
        items = self._timeline.items(self._line, first, last, at)
        return any(is_within(self._timeline, item, row, frame) for item in items)


def _may_be_foreign(had: Tools, tools: Tools) -> bool:
    """Return whether calls may be of none of the tools that there are now, and were of those that there were."""
    return tools is not None and (had is None or bool(had - tools))
