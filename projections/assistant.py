"""Rule 3: assistants, and the prompts that they stand behind (DESIGN section 4)."""

from __future__ import annotations

from turnlog.store.events import AssistantFrame

from .state import State
from .view import Hiding, Item


def declare(state: State, version: int, scope: str, frame: AssistantFrame) -> None:
    """Take in an assistant: the first one becomes active, the active one may get a new prompt."""
    known = state.learn(frame.assistant, version, frame)
    name = frame.assistant
    if state.active is None:
        state.activate(name, version, scope)
        if known.system is not None and known.system.text:
            state.place(version, "prompt", scope, "system", name, version, "system", head=True)
        if known.first_message is not None and known.first_message.text:
            state.place(version, "first_message", scope, "assistant", name, version, "first_message")
    elif state.active == name and frame.system is not None:
        mine = state.view.of(scope, lambda item: item.is_prompt and item.assistant == name)
        newest = max(mine, key=lambda item: item.version, default=None)
        if newest is not None:
            state.view.hide([newest], Hiding("assistant", version))
        if frame.system:
            place = (0, -version) if newest is None else newest.place
            state.view.add(Item(version, "prompt", place, scope, "system", name, version, "system"))
