"""Rule 5: a summary in the place of what it covers (docs/design.md)."""

from __future__ import annotations

from collections.abc import Collection

from turnlog.store.events import SummaryFrame
from turnlog.store.spans import PLACES, TEXT, version_of

from .item import MESSAGE, RESPONSE, ROLE, RULE, SUMMARY, Item, item_of
from .pairs import result_of, results_of, settle_results
from .tip import Tip


def summarize(tip: Tip, version: int, shared: bool, frame: SummaryFrame) -> None:
    """Put a summary in the place of what its range covers of its scope, or end it at once if that is nothing."""
    active = None if shared else tip.active
    summary = Item(
        place=PLACES * version,
        version=version,
        origin=SUMMARY,
        role=ROLE[frame.role],
        assistant=None if active is None else tip.code(active.name, version),
        source=version,
        shared=shared,
        parts=TEXT if frame.text else 0,
        calls=0,
    )
    if frame.first is not None and frame.last is not None:
        covered = _covered(tip, shared, frame.first, frame.last, frame.keep or ())
        seen = [item for item in covered if item.visible]
        counted = covered if shared else seen
        if counted:
            summary.place = counted[0].place
            if _cuts_pair(tip, covered):
                tip.note(version, "summary-cuts-pair")
            for item in covered:
                item.end(RULE["summary"], version)
            settle_results(tip, covered)
        else:
            summary.end(RULE["summary-covers-nothing-visible"], version)
            tip.note(version, "summary-covers-nothing-visible")
    if not frame.text and int(tip.fact("plain") or 0) > summary.place:
        tip.set_fact("plain", str(summary.place), version)
    tip.place(summary)


def covered_by(tip: Tip, summary: Item) -> list[Item]:
    """Return what was visible of what a summary covered when it came."""
    rule = RULE["summary"]
    spans = tip.rows.ended_at(tip.line, summary.version)
    return [item_of(span) for span in spans if span.rule == rule and span.by is None and span.why is None]


def _covered(tip: Tip, shared: bool, first: int, last: int, keep: Collection[int]) -> list[Item]:
    """Return what is held of a range, in order: no prompt, no note, an earlier summary only as a whole."""
    kept = _widened(tip, keep) if keep else set()
    found = []
    # A summary has the place of something in its range, so that one that is covered as a whole is met here.
    for row in tip.rows.held(tip.line, shared, low=PLACES * first, high=PLACES * last + PLACES - 1):
        version = version_of(row)
        low, high = version, version
        if row.origin == SUMMARY:
            earlier = tip.frames[version]
            if isinstance(earlier, SummaryFrame) and earlier.first is not None and earlier.last is not None:
                low, high = earlier.first, earlier.last
        if first <= low and high <= last and version not in kept:
            found.append(row)
    items = tip.items(found)
    return [item for item in items if not item.is_note]


def _widened(tip: Tip, keep: Collection[int]) -> set[int]:
    """Return versions with whole pairs: a message with all its calls and all their results."""
    kept: set[int] = set()
    left = list(keep)
    while left:
        version = left.pop()
        if version in kept:
            continue
        kept.add(version)
        item = tip.said(version)
        if item is None or not tip.path_of(item.shared).has(version):
            continue
        if item.calls:
            left += [result.item.version for result in results_of(tip, version)]
        mine = result_of(tip, item)
        if mine is not None and mine.call is not None:
            left.append(mine.call.version)
    return kept


def _cuts_pair(tip: Tip, covered: list[Item]) -> bool:
    """Return whether one half of a pair of which both are visible is covered, and the other is not."""
    versions = {item.version for item in covered}
    for item in covered:
        if not item.visible or item.origin not in (MESSAGE, RESPONSE):
            continue
        for result in results_of(tip, item.version) if item.calls else ():
            there = result.call is not None and result.call.part not in item.removed
            if there and result.item.visible and result.item.version not in versions:
                return True
        mine = result_of(tip, item)
        call = None if mine is None else mine.call
        caller = None if call is None or call.version in versions else tip.said(call.version)
        if call is not None and caller is not None and caller.visible and call.part not in caller.removed:
            return True
    return False
