"""Rule 7: which call each tool result answers (DESIGN section 4)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from .view import Hiding, Item, View

CallKey = tuple[Item, int]


@dataclass
class Pairing:
    """`answers`: the result of each call answered, a call being an item and its place in it; `hidden`: the results
    that are not shown and why; `unanswered`: the visible calls without a result, in order."""

    answers: dict[CallKey, Item] = field(default_factory=dict)
    hidden: dict[Item, Hiding] = field(default_factory=dict)
    unanswered: list[CallKey] = field(default_factory=list)


def pair(view: View) -> Pairing:
    """Pair the results of a view with its calls, through the view in order."""
    pairing = Pairing()
    waiting: dict[str, list[CallKey]] = {}
    answered: set[str] = set()
    for item in _with_removed_calls(view):
        if item.hidden is None and item.role == "tool" and item.tool_call_id is not None:
            key = _nearest(waiting.get(item.tool_call_id, []), item)
            if key is None:
                rule = "duplicate-result" if item.tool_call_id in answered else "orphan-result"
                pairing.hidden[item] = Hiding(rule, item.version)
                continue
            waiting[item.tool_call_id].remove(key)
            answered.add(item.tool_call_id)
            removal = key[0].removed.get(key[1])
            if removal is not None:
                pairing.hidden[item] = removal
                continue
            pairing.answers[key] = item
        for index, call in enumerate(item.calls):
            removal = item.removed.get(index)
            if removal is None or removal.unanswered:
                waiting.setdefault(call.id, []).append((item, index))
    left = {key for keys in waiting.values() for key in keys}
    pairing.unanswered = [
        (item, index) for item in view.visible for index, _ in item.visible_calls if (item, index) in left
    ]
    return pairing


def _nearest(waiting: list[CallKey], result: Item) -> CallKey | None:
    """The last of the calls that `result` can answer: one that a transfer removed counts for later results only."""
    for item, index in reversed(waiting):
        removal = item.removed.get(index)
        if removal is None or removal.by < result.version:
            return item, index
    return None


def _with_removed_calls(view: View) -> Iterable[Item]:
    """The visible items and, at their places, those that a transfer hid while a call of theirs was unanswered."""
    gone = [
        item
        for item in view.items.values()
        if item.hidden is not None and item.hidden.transfer and any(gone.unanswered for gone in item.removed.values())
    ]
    return sorted([*view.visible, *gone], key=lambda item: item.place) if gone else view.visible
