"""Which event broke a prefix: why an item of an earlier request is not where it was in a later one."""

from __future__ import annotations

from collections.abc import Sequence

from turnlog.projections import History
from turnlog.store.events import TransferFrame

from .wire import Block


def breaker(was: Sequence[Block], now: Sequence[Block], at: int, before: History, after: History) -> int | None:
    """The version of the event by which item `at` of an earlier request is not the one of a later request.

    The items are those of system and messages in order. Looked for are what hid the earlier one, what put another in
    its place and, if the next one only moved up, what hid one before it that reads the same.
    """
    lost = was[at] if at < len(was) else None
    came = now[at] if at < len(now) else None
    hiders = _hiders(after)
    if lost is not None:
        by = _hider(lost, hiders) or _cut(lost, before, after)
        if by is not None:
            return by
    if came is not None and came.source not in {block.source for block in was}:
        return came.version
    for block in reversed(was[:at]):
        by = _hider(block, hiders)
        if by is not None:
            return by
    return None if lost is None else lost.version


def _hiders(after: History) -> dict[tuple[int, str, str | None], int]:
    return {(each.version, each.origin, each.call): each.by for each in after.hidden}


def _hider(block: Block, hiders: dict[tuple[int, str, str | None], int]) -> int | None:
    """The event that hid an item, or the whole message it was of."""
    return hiders.get(block.source) or hiders.get((block.version, block.origin, None))


def _cut(block: Block, before: History, after: History) -> int | None:
    """The later transfer whose context left a message only its text, if one did (DESIGN section 4, rule 4.2)."""
    if not any((item.version, item.origin) == block.source[:2] and item.text_only for item in after.items):
        return None
    for event in after.fold.path(after.scope):
        context = event.frame.context if isinstance(event.frame, TransferFrame) else None
        if event.version > before.version and context and context.type == "userAndAssistantMessages":
            return event.version
    return None
