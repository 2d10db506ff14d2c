"""Handoffs: each transfer of a conversation, with what it hid, kept and added."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping

import msgspec

from turnlog.store import Store
from turnlog.store.events import MessageFrame, Mode, ResponseFrame, SummaryFrame, TransferFrame
from turnlog.store.spans import NEVER, SpanRow, version_of

from .history import active_at, messages_of, sources_of
from .problems import Found, Problem, is_within, listed, tools_known
from .reading import Reading
from .redactions import Redactions
from .render import VisibleMessage
from .timelines.catch_up import Line
from .timelines.item import FIRST_MESSAGE, PROMPT, SUMMARY, decode_removed, visible_calls
from .timelines.spans import Hidden, hidden_of
from .timelines.timeline import Timeline, timeline_of


class Handoff(msgspec.Struct, frozen=True, omit_defaults=True, rename={"from_": "from"}):
    """A transfer: the messages visible `before` and `after` it, what it `hid`, how many it `kept` and what it `added`.

    `from_` is the assistant that was active; `problems` are the findings that were not there before; `abandoned` says
    that a rewind took the transfer off the path since.
    """

    conversation: str
    scope: str
    version: int
    from_: str | None
    to: str
    mode: Mode
    context: str
    before: int
    after: int
    kept: int
    hid: list[Hidden]
    added: list[VisibleMessage]
    tool_call_id: str | None = None
    reason: str | None = None
    inferred: bool = False
    problems: list[Problem] = []
    abandoned: bool = False


def handoffs(
    store: Store,
    conversation: str,
    scope: str | None = None,
    mode: Mode | None = None,
    modes: Mapping[int, Mode] | None = None,
) -> list[Handoff]:
    """Return the transfers of a conversation, in one scope or all, in order; `mode` and `modes` as in `history`.

    :raises NotFound: there is no such conversation or scope.
    :raises InvalidArgument: a mode is unknown.
    """
    reading = Reading(store, conversation)
    scopes = store.scopes_in_use(reading.stream) if scope is None else [scope]
    found = []
    for name in scopes:
        timeline = timeline_of(store, reading.stream, name, mode, modes)
        found += timeline.ask(reading.version, lambda line, _, of=timeline: list(_of_scope(of, line, reading)))  # type: ignore[misc]
    return sorted(found, key=lambda handoff: handoff.version)


def _of_scope(timeline: Timeline, line: Line, reading: Reading) -> Iterator[Handoff]:
    transfers = [
        (version, frame)
        for version, frame in timeline.store.structural(timeline.stream, ("transfer",), {timeline.scope})
        if isinstance(frame, TransferFrame)
    ]
    if not transfers:
        return
    path = timeline.paths(reading.version).own
    sweep = _Sweep(timeline, line)
    reasons = _reasons(timeline, reading.redactions, [version for version, _ in transfers])
    for version, frame in transfers:
        yield _handoff(timeline, line, reading, sweep, version, frame, reasons.get(version), not path.has(version))


def _handoff(
    timeline: Timeline,
    line: Line,
    reading: Reading,
    sweep: _Sweep,
    version: int,
    frame: TransferFrame,
    reason: str | None,
    abandoned: bool,
) -> Handoff:
    rows, number = line
    active = active_at(line, version - 1)
    began = {(version_of(row), row.origin): row for row in rows.began_at(number, version) if row.why is None}
    ended = {(version_of(row), row.origin): row for row in rows.ended_at(number, version) if row.why is None}
    hid = []
    for (placed, origin), row in ended.items():
        now = began.get((placed, origin))
        if now is None:
            hid.append(hidden_of(placed, origin, (row.rule or 0, version if row.by is None else row.by), None))
            continue
        already = decode_removed(row.removed)
        for call, taken in decode_removed(now.removed).items():
            if call not in already:
                hid.append(hidden_of(placed, origin, taken, timeline.call_id(placed, call)))
    added = [row for key, row in began.items() if key not in ended]
    before, _ = rows.totals(number, version - 1)
    after, _ = rows.totals(number, version)
    return Handoff(
        conversation=reading.conversation,
        scope=timeline.scope,
        version=version,
        from_=None if active is None else active.name,
        to=frame.to,
        mode=timeline.what_if.of(version, frame),
        context="all" if frame.context is None else frame.context.type,
        before=before,
        after=after,
        kept=after - len(added),
        hid=sorted(hid, key=lambda hidden: (hidden.version, hidden.origin, hidden.call or "")),
        added=messages_of(timeline, line, added, reading.redactions),
        tool_call_id=frame.tool_call_id,
        reason=reason,
        inferred=bool(frame.inferred),
        problems=listed(sweep.caused_by(version, [key[0] for key in ended if key not in began])),
        abandoned=abandoned,
    )


def _reasons(timeline: Timeline, redactions: Redactions, versions: list[int]) -> dict[int, str]:
    """Return the reasons that transfers give, of those that are not redacted."""
    found = {}
    for event in sources_of(timeline, versions):
        reason = None if redactions.text(event) is not None else event.body.get("reason")
        if isinstance(reason, str):
            found[event.version] = reason
    return found


class _Sweep:
    """Goes along a timeline once, and says which findings each transfer has caused."""

    def __init__(self, timeline: Timeline, line: Line) -> None:
        self._timeline, self._line = timeline, line
        rows = [row for row in line.rows.all_spans(line.line) if row.why is None]
        rows = [row for row in rows if row.calls or row.origin in (PROMPT, FIRST_MESSAGE, SUMMARY)]
        self._begins = sorted(rows, key=lambda row: row.since, reverse=True)
        self._ends: dict[int, list[SpanRow]] = defaultdict(list)
        for row in rows:
            if row.until is not None:
                self._ends[row.until].append(row)
        self._moments = sorted(self._ends, reverse=True)
        self._notes: dict[int, list[Found]] = defaultdict(list)
        for version, rule, call in line.rows.notes(line.line, NEVER):
            self._notes[version].append((version, rule, call))
        self._prompts: dict[int, SpanRow] = {}
        self._firsts: dict[int, SpanRow] = {}
        self._summaries: dict[int, SpanRow] = {}
        self._calls: dict[str, dict[tuple[int, int], str]] = defaultdict(dict)

    def caused_by(self, version: int, hid: list[int]) -> set[Found]:
        """Return the findings that a transfer has caused, which hid what the events of `hid` placed."""
        self._go_to(version - 1)
        before = {*self._of_prompts(version - 1), *self._of_summaries(version - 1, hid)}
        had = tools_known(self._timeline, self._line, version - 1)
        self._go_to(version)
        found = {*self._of_prompts(version), *self._of_summaries(version, hid)} - before
        tools = tools_known(self._timeline, self._line, version)
        for name, calls in self._calls.items() if tools is not None else ():
            if name not in (tools or ()) and (had is None or name in had):
                found |= {(placed, "foreign-tool-calls", call) for (placed, _), call in calls.items()}
        return found | set(self._notes[version])

    def _go_to(self, version: int) -> None:
        while (self._moments and self._moments[-1] <= version) or (self._begins and self._begins[-1].since <= version):
            # What ends with an event goes before what begins with it.
            if self._moments and (not self._begins or self._moments[-1] <= self._begins[-1].since):
                for row in self._ends[self._moments.pop()]:
                    self._change(row, False)
            else:
                self._change(self._begins.pop(), True)

    def _change(self, row: SpanRow, begins: bool) -> None:
        kept = {PROMPT: self._prompts, FIRST_MESSAGE: self._firsts, SUMMARY: self._summaries}.get(row.origin)
        if kept is not None and begins:
            kept[row.place] = row
        elif kept is not None:
            kept.pop(row.place, None)
        if row.calls:
            version = version_of(row)
            frame = self._timeline.frame(version)
            assert isinstance(frame, MessageFrame | ResponseFrame)
            for index in visible_calls(row.form, row.removed):
                call = frame.tool_calls[index]
                if begins:
                    self._calls[call.name][version, index] = call.id
                else:
                    self._calls[call.name].pop((version, index), None)

    def _of_prompts(self, at: int) -> Iterator[Found]:
        prompts = self._prompts.values()
        if len({row.assistant for row in prompts}) > 1:
            yield max(map(version_of, prompts)), "several-prompts", ""
        active = active_at(self._line, at)
        if active is not None and not prompts:
            yield active.since, "no-prompt", ""
        seen: set[int | None] = set()
        for place in sorted(self._firsts):
            row = self._firsts[place]
            if row.assistant in seen:
                yield version_of(row), "repeated-first-message", ""
            seen.add(row.assistant)

    def _of_summaries(self, at: int, hid: list[int]) -> Iterator[Found]:
        for row in self._summaries.values() if hid else ():
            frame = self._timeline.frame(version_of(row))
            if not isinstance(frame, SummaryFrame) or frame.first is None or frame.last is None:
                continue
            if any(frame.first <= version <= frame.last for version in hid):
                for item in self._timeline.items(self._line, frame.first, frame.last, at):
                    if item.why is not None and item.origin != PROMPT and is_within(self._timeline, item, row, frame):
                        yield version_of(row), "summary-tells-hidden", ""
                        break
