"""Pair tool results with calls, and find what hides each message of a path (rule 7)."""

from __future__ import annotations

from oracle_items import Item, Json, Key, Reason

CallKey = tuple[int, int]  # the version of the message of a call, and the index of the call in it


def pairs(path: list[Item]) -> dict[int, CallKey]:
    """Return which call each result of a merged path belongs to, whatever is visible."""
    found: dict[int, CallKey] = {}
    answered: set[CallKey] = set()
    earlier: list[tuple[CallKey, Json]] = []
    for item in path:
        if item.role == "tool":
            same = [(key, call) for key, call in earlier if call["id"] == item.tool_call_id]
            named = [(key, call) for key, call in same if item.name and call["name"] == item.name]
            fits = [key for key, _ in named or same if key not in answered]
            if fits:
                found[item.version] = max(fits, key=lambda key: (key[0], -key[1]))
                answered |= set() if item.interim else {found[item.version]}
        earlier += [((item.version, index), call) for index, call in enumerate(item.calls)]
    return found


def hiding(path: list[Item]) -> dict[Key, list[Reason]]:
    """Return all that hides each item of a merged path now; for a visible item that is nothing."""
    answers, found = pairs(path), dict[Key, list[Reason]]()
    callers = {item.version: item for item in path if item.calls}
    for item in path:
        reasons = [item.ended] if item.ended else []
        if item.role == "tool" and item.version not in answers:
            reasons.append((stray(path, item), item.version))
        elif item.role == "tool":
            call = answers[item.version]
            caller = callers[call[0]]
            taken, ended = caller.taken[call[1]], found[caller.key]
            reasons += [taken] if taken else []
            reasons += [("orphan-result", first(ended)[1])] if ended else []
            later = [other for other in answers if answers[other] == call and other > item.version]
            reasons += [("replaced-result", min(later))] if item.interim and later else []
        found[item.key] = reasons
    return found


def first(reasons: list[Reason]) -> Reason:
    """Return the reason whose event came first; of one event what ends the message goes before what hides it."""
    return min(reasons, key=lambda reason: reason[1])


def stray(path: list[Item], item: Item) -> str:
    """Return the rule that hides a result without a call: is there a call of its id before it on the path?"""
    before = [call["id"] for other in path if other.version < item.version for call in other.calls]
    return "duplicate-result" if item.tool_call_id in before else "orphan-result"
