"""Rule 7: which call each tool result answers (DESIGN section 4)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from .view import Hiding, Item, View

CallKey = tuple[Item, int]


@dataclass
class Pairing:
    """Which result answers which call, a call being an item and its place in it.

    `answers` are of visible calls, `late` of calls that a transfer had removed; `hidden` has the results that are not
    shown and why, `unanswered` the visible calls without a result, in order.
    """

    answers: dict[CallKey, Item] = field(default_factory=dict)
    late: dict[CallKey, Item] = field(default_factory=dict)
    hidden: dict[Item, Hiding] = field(default_factory=dict)
    unanswered: list[CallKey] = field(default_factory=list)


def pair(view: View) -> Pairing:
    """Pair the results of a view with its calls, through the view in order."""
    gone = [item for item in view.items.values() if is_gone_with_open_calls(item)]
    return pair_items(view.visible, gone)


def pair_items(visible: Sequence[Item], gone: Sequence[Item]) -> Pairing:
    """Pair visible items, in order; `gone` are those that a transfer hid while a call of theirs was unanswered."""
    pairing = Pairing()
    waiting: dict[str, list[CallKey]] = {}
    answered: set[str] = set()
    for item in sorted([*visible, *gone], key=lambda item: item.place) if gone else visible:
        if item.role == "tool" and item.hidden is None and item.tool_call_id is not None:
            key = nearest(waiting.get(item.tool_call_id, []), item)
            if key is None:
                rule = "duplicate-result" if item.tool_call_id in answered else "orphan-result"
                pairing.hidden[item] = Hiding(rule, item.version)
                continue
            waiting[item.tool_call_id].remove(key)
            answered.add(item.tool_call_id)
            removal = key[0].removed.get(key[1])
            if removal is not None:
                pairing.hidden[item] = removal
                pairing.late[key] = item
                continue
            pairing.answers[key] = item
        for index, call in enumerate(item.calls) if item.calls else ():
            removal = item.removed.get(index)
            if removal is None or removal.unanswered:
                waiting.setdefault(call.id, []).append((item, index))
    left = {key for keys in waiting.values() for key in keys}
    callers = [item for item in visible if item.calls] if left else []
    pairing.unanswered = [(item, index) for item in callers for index, _ in item.visible_calls if (item, index) in left]
    return pairing


def nearest(waiting: list[CallKey], result: Item) -> CallKey | None:
    """The last of the calls that `result` can answer: one that a transfer removed counts for later results only."""
    for item, index in reversed(waiting):
        removal = item.removed.get(index)
        if removal is None or removal.by < result.version:
            return item, index
    return None


def is_gone_with_open_calls(item: Item) -> bool:
    """Whether a transfer hid an item while a call of it was unanswered: the call still counts, at its place."""
    hidden = item.hidden is not None and item.hidden.transfer
    return hidden and any(removal.unanswered for removal in item.removed.values())
