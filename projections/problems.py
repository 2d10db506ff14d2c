"""Findings on a view, each with its event and one line of advice (DESIGN section 7; docs/findings.md explains them)."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from .fold import Fold
from .pairing import Pairing
from .view import Item

ADVICE = {
    "several-prompts": "prompts of different assistants are in force at once: transfer with a swap mode, or clear one",
    "no-prompt": "an assistant is active and no prompt is visible: give it one with the transfer or an assistant event",
    "foreign-tool-calls": "the active assistant has no such tool and may imitate the call: remove it, or give the tool",
    "unanswered-call": "the call has no result in this view: append one before the model is called again",
    "orphan-result": "no call in this view is answered by this result: append the call first, or under the same id",
    "duplicate-result": "the call was answered already: append one result for each call",
    "self-transfer": "the assistant handed over to itself: its prompt and first message may stand there twice",
    "unknown-from": "the assistant that it hands over from was not the active one: check who wrote the transfer",
    "repeated-first-message": "the same assistant's first message is visible twice: let it wait for the user instead",
    "summary-covers-nothing-visible": "nothing in its range was visible: give the range of what the summary tells",
    "summary-tells-hidden": "the summary covers what a transfer has hidden, and may tell it: begin its range later",
    "unknown-event": "this build does not know the event's type, version or a value in it: upgrade turnlog to see it",
    "redacted-since-request": "a model was sent what has been redacted since: see what its provider keeps",
}


class Problem(msgspec.Struct, frozen=True, omit_defaults=True):
    """A finding: its rule, the version of the event concerned, what to do and, of a call, its id."""

    rule: str
    version: int
    advice: str
    call: str | None = None


def problems(fold: Fold, pairing: Pairing, redacted_requests: list[int]) -> list[Problem]:
    """The findings on a view, by version, rule and call."""
    found = [
        *_on_results(fold, pairing),
        *_on_assistants(fold, pairing),
        *_on_summaries(fold),
        *((version, "unknown-event", "") for version in fold.unknown),
        *((version, "redacted-since-request", "") for version in redacted_requests),
    ]
    return [Problem(rule, version, ADVICE[rule], call or None) for version, rule, call in sorted(found)]


def _on_results(fold: Fold, pairing: Pairing) -> Iterator[tuple[int, str, str]]:
    for item, index in pairing.unanswered:
        yield item.version, "unanswered-call", item.calls[index].id
    for item, hiding in pairing.hidden.items():
        if not hiding.transfer:
            yield item.version, hiding.rule, ""


def _on_assistants(fold: Fold, pairing: Pairing) -> Iterator[tuple[int, str, str]]:
    state = fold.state
    prompts = [item for item in state.view.visible if item.is_prompt]
    if len({item.assistant for item in prompts}) > 1:
        yield max(item.version for item in prompts), "several-prompts", ""
    if state.active is not None and not prompts:
        yield state.active_since, "no-prompt", ""
    known = state.known.get(state.active or "")
    if known is not None and known.tools is not None:
        for item in state.view.visible:
            for _, call in item.visible_calls:
                if call.name not in known.tools[1]:
                    yield item.version, "foreign-tool-calls", call.id
    for version in state.self_transfers:
        yield version, "self-transfer", ""
    for version in state.unknown_froms:
        yield version, "unknown-from", ""
    seen: set[str | None] = set()
    for item in state.view.visible:
        if item.origin == "first_message":
            if item.assistant in seen:
                yield item.version, "repeated-first-message", ""
            seen.add(item.assistant)


def _on_summaries(fold: Fold) -> Iterator[tuple[int, str, str]]:
    items = fold.state.view.items.values()
    gone = [item for item in items if item.hidden is not None and item.hidden.transfer and not item.is_prompt]
    for item in items:
        if item.origin != "summary":
            continue
        if item.hidden is None and any(_tells(item, other) for other in gone):
            yield item.version, "summary-tells-hidden", ""
        elif item.hidden is not None and item.hidden.rule == "summary-covers-nothing-visible":
            yield item.version, item.hidden.rule, ""


def _tells(summary: Item, other: Item) -> bool:
    first, last = summary.covers or (0, 0)
    low, high = other.covers or (other.version, other.version)
    return other.scope == summary.scope and first <= low and high <= last and other is not summary
