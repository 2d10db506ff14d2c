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
    _waiting: dict[str, list[CallKey]] = field(default_factory=dict)
    _answered: set[str] = field(default_factory=set)

    def meet(self, item: Item) -> CallKey | None:
        """Go on with the next item in order; the visible call that it answers, if it is a result that does."""
        answers = None
        if item.role == "tool" and item.hidden is None and item.tool_call_id is not None:
            call_id = item.tool_call_id
            key = nearest(self._waiting.get(call_id, []), item)
            if key is None:
                rule = "duplicate-result" if call_id in self._answered else "orphan-result"
                self.hidden[item] = Hiding(rule, item.version)
                return None
            self._waiting[call_id].remove(key)
            self._answered.add(call_id)
            removal = key[0].removed.get(key[1])
            if removal is not None:
                self.hidden[item] = removal
                self.late[key] = item
                return None
            self.answers[key] = item
            answers = key
        for index, call in enumerate(item.calls) if item.calls else ():
            removal = item.removed.get(index)
            if removal is None or removal.unanswered:
                self._waiting.setdefault(call.id, []).append((item, index))
        return answers

    def end(self, visible: Sequence[Item]) -> None:
        """Tell which of the visible calls no result has answered."""
        left = {key for keys in self._waiting.values() for key in keys}
        callers = [item for item in visible if item.calls] if left else []
        self.unanswered = [key for item in callers for index, _ in item.visible_calls if (key := (item, index)) in left]


def pair(view: View) -> Pairing:
    """Pair the results of a view with its calls, through the view in order."""
    gone = [item for item in view.items.values() if is_gone_with_open_calls(item)]
    pairing = Pairing()
    for item in sorted([*view.visible, *gone], key=lambda item: item.place) if gone else view.visible:
        pairing.meet(item)
    pairing.end(view.visible)
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
