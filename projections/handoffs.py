"""Handoffs: each transfer of a conversation, with what it hid, kept and added."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

from turnlog.store import Store
from turnlog.store.events import Mode, TransferFrame
from turnlog.store.spans import SpanRow, version_of

from .causes import Causes, Facts
from .history import messages_of, sources_of
from .problems import Problem, listed
from .reading import Reading
from .redactions import Redactions
from .render import VisibleMessage
from .timelines.catch_up import Line
from .timelines.item import decode_removed
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
        found += timeline.ask(reading.version, lambda line, _, of=timeline: _of_scope(of, line, reading))  # type: ignore[misc]
    return sorted(found, key=lambda handoff: handoff.version)


def _of_scope(timeline: Timeline, line: Line, reading: Reading) -> list[Handoff]:
    structural = timeline.store.structural(timeline.stream, ("transfer",), {timeline.scope})
    transfers = {version: frame for version, frame in structural if isinstance(frame, TransferFrame)}
    if not transfers:
        return []
    facts = Facts(timeline, line)
    causes = Causes(timeline, line, facts, list(transfers))
    reasons = _reasons(timeline, reading.redactions, list(transfers))
    visible = {version: visible for version, visible, _ in line.rows.counts(line.line, max(transfers))}
    path = timeline.paths(reading.version).own
    found = []
    for step in _steps(timeline, line, reading, list(transfers)):
        version, frame, active = step.version, transfers[step.version], facts.active(step.version - 1)
        gone = [key[0] for key in step.ended if key not in step.began]
        after = visible[version]
        found.append(
            Handoff(
                conversation=reading.conversation,
                scope=timeline.scope,
                version=version,
                from_=None if active is None else active.name,
                to=frame.to,
                mode=timeline.what_if.of(version, frame),
                context="all" if frame.context is None else frame.context.type,
                before=after - len(step.added) + len(gone),
                after=after,
                kept=after - len(step.added),
                hid=_hid(timeline, step),
                added=step.added,
                tool_call_id=frame.tool_call_id,
                reason=reasons.get(version),
                inferred=bool(frame.inferred),
                problems=listed(causes.of(version, gone)),
                abandoned=not path.has(version),
            )
        )
    return found


class _Step(NamedTuple):
    """The visible spans that ended and began with a transfer, by what they are of, and the messages that it added."""

    version: int
    ended: dict[tuple[int, int], SpanRow]
    began: dict[tuple[int, int], SpanRow]
    added: list[VisibleMessage]


def _steps(timeline: Timeline, line: Line, reading: Reading, versions: Sequence[int]) -> Iterator[_Step]:
    """Return what some transfers changed, in order."""
    steps = {version: _Step(version, {}, {}, []) for version in versions}
    for row in line.rows.changed_with(line.line, versions):
        if row.why is not None:
            continue
        key = version_of(row), row.origin
        if row.since in steps:
            steps[row.since].began[key] = row
        if row.until in steps:
            steps[row.until].ended[key] = row
    added = [(step, row) for step in steps.values() for key, row in step.began.items() if key not in step.ended]
    added.sort(key=lambda each: each[1].place)
    messages = messages_of(timeline, line, [row for _, row in added], reading.redactions)
    for (step, _), message in zip(added, messages, strict=True):
        step.added.append(message)
    return iter(steps.values())


def _hid(timeline: Timeline, step: _Step) -> list[Hidden]:
    """Return what a transfer hid, by version, origin and call."""
    found = []
    for (placed, origin), row in step.ended.items():
        now = step.began.get((placed, origin))
        if now is None:
            by = step.version if row.by is None else row.by
            found.append(hidden_of(placed, origin, (row.rule or 0, by), None))
            continue
        already = decode_removed(row.removed)
        for call, taken in decode_removed(now.removed).items():
            if call not in already:
                found.append(hidden_of(placed, origin, taken, timeline.call_id(placed, call)))
    return sorted(found, key=lambda hidden: (hidden.version, hidden.origin, hidden.call or ""))


def _reasons(timeline: Timeline, redactions: Redactions, versions: list[int]) -> dict[int, str]:
    """Return the reasons that transfers give, of those that are not redacted."""
    found = {}
    for event in sources_of(timeline, versions):
        # Most give none, and have long prompts instead.
        if redactions.text(event) is None and '"reason"' in (event.body_text or ""):
            reason = event.body.get("reason")
            if isinstance(reason, str):
                found[event.version] = reason
    return found
