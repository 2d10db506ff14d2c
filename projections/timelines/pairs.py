"""Rule 7: which call each tool result is paired with, and what keeps a result from being visible."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from turnlog.store.events import MessageFrame, ResponseFrame
from turnlog.store.spans import FINAL, INTERIM, NEVER

from .item import ASSISTANT, MESSAGE, RULE, TAKING, TOOL, USER, Item, Reason
from .tip import Tip


class CallKey(NamedTuple):
    """A call: the version of its message and its index there."""

    version: int
    part: int


def pair(tip: Tip, version: int, frame: MessageFrame) -> Reason | None:
    """Pair a result that comes now with its call, and return why it is not visible, or None if it is."""
    assert frame.tool_call_id is not None
    id, part = tip.hash(frame.tool_call_id), INTERIM if frame.interim else FINAL
    recent = tip.recent.get(id)
    if recent and (frame.name is None or recent[-1][2] == frame.name):
        # It is visible: whatever hides a message forgets what is recent.
        call = CallKey(recent[-1][0], recent[-1][1])
        had_interim = recent[-1][3] == 2
        if not frame.interim:
            recent.pop()
        else:
            recent[-1][3] = 2
        why = None
    else:
        tip.write_plain()
        found, had_interim = find_call(tip, id, version, frame.name)
        if found is None:
            tip.add_use(id, version, part, version, None, None)
            return stray(tip, id, version)
        call = found
        if recent:
            for each in [each for each in recent if (each[0], each[1]) == call]:
                each[3] = 2
                if not frame.interim:
                    recent.remove(each)
        why = why_hidden(tip, call)
    tip.add_use(id, version, part, version, *call)
    tip.set_open(id, call.version, call.part, 2 if frame.interim else None)
    if had_interim:
        tip.write_plain()
        for result in results_of(tip, call, version):
            if result.interim and result.item.why is None:
                result.item.why = Reason(RULE["replaced-result"], version)
    return why


def add_calls(tip: Tip, version: int, frame: MessageFrame | ResponseFrame, visible: bool) -> None:
    """Note the calls of a message, which wait for their results from now on."""
    hashes = [tip.hash(call.id) for call in frame.tool_calls]
    for part, id in enumerate(hashes):
        tip.add_use(id, version, part, version, None, None)
    # Of several calls of one id the first is met first.
    for part in reversed(range(len(hashes))):
        if visible:
            tip.recent.setdefault(hashes[part], []).append([version, part, frame.tool_calls[part].name, 1])
        else:
            tip.recent.pop(hashes[part], None)


def find_call(tip: Tip, id: int, before: int, name: str | None) -> tuple[CallKey | None, bool]:
    """Return the call that a result before which all is paired belongs to, and whether interim results have come."""
    waiting = tip.rows.open_calls(tip.line, id, before)
    if not waiting:
        return None, False
    if name is not None:
        for version, part, open_ in waiting:
            if name_of(tip, version, part) == name:
                return CallKey(version, part), open_ == 2
        on_path = (use for use in tip.rows.uses(tip.line, id, before) if use.part >= 0 and is_on_path(tip, use.version))
        if any(name_of(tip, use.version, use.part) == name for use in on_path):
            return None, False
    version, part, open_ = waiting[0]
    return CallKey(version, part), open_ == 2


def name_of(tip: Tip, version: int, part: int) -> str | None:
    """Return the name of the tool that a call is of."""
    frame = tip.frames[version]
    return frame.tool_calls[part].name if isinstance(frame, MessageFrame | ResponseFrame) else None


def is_on_path(tip: Tip, version: int) -> bool:
    """Return whether a message of either scope is on its path now."""
    item = tip.said(version)
    return item is not None and tip.path_of(item.shared).has(version)


def stray(tip: Tip, id: int, version: int) -> Reason:
    """Return why a result that has no call is hidden."""
    uses = tip.rows.uses(tip.line, id, version)
    known = any(use.part >= 0 and is_on_path(tip, use.version) for use in uses)
    return Reason(RULE["duplicate-result" if known else "orphan-result"], version)


def why_hidden(tip: Tip, call: CallKey) -> Reason | None:
    """Return why a result of a call is hidden, as far as its call is the reason."""
    item = tip.said(call.version)
    assert item is not None
    taken = item.removed.get(call.part)
    if taken is None and item.ended is not None and item.ended.rule in TAKING and item.role in (USER, ASSISTANT):
        taken = item.ended
    reasons = [] if taken is None else [taken]
    if item.why is not None:
        reasons.append(Reason(RULE["orphan-result"], (item.ended or item.why).by))
    return first(reasons) if reasons else None


def call_of(tip: Tip, id: int, result: int, part: int, at: int = NEVER) -> CallKey | None:
    """Return the call that a result was paired with after version `at`, or is now; None if it has none."""
    call, index = tip.rows.pair_of(tip.line, id, result, part, at)
    return None if call is None else CallKey(call, index or 0)


class Result(NamedTuple):
    """A result and the call that it is paired with now, or None."""

    item: Item
    call: CallKey | None
    id: int
    interim: bool


def results_of(tip: Tip, call: CallKey | int, before: int = NEVER) -> Iterator[Result]:
    """Return the results on the path that are paired now with a call, or with any call of a message."""
    version = call if isinstance(call, int) else call.version
    for use in tip.rows.results_of(tip.line, version):
        if use.version >= before or (not isinstance(call, int) and use.call_part != call.part):
            continue
        paired = call_of(tip, use.id, use.version, use.part)
        item = tip.said(use.version) if paired == (use.call, use.call_part) else None
        if item is not None and tip.path_of(item.shared).has(use.version):
            yield Result(item, paired, use.id, use.part == INTERIM)


def result_of(tip: Tip, item: Item) -> Result | None:
    """Return a message as a result, with the call that it is paired with now; None if it is none."""
    frame = tip.frames[item.version] if item.origin == MESSAGE and item.role == TOOL else None
    if not isinstance(frame, MessageFrame) or frame.tool_call_id is None:
        return None
    id = tip.hash(frame.tool_call_id)
    call = call_of(tip, id, item.version, INTERIM if frame.interim else FINAL)
    return Result(item, call, id, frame.interim)


def reasons_of(tip: Tip, result: Result) -> list[Reason]:
    """Return all that hides a result on the path now; nothing if it is visible."""
    reasons = [] if result.item.ended is None else [result.item.ended]
    if result.call is None:
        return [*reasons, stray(tip, result.id, result.item.version)]
    of_call = why_hidden(tip, result.call)
    if of_call is not None:
        reasons.append(of_call)
    if result.interim:
        later = [
            other.item.version for other in results_of(tip, result.call) if other.item.version > result.item.version
        ]
        if later:
            reasons.append(Reason(RULE["replaced-result"], min(later)))
    return reasons


def first(reasons: Iterable[Reason]) -> Reason:
    """Return the reason whose event came first; of one event, what comes first."""
    return min(reasons, key=lambda reason: reason.by)


def settle(tip: Tip, result: Result) -> None:
    """Hide a result that is visible and has a reason not to be, after an event that only hides."""
    if result.item.why is None:
        reasons = reasons_of(tip, result)
        if reasons:
            result.item.why = first(reasons)
            if result.item.calls:
                settle_results(tip, [result.item])


def settle_results(tip: Tip, callers: Iterable[Item]) -> None:
    """Hide the results whose calls an event has hidden, without what it only shows."""
    changed = [item.version for item in callers if item.calls and item.loaded != item.state]
    for call, call_part, version, part, id in tip.rows.pairs_with(tip.line, changed, NEVER) if changed else ():
        known = tip.touched.get((version, MESSAGE))
        item = tip.said(version) if known is None or known.visible else None
        if item is not None and tip.path_of(item.shared).has(version):
            settle(tip, Result(item, CallKey(call, call_part), id, part == INTERIM))
