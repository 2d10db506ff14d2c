"""Plan: where the cache points of a request are best put (DESIGN section 6)."""

from __future__ import annotations

from turnlog.store.arguments import instance_of, whole_number
from turnlog.store.events import CachePoint, Messages, System, Tools

from .cache_points import Places, within_budget
from .history import History
from .render import VisibleMessage


def plan(history: History, previous: History | None = None, limit: int = 4) -> list[CachePoint]:
    """At most `limit` points in order: after the tools, after the system messages, after what the `previous` request
    had too, and after the newest message that no open call precedes.

    The first two are there only if the history has tools and system messages.

    :raises InvalidArgument: an argument is not what it has to be.
    """
    whole_number("limit", limit, 0, "a number of points")
    instance_of("history", history, History, "a history")
    if previous is not None:
        instance_of("previous", previous, History, "a history")
    messages = history.messages
    points: list[CachePoint] = []
    if history.tools:
        points.append(Tools())
    if any(message.role == "system" for message in messages):
        points.append(System())
    shared = _shared(previous, history) if previous is not None else 0
    points += [Messages(n) for n in (shared, _closed(history)) if n > 0]
    return within_budget(Places.of(messages).canonical(points), limit)


def _shared(previous: History, history: History) -> int:
    """How many messages that count stand in both before the first difference; none if the tools differ."""
    if previous.tools != history.tools:
        return 0
    count = 0
    for before, after in zip(previous.messages, history.messages, strict=False):
        if _said(before) != _said(after):
            break
        count += after.role != "system"
    return count


def _closed(history: History) -> int:
    """How many messages that count there are up to the first with a call without a final result, itself included."""
    final = {(pair.call, pair.number) for pair in history.pairs if not pair.interim}
    count = 0
    for message in history.messages:
        count += message.role != "system"
        calls = range(len(message.tool_calls)) if message.role == "assistant" else ()
        if any((message.version, number) not in final for number in calls):
            break
    return count


def _said(message: VisibleMessage) -> tuple[object, ...]:
    return message.role, message.content, message.tool_calls, message.tool_call_id, message.name
