"""The messages of a view of ranges, paired (rule 7): each in order, or the last ones read backwards from the end."""

from __future__ import annotations

from collections.abc import Iterator

from .pairing import Pairing
from .ranges import MANY
from .shaping import Shaped, Unsure
from .view import Item

# Rows to read beyond those that are asked for: the last results' calls stand before them.
_BEFORE = 6


def each_item(shaped: Shaped, bodies: bool = True) -> Iterator[Item]:
    """The visible items in order, each as soon as it is read; `bodies` as in `Rows.items`.

    :raises Unsure: a removed call that ranges do not remember might have taken a result.
    """
    gone = set(shaped.own.gone)
    pairing = Pairing()
    for item in shaped.forwards(bodies=bodies):
        if item.role == "tool" or item.calls:
            if item.role == "tool" and item.calls:
                raise Unsure
            call = pairing.meet(item)
            if call is not None:
                _check(shaped, call[0], item)
            elif item in gone or item in pairing.hidden:
                continue
        yield item


def last_items(shaped: Shaped, count: int) -> list[Item]:
    """The last `count` visible items, in order.

    A call takes the nearest later result of its id that no later call has taken, which is what pairing from the front
    comes to.

    :raises Unsure: a removed call that ranges do not remember might have taken the result.
    """
    gone = set(shaped.own.gone)
    items: list[Item] = []
    # Whether each is visible; None of a result, before its call is met.
    shown: list[bool | None] = []
    pending: dict[str, list[int]] = {}
    settled = found = 0
    for item in shaped.backwards(min(count + _BEFORE, MANY)) if count else ():
        for index in reversed(range(len(item.calls))) if item.calls else ():
            removal = item.removed.get(index)
            if removal is not None and not removal.unanswered:
                continue
            waiting = pending.get(item.calls[index].id, [])
            for at in reversed(waiting):
                if removal is None or removal.by < items[at].version:
                    waiting.remove(at)
                    shown[at] = removal is None
                    if removal is None:
                        _check(shaped, item, items[at])
                    break
        if gone and item in gone:
            continue
        if item.role == "tool" and item.tool_call_id is not None:
            if item.calls:
                raise Unsure
            pending.setdefault(item.tool_call_id, []).append(len(items))
            shown.append(None)
        else:
            shown.append(True)
        items.append(item)
        while settled < len(shown) and shown[settled] is not None:
            found += shown[settled] is True
            settled += 1
        if found >= count:
            break
    visible = [item for item, is_shown in zip(items, shown, strict=True) if is_shown]
    return visible[:count][::-1]


def _check(shaped: Shaped, call: Item, result: Item) -> None:
    """Refuse a pair between which a transfer may have removed a call that counts, and that ranges do not remember."""
    transfers = shaped.own.choosing if call.scope == shaped.own.scope else shaped.own.dropping
    if transfers and any(call.version < transfer < result.version for transfer in transfers):
        raise Unsure
