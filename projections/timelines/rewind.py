"""Rule 1: a rewind looks up what its scope was at the version that it goes back to (docs/design.md)."""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple

from turnlog.store.events import MessageFrame, ResponseFrame
from turnlog.store.spans import FINAL, INTERIM, NEVER, HidingRow, SpanRow, version_of

from .item import RULE, Item, Reason, item_then
from .pairs import CallKey, Result, call_of, find_call, first, is_on_path, reasons_of, result_of, results_of
from .path import is_in
from .tip import Tip


class Use(NamedTuple):
    """A call, by its index in its message, or a result: FINAL or INTERIM."""

    id: int
    version: int
    part: int


Lost = dict[int, CallKey]  # Results that had a call before a rewind, each with that call.


def rewind(tip: Tip, version: int, shared: bool | None, to: int) -> None:
    """Put the scope's own path, that of shared memory, or both (None) back to what they were after version `to`."""
    sides = [False, True] if shared is None else [shared]
    if tip.is_shared_view:
        sides = [True]
    common = NEVER
    restored: list[Item] = []
    before_paths = {side: tip.path_of(side).ranges for side in (False, True)}
    for side in sides:
        common = min(common, tip.path_of(side).rewind(version, to))
    for side in sides:
        restored += _restore(tip, version, side, to, before_paths[side])
    if False in sides:
        tip.restore_facts(to, version)
        tip.rows.set_path(tip.line, tip.own.ranges)
    lost, changed = _pair_again(tip, version, common, to, sides)
    for item in restored:
        result = result_of(tip, item)
        if result is not None and item.version not in lost:
            call = call_of(tip, result.id, item.version, INTERIM if result.interim else FINAL, to)
            if call is not None:
                lost[item.version] = call
    _settle(tip, version, restored, changed, lost)


def _restore(tip: Tip, version: int, shared: bool, to: int, before: list[tuple[int, int]]) -> list[Item]:
    """Make each message of a scope what it was after version `to`, or hide it if it is off the path."""
    spans: dict[tuple[int, int], list[SpanRow]] = defaultdict(list)
    hidings: dict[tuple[int, int], list[HidingRow]] = defaultdict(list)
    keys = {(version_of(row), row.origin) for row in tip.rows.changed_since(tip.line, to, shared)}
    keys |= {(row.version, row.origin) for row in tip.rows.hidings_since(tip.line, to) if bool(row.shared) == shared}
    for number in {number for number, _ in keys}:
        for span in tip.rows.of_message(tip.line, number):
            spans[number, span.origin].append(span)
        for hiding in tip.rows.hidings_of(tip.line, number, number, NEVER):
            hidings[number, hiding.origin].append(hiding)
    restored = []
    for key in sorted(keys):
        item = tip.load(spans[key], hidings[key])
        if item.shared != shared:
            continue
        restored.append(item)
        if not tip.path_of(shared).has(key[0]):
            if is_in(before, key[0]):
                gone = Reason(RULE["rewind"], version)
                item.why, item.ended = gone, gone
            continue
        then = item_then(spans[key], hidings[key], to)
        if then is None:
            continue
        if (then.parts, then.removed) != (item.parts, item.removed):
            item.form = Reason(RULE["rewind"], version)
        item.parts, item.removed, item.why, item.ended = then.parts, then.removed, then.why, then.ended
    return restored


def _pair_again(tip: Tip, version: int, common: int, to: int, sides: list[bool]) -> tuple[Lost, list[Result]]:
    """Pair the results after version `common` again, along the path as it is now.

    Return what call each had, and the results that are on the path with the calls that they have now.
    """
    uses = _uses_since(tip, common)
    had: Lost = {}
    for use in uses:
        item = tip.said(use.version) if use.part < 0 else None
        if item is None:
            continue
        rewound = item.shared in sides
        path = tip.path_of(item.shared)
        if is_in(path.at(to), use.version) if rewound else path.has(use.version):
            then = to if rewound else version
            was = call_of(tip, use.id, use.version, use.part, then)
            if was is not None:
                had[use.version] = was
    # A call up to `common` waits again if what answered it is off the path or comes after `common`.
    affected: dict[tuple[int, int, int], None] = {}
    for use in uses:
        if use.part >= 0:
            affected[use.id, use.version, use.part] = None
        else:
            for call, part in tip.rows.pairs_of(tip.line, use.id, use.version, use.part):
                affected[use.id, call, part] = None
    for id, call, part in affected:
        open_: int | None = None
        if is_on_path(tip, call):
            results = [result for result in results_of(tip, CallKey(call, part)) if result.item.version <= common]
            open_ = 1
            if any(not result.interim for result in results):
                open_ = None
            elif results:
                open_ = 2
        tip.rows.set_open(tip.line, [(open_, id, call, part)])
    # What replaced an interim result may have left the path, or come back to it.
    earlier = [result for id, call, part in affected for result in results_of(tip, CallKey(call, part))]
    changed = [result for result in earlier if result.interim and result.item.version <= common]
    for use in uses:
        item = tip.said(use.version) if use.part < 0 else None
        if item is None or not tip.path_of(item.shared).has(use.version):
            continue
        frame = tip.frames[use.version]
        assert isinstance(frame, MessageFrame)
        found, _ = find_call(tip, use.id, use.version, frame.name)
        if found is not None:
            tip.rows.set_open(tip.line, [(2 if use.part == INTERIM else None, use.id, *found)])
        if found != call_of(tip, use.id, use.version, use.part):
            tip.add_use(use.id, use.version, use.part, version, *(found or (None, None)))
            tip.write_plain()
        changed.append(Result(item, found, use.id, use.part == INTERIM))
    # A result that has come to another call may replace the interim results of that one.
    newly = {result.call for result in changed if result.call is not None}
    changed += [
        each for call in newly for each in results_of(tip, call) if each.interim and each.item.version <= common
    ]
    return had, changed


def _uses_since(tip: Tip, version: int) -> list[Use]:
    """Return the calls and results of the messages after a version, in order."""
    found = []
    for number in tip.rows.callers_since(tip.line, version):
        frame = tip.frames[number]
        if isinstance(frame, MessageFrame) and frame.role == "tool" and frame.tool_call_id is not None:
            found.append(Use(tip.hash(frame.tool_call_id), number, INTERIM if frame.interim else FINAL))
        if isinstance(frame, MessageFrame | ResponseFrame):
            found += [Use(tip.hash(call.id), number, part) for part, call in enumerate(frame.tool_calls)]
    return found


def _settle(tip: Tip, version: int, restored: list[Item], changed: list[Result], lost: Lost) -> None:
    """Find for the results that may have changed whether they are visible, and by what they are hidden if not."""
    results = {result.item.version: result for result in changed}
    queue = [item for item in restored if item.calls]
    for item in restored:
        result = result_of(tip, item)
        if result is not None:
            results.setdefault(item.version, result)
    met: set[int] = set()
    while queue or results:
        while queue:
            for result in results_of(tip, queue.pop().version):
                if result.item.version not in met:
                    results.setdefault(result.item.version, result)
        if not results:
            break
        number = min(results)
        result = results.pop(number)
        met.add(number)
        item = result.item
        if not tip.path_of(item.shared).has(number):
            continue
        was = item.state
        _settle_one(tip, version, result, lost.get(number))
        if item.state != was and item.calls:
            queue.append(item)


def _settle_one(tip: Tip, version: int, result: Result, had: CallKey | None) -> None:
    item = result.item
    reasons = reasons_of(tip, result)
    if not reasons:
        item.why = None
    elif item.why is None and item.ended is None and had is not None and result.call is None:
        rule = "duplicate-result" if is_on_path(tip, had.version) else "orphan-result"
        item.why = Reason(RULE[rule], version)
    elif item.why is None or not _holds(tip, item.why):
        item.why = first(reasons)


def _holds(tip: Tip, reason: Reason) -> bool:
    """Return whether the event of a reason is on the path still; a rewind always is."""
    if tip.own.is_rewind(reason.by) or tip.shared.is_rewind(reason.by):
        return True
    return tip.path_of(tip.frames.is_shared(reason.by)).has(reason.by)
