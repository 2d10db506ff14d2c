"""Findings on a view, each with its event and one line of advice (DESIGN section 7)."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from .fold import Fold
from .pairing import Pairing

ADVICE = {
    "unanswered-call": "the call has no result in this view: append one before the model is called again",
    "orphan-result": "no call in this view is answered by this result: append the call first, or under the same id",
    "duplicate-result": "the call was answered already: append one result for each call",
    "summary-covers-nothing-visible": "nothing in its range was visible: give the range of what the summary tells",
    "unknown-event": "this build does not know the event's type, version or a value in it: upgrade turnlog to see it",
}


class Problem(msgspec.Struct, frozen=True, omit_defaults=True):
    """A finding: its rule, the version of the event concerned, what to do and, of a call, its id."""

    rule: str
    version: int
    advice: str
    call: str | None = None


def problems(fold: Fold, pairing: Pairing) -> list[Problem]:
    """The findings on a view, by version, rule and call."""
    return [
        Problem(rule, version, ADVICE[rule], call or None) for version, rule, call in sorted(_findings(fold, pairing))
    ]


def _findings(fold: Fold, pairing: Pairing) -> Iterator[tuple[int, str, str]]:
    for item, index in pairing.unanswered:
        yield item.version, "unanswered-call", item.calls[index].id
    for item, hiding in pairing.hidden.items():
        if not hiding.transfer:
            yield item.version, hiding.rule, ""
    for item in fold.state.view.items.values():
        if item.hidden is not None and item.hidden.rule == "summary-covers-nothing-visible":
            yield item.version, item.hidden.rule, ""
    for version in fold.unknown:
        yield version, "unknown-event", ""
