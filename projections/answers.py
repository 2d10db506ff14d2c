"""Which result answers which call among the messages of a view: rule 7 on what is left of it."""

from __future__ import annotations

from collections.abc import Sequence

from .render import VisibleMessage

CallPlace = tuple[int, int]  # A message's index in its list, and a call's index in that message.


def answers(messages: Sequence[VisibleMessage]) -> dict[CallPlace, int]:
    """The index of the result that answers each call; calls without one are not there.

    Only an assistant calls. Of a view that `last` has cut, a result whose call is gone answers none.
    """
    found: dict[CallPlace, int] = {}
    waiting: dict[str, list[CallPlace]] = {}
    for index, message in enumerate(messages):
        if message.role == "tool" and waiting.get(message.tool_call_id or ""):
            found[waiting[message.tool_call_id or ""].pop()] = index
        elif message.role == "assistant":
            for number, call in enumerate(message.tool_calls):
                waiting.setdefault(call.id, []).append((index, number))
    return found
