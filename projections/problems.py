"""Findings on a view, each with its event and one line of advice (docs/findings.md explains them)."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from turnlog.store import Event
from turnlog.store.events import AssistantFrame, MessageFrame, RequestFrame, ResponseFrame, SummaryFrame, TransferFrame
from turnlog.store.spans import RULES_THAT_HIDE, SpanRow, source_of, version_of

from .answers import read_pairs
from .history import active_at, profile_at, sources_of
from .reading import Reading
from .timelines.catch_up import Line
from .timelines.frames import SHARED
from .timelines.item import FIRST_MESSAGE, PROMPT, SUMMARY, TOOL, Item, visible_calls
from .timelines.timeline import Timeline
from .timelines.tip import Profile

ADVICE = {
    "several-prompts": "prompts of different assistants are in force at once: transfer with a swap mode, or clear one",
    "no-prompt": "an assistant is active and no prompt is visible: give it one with the transfer or an assistant event",
    "foreign-tool-calls": "the active assistant has no such tool and may imitate the call: remove it, or give the tool",
    "unanswered-call": "the call has no result: append one before the model is called again",
    "orphan-result": "there is no call of this id before the result: append the call first, or under the same id",
    "duplicate-result": "the call was answered already: append one result for each call",
    "self-transfer": "the assistant handed over to itself: its prompt and first message may be visible twice",
    "unknown-from": "the assistant that it hands over from was not the active one: check who wrote the transfer",
    "nothing-removed": "the mode removes the transfer's call and found none: give its tool_call_id",
    "repeated-first-message": "the same assistant's first message is visible twice: let it wait for the user instead",
    "summary-covers-nothing-visible": "nothing in its range was visible: give the range of what the summary sums up",
    "summary-cuts-pair": "the summary covers a call without its result, or the reverse: widen its range",
    "summary-tells-hidden": "the summary covers what a transfer has hidden, and may reveal it: begin its range later",
    "times-not-in-order": "the event says that it happened before one that precedes it: check its writer's clock",
    "unknown-event": "this build does not know the event's type, version or a value in it: upgrade turnlog to see it",
    "redacted-since-request": "a model was sent what has been redacted since: see what its provider keeps",
}


class Problem(msgspec.Struct, frozen=True, omit_defaults=True):
    """A finding: its rule, the version of the event concerned, what to do and, of a call, its id."""

    rule: str
    version: int
    advice: str
    call: str | None = None


Found = tuple[int, str, str]  # The version, the rule and the id of a call or nothing.


def problems(timeline: Timeline, at: int | None = None) -> list[Problem]:
    """Return the findings on a view, by version, rule and call.

    :raises NotFound: there is no such version.
    """
    return timeline.ask(at, lambda line, version: _problems(timeline, line, version))


def _problems(timeline: Timeline, line: Line, at: int) -> list[Problem]:
    visible = line.rows.covering(line.line, at)
    reading = Reading(timeline.store, timeline.stream, at)
    found = {
        *_of_events(timeline, line, at),
        *_of_results(timeline, line, at, visible),
        *_of_prompts(line, at, visible),
        *foreign_calls(timeline, line, at, visible),
        *_of_summaries(timeline, line, at, visible),
        *((version, "redacted-since-request", "") for version in _redacted_requests(timeline, reading)),
    }
    return listed(found)


def listed(found: set[Found]) -> list[Problem]:
    """Return findings with their advice, in order."""
    return [Problem(rule, version, ADVICE[rule], call or None) for version, rule, call in sorted(found)]


def _of_events(timeline: Timeline, line: Line, at: int) -> Iterator[Found]:
    """Find what events have caused by themselves, as long as they are on the path."""
    paths = timeline.paths(at)
    for version, rule, call in line.rows.notes(line.line, at):
        shared = timeline.is_shared(version)
        if rule == "unknown-event" or (paths.shared if shared else paths.own).has(version):
            yield version, rule, call
    for version in timeline.store.times_not_in_order(timeline.stream, {timeline.scope, SHARED, None}):
        if version <= at:
            yield version, "times-not-in-order", ""


def _of_results(timeline: Timeline, line: Line, at: int, visible: list[SpanRow]) -> Iterator[Found]:
    """Find calls without a final result, and results without a call."""
    callers = {version_of(span): visible_calls(span.form, span.removed) for span in visible if span.calls}
    shown = {version_of(span) for span in visible if span.role == TOOL}
    pairs = read_pairs(timeline, line, at, callers, shown)
    answered = {(pair.call, pair.number) for pair in pairs if not pair.interim}
    for version, calls in callers.items():
        for number, call in enumerate(calls):
            if (version, number) not in answered:
                yield version, "unanswered-call", timeline.call_id(version, call)
    own = timeline.scope == SHARED
    paths = timeline.paths(at)
    for span in line.rows.covering(line.line, at, held=True):
        version = version_of(span)
        frame = timeline.frame(version) if span.role == TOOL and span.why is not None and span.shared == own else None
        if isinstance(frame, MessageFrame) and frame.tool_call_id is not None:
            uses = line.rows.uses_of(line.line, frame.tool_call_id, version + 1)
            mine = next((use for use in uses if use.version == version and use.part < 0 and use.since <= at), None)
            if mine is not None and mine.call is None:
                earlier = (use.version for use in uses if use.part >= 0 and use.version < version)
                there = any((paths.shared if timeline.is_shared(each) else paths.own).has(each) for each in earlier)
                yield version, "duplicate-result" if there else "orphan-result", ""


def _of_prompts(line: Line, at: int, visible: list[SpanRow]) -> Iterator[Found]:
    active = active_at(line, at)
    prompts = [span for span in visible if span.origin == PROMPT]
    if len({span.assistant for span in prompts}) > 1:
        yield max(map(version_of, prompts)), "several-prompts", ""
    if active is not None and not prompts:
        yield active.since, "no-prompt", ""
    seen: set[int | None] = set()
    for span in visible:
        if span.origin == FIRST_MESSAGE:
            if span.assistant in seen:
                yield version_of(span), "repeated-first-message", ""
            seen.add(span.assistant)


def tools_known(timeline: Timeline, line: Line, at: int) -> frozenset[str] | None:
    """Return the names of the active assistant's tools after a version; None if nothing was said of them."""
    active = active_at(line, at)
    return None if active is None else tools_named(timeline, profile_at(line, active.name, at))


def tools_named(timeline: Timeline, known: Profile) -> frozenset[str] | None:
    """Return the names of the tools that an assistant is known to have; None if nothing was said of them."""
    frame = None if known.tools is None else timeline.frame(known.tools)
    names = frame.tools if isinstance(frame, AssistantFrame | TransferFrame) else None
    return None if names is None else frozenset(names)


def foreign_calls(timeline: Timeline, line: Line, at: int, visible: list[SpanRow]) -> Iterator[Found]:
    """Find the visible calls of tools that the active assistant does not have."""
    tools = tools_known(timeline, line, at)
    for span in visible if tools is not None else ():
        if not span.calls:
            continue
        version = version_of(span)
        frame = timeline.frame(version)
        assert isinstance(frame, MessageFrame | ResponseFrame)
        for call in (frame.tool_calls[index] for index in visible_calls(span.form, span.removed)):
            if call.name not in (tools or ()):
                yield version, "foreign-tool-calls", call.id


def _of_summaries(timeline: Timeline, line: Line, at: int, visible: list[SpanRow]) -> Iterator[Found]:
    """Find the visible summaries that cover what a transfer has hidden."""
    for span in visible:
        frame = timeline.frame(version_of(span)) if span.origin == SUMMARY else None
        if isinstance(frame, SummaryFrame) and frame.first is not None and frame.last is not None:
            items = timeline.items(line, frame.first, frame.last, at)
            if any(is_within(timeline, item, span, frame) for item in items):
                yield version_of(span), "summary-tells-hidden", ""


def is_within(timeline: Timeline, item: Item, span: SpanRow, summary: SummaryFrame) -> bool:
    """Return whether a message is hidden by a transfer and in the range of the summary that a span shows."""
    if item.why is None or item.origin == PROMPT or bool(span.shared) != item.shared:
        return False
    if not RULES_THAT_HIDE[item.why.rule].startswith(("transfer:", "context:")):
        return False
    earlier = timeline.frame(item.version) if item.origin == SUMMARY else None
    low, high = item.version, item.version
    if isinstance(earlier, SummaryFrame) and earlier.first is not None and earlier.last is not None:
        low, high = earlier.first, earlier.last
    return (summary.first or 0) <= low and high <= (summary.last or 0)


def _redacted_requests(timeline: Timeline, reading: Reading) -> Iterator[int]:
    """Find the requests of this scope whose history showed what has been redacted since."""
    store, redactions = timeline.store, reading.redactions
    for event in store.events(timeline.stream, 1, reading.version, types=("request",), scopes={timeline.scope}):
        frame = event.frame if redactions.since(event) else None
        if isinstance(frame, RequestFrame) and redacted_sources(timeline.as_recorded(), frame.at, reading, event):
            yield event.version


def _sources(line: Line, at: int) -> list[int]:
    """Return the events whose texts were shown after a version, and the one that gave the tools."""
    versions = list(map(source_of, line.rows.covering(line.line, at)))
    active = active_at(line, at)
    known = None if active is None else profile_at(line, active.name, at)
    if known is not None and known.tools is not None:
        versions.append(known.tools)
    return versions


def redacted_sources(timeline: Timeline, at: int, reading: Reading, request: Event) -> list[Event]:
    """Return the redactions that came after a request and erased what its history showed, in order."""
    versions = timeline.ask(at, _sources)
    erased = reading.redactions.targets(timeline.stream)
    shown = sorted({version for version in versions if version in erased})
    found: dict[int, Event] = {}
    for event in sources_of(timeline, shown):
        found |= {each.position: each for each in reading.redactions.since(request, event)}
    return [found[position] for position in sorted(found)]
