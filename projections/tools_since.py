"""Since which event the active assistant has had its tools."""

from __future__ import annotations

from .history import History


def tools_since(history: History) -> int | None:
    """The version of the event that made the active assistant active or gave it its tools, whichever came later;
    None if no assistant is active."""
    state = history.fold.state
    if state.active is None:
        return None
    tools = state.known[state.active].tools
    return state.active_since if tools is None else max(state.active_since, tools[0])
