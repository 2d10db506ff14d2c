"""Rule 4: what a transfer does to a view (DESIGN section 4)."""

from __future__ import annotations

from turnlog.store.events import Context, Mode, TransferFrame

from .pairing import CallKey, Pairing, pair
from .state import State
from .view import Hiding, Item

ROLLING: Mode = "rolling-history"
REMOVING: Mode = "swap-system-message-in-history-and-remove-transfer-tool-messages"
DELETING: Mode = "delete-history"


def transfer(state: State, version: int, scope: str, frame: TransferFrame, mode: Mode) -> None:
    """Apply rules 4.1 to 4.5 to the view before the transfer."""
    if frame.to == state.active:
        state.self_transfers.append(version)
    if frame.from_ is not None and frame.from_ != state.active:
        state.unknown_froms.append(version)
    # Which calls are answered, and by what, is told by the view before the transfer.
    removes = mode in (REMOVING, DELETING) or frame.context is not None
    before = pair(state.view) if removes else Pairing()
    call = _call_of(state, scope, frame.tool_call_id)
    if call is not None:
        state.transfer_calls.append(call)
    if frame.message:
        state.place(version, "destination_message", scope, "assistant", state.active, version, "message")
    if mode != DELETING and frame.context is not None:
        _filter(state, version, scope, frame.context, before)
    _apply_mode(state, version, scope, mode, before)

    state.activate(frame.to, version, scope)
    known = state.learn(frame.to, version, frame)
    if known.system is not None and known.system.text:
        head = mode != ROLLING
        state.place(version, "prompt", scope, "system", frame.to, known.system.version, "system", head=head)
    speaks = frame.first_message_mode in (None, "assistant-speaks-first")
    if speaks and known.first_message is not None and known.first_message.text:
        source = known.first_message.version
        state.place(version, "first_message", scope, "assistant", frame.to, source, "first_message")


def _filter(state: State, version: int, scope: str, context: Context, before: Pairing) -> None:
    """Rule 4.2: what the context leaves of the scope's messages."""
    messages = state.view.of(scope, lambda item: not item.is_prompt)
    hiding = Hiding(f"context:{context.type}", version, transfer=True)
    match context.type:
        case "all":
            kept = messages
        case "lastNMessages":
            count = context.max_messages or 0
            kept = messages[max(0, len(messages) - count) :]
        case "userAndAssistantMessages":
            kept = [item for item in messages if has_said_something(item)]
            _remove_calls([(item, index) for item in kept for index, _ in item.visible_calls], hiding, before)
            for item in kept:
                item.text_only = True
        case "previousAssistantMessages":
            kept = [item for item in messages if item in state.visible_before_active]
        case "none":
            kept = []
    stays = set(kept)
    _hide(state, [item for item in messages if item not in stays], hiding, before)


def has_said_something(item: Item) -> bool:
    """Whether `userAndAssistantMessages` keeps an item."""
    said = item.origin == "summary" or item.role in ("user", "assistant")
    return said and "text" in item.parts


def _apply_mode(state: State, version: int, scope: str, mode: Mode, before: Pairing) -> None:
    """Rule 4.3."""
    hiding = Hiding(f"transfer:{mode}", version, transfer=True)
    if mode == DELETING:
        _hide(state, state.view.of(scope), hiding, before)
    elif mode != ROLLING:
        state.view.hide(state.view.of(scope, lambda item: item.is_prompt), hiding)
    if mode == REMOVING:
        _remove_transfer_calls(state, scope, hiding, before)


def _remove_transfer_calls(state: State, scope: str, hiding: Hiding, before: Pairing) -> None:
    """Remove the calls of this and of every earlier transfer, with the results that answer them."""
    here = [key for key in state.transfer_calls if key[0].hidden is None and key[1] not in key[0].removed]
    _remove_calls(here, hiding, before)
    results = [before.answers[key] for key in here if key in before.answers]
    emptied = [item for item, _ in here if not item.parts and not item.visible_calls]
    gone = [item for item in [*results, *emptied] if item.scope == scope and item.hidden is None]
    _hide(state, gone, hiding, before)


def _call_of(state: State, scope: str, tool_call_id: str | None) -> CallKey | None:
    """The call of that id nearest before, and visible."""
    if tool_call_id is None:
        return None
    for item in reversed(state.view.of(scope)):
        for index, call in reversed(item.visible_calls):
            if call.id == tool_call_id:
                return item, index
    return None


def _hide(state: State, items: list[Item], hiding: Hiding, before: Pairing) -> None:
    _remove_calls([(item, index) for item in items for index, _ in item.visible_calls], hiding, before)
    state.view.hide(items, hiding)


def _remove_calls(keys: list[CallKey], hiding: Hiding, before: Pairing) -> None:
    """Remove calls; those that are still unanswered are remembered for rule 7."""
    unanswered = set(before.unanswered)
    for item, index in keys:
        item.removed[index] = Hiding(hiding.rule, hiding.by, transfer=True, unanswered=(item, index) in unanswered)
