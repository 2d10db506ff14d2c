"""Rule 5: a summary in the place of what it covers (DESIGN section 4)."""

from __future__ import annotations

from turnlog.store.events import SummaryFrame

from .state import SHARED, State
from .view import Hiding, Item


def summarize(state: State, version: int, scope: str, frame: SummaryFrame) -> None:
    """Put a summary in the place of the visible messages of its range."""
    first, last = frame.first or version, frame.last or version
    covered = state.view.of(scope, lambda item: covers(first, last, item)) if frame.first is not None else []
    item = Item(
        version,
        "summary",
        covered[0].place if covered else (version, 0),
        scope,
        frame.role,
        None if scope == SHARED else state.active,
        version,
        "text",
        ("text",) if frame.text else (),
        covers=(first, last),
        summary_of=frame.summary_of,
    )
    state.view.hide(covered, Hiding("summary", version))
    state.view.add(item)
    if frame.first is not None and not covered:
        state.view.hide([item], Hiding("summary-covers-nothing-visible", version))


def covers(first: int, last: int, item: Item) -> bool:
    """Whether a summary of this range covers an item: never a prompt or note, another summary only whole."""
    if item.is_prompt or item.is_note:
        return False
    low, high = item.covers or (item.version, item.version)
    return first <= low and high <= last
