"""Rules 3, 4 and 6: what messages, assistants, transfers and clears do to a view (docs/design.md)."""

from __future__ import annotations

from functools import lru_cache
from itertools import chain
from typing import assert_never

from turnlog.store.events import (
    AssistantFrame,
    ClearFrame,
    Context,
    Frame,
    MessageFrame,
    Mode,
    ResponseFrame,
    RewindFrame,
    SummaryFrame,
    TransferFrame,
)
from turnlog.store.events.parts import PartKind, has_other, has_text
from turnlog.store.spans import OTHER, PLACES, TEXT, TEXT_ONLY, Form

from .item import (
    ASSISTANT,
    DESTINATION,
    FIRST_MESSAGE,
    MESSAGE,
    PROMPT,
    RESPONSE,
    ROLE,
    RULE,
    SUMMARY,
    SYSTEM,
    USER,
    Item,
)
from .modes import WhatIf, effect_of
from .pairs import CallKey, add_calls, pair, results_of, settle_results
from .rewind import rewind
from .summary import covered_by, summarize
from .tip import Tip

SPEAKS = "assistant-speaks-first"


def apply(tip: Tip, version: int, shared: bool | None, frame: Frame, what_if: WhatIf) -> None:
    """Apply the next event; `shared` says whether it is of shared memory, None that it is of no scope."""
    match frame:
        case MessageFrame() | ResponseFrame(status="completed"):
            say(tip, version, bool(shared), frame)
            return
        case RewindFrame():
            tip.write_plain()
            rewind(tip, version, shared, frame.to)
        case AssistantFrame():
            tip.write_plain()
            declare(tip, version, frame)
        case TransferFrame():
            tip.write_plain()
            transfer(tip, version, frame, what_if.of(version, frame))
        case SummaryFrame():
            tip.write_plain()
            summarize(tip, version, bool(shared), frame)
        case ClearFrame():
            tip.write_plain()
            for item in tip.items(tip.rows.held(tip.line, bool(shared))):
                item.end(RULE["clear"], version)
            settle_results(tip, list(tip.touched.values()))
        case _:
            return
    tip.flush(version)


def say(tip: Tip, version: int, shared: bool, frame: MessageFrame | ResponseFrame) -> None:
    """Place a message, or a completed response that is not blank (rule 6)."""
    calls = len(frame.tool_calls)
    named, why = None, None
    if isinstance(frame, ResponseFrame):
        form = _form(RESPONSE, "assistant", shared, frame.parts, calls)
        if form.is_blank:
            return
    else:
        form = _form(MESSAGE, frame.role, shared, frame.parts, calls)
        named = frame.assistant
        if frame.role == "tool" and frame.tool_call_id is not None:
            why = pair(tip, version, frame)
    if named is None and not shared:
        named = tip.speaker
    tip.add_plain(version, form.packed(), None if named is None else tip.code(named, version), why)
    if calls:
        add_calls(tip, version, frame, why is None)
    if tip.touched:
        tip.settle_plain(version)


@lru_cache(1000)
def _form(origin: int, role: str, shared: bool, parts: tuple[PartKind, ...], calls: int) -> Form:
    bits = (TEXT if has_text(parts) else 0) | (OTHER if has_other(parts) else 0)
    return Form(origin, ROLE[role], shared, bits, calls)


def declare(tip: Tip, version: int, frame: AssistantFrame) -> None:
    """Take in an assistant: the first becomes active, the active one may get another prompt (rule 3)."""
    name = frame.assistant
    known = tip.learn(name, version, frame)
    active = tip.active
    if active is None:
        tip.activate(name, version, False)
        if known.has_system:
            place_text(tip, version, PROMPT, name, known.system, -PLACES * version)
        if known.has_first_message:
            place_text(tip, version, FIRST_MESSAGE, name, known.first_message, PLACES * version + 2)
    elif active.name == name and frame.system is not None:
        code = tip.code(name, version)
        mine = [item for item in tip.items(tip.rows.held_prompts(tip.line)) if item.assistant == code]
        newest = max(mine, key=lambda item: item.version, default=None)
        place = PLACES * version + 1 if active.rolling else -PLACES * version
        if newest is not None:
            newest.end(RULE["assistant"], version)
            place = newest.place
        if frame.system:
            place_text(tip, version, PROMPT, name, version, place)


def place_text(tip: Tip, version: int, origin: int, name: str | None, source: int | None, place: int) -> Item:
    """Place a prompt, a first message or a destination message of an assistant."""
    item = Item(
        place=place,
        version=version,
        origin=origin,
        role=SYSTEM if origin == PROMPT else ASSISTANT,
        assistant=None if name is None else tip.code(name, version),
        source=version if source is None else source,
        shared=False,
        parts=TEXT,
        calls=0,
    )
    return tip.place(item)


def transfer(tip: Tip, version: int, frame: TransferFrame, mode: Mode) -> None:
    """Hand over to another assistant (rule 4), on the view before it."""
    active = tip.active
    outgoing = None if active is None else active.name
    effect = effect_of(mode)
    if frame.to == outgoing:
        tip.note(version, "self-transfer")
    if frame.from_ is not None and frame.from_ != outgoing:
        tip.note(version, "unknown-from")
    meant = call_meant(tip, version, frame.tool_call_id)
    if meant is not None:
        tip.rows.insert_meaning(tip.line, version, meant.version, meant.part)
    elif effect.takes_calls:
        tip.note(version, "nothing-removed")
    destination = None
    if frame.message:
        speaker = frame.from_ if outgoing is None else outgoing
        destination = place_text(tip, version, DESTINATION, speaker, None, PLACES * version)
    if not effect.ends_everything and frame.context is not None:
        choose(tip, version, frame.context, destination)
    rule = RULE[f"transfer:{mode}"]
    if effect.ends_everything:
        for item in [*tip.items(tip.rows.held(tip.line, False, prompts=True)), *([destination] if destination else [])]:
            item.end(rule, version)
    elif effect.ends_prompts:
        for item in tip.items(tip.rows.held_prompts(tip.line)):
            item.end(rule, version)
    if effect.takes_calls:
        take_transfer_calls(tip, version, rule)
    settle_results(tip, list(tip.touched.values()))

    tip.activate(frame.to, version, not effect.at_head)
    known = tip.learn(frame.to, version, frame)
    if known.has_system:
        place = -PLACES * version if effect.at_head else PLACES * version + 1
        place_text(tip, version, PROMPT, frame.to, known.system, place)
    if known.has_first_message and frame.first_message_mode in (None, SPEAKS):
        place_text(tip, version, FIRST_MESSAGE, frame.to, known.first_message, PLACES * version + 2)


def call_meant(tip: Tip, version: int, call_id: str | None) -> CallKey | None:
    """Return the call that the `tool_call_id` of a transfer means (rule 4.1)."""
    if call_id is None:
        return None
    id = tip.hash(call_id)

    def is_meant_here(call: CallKey) -> bool:
        item = tip.said(call.version)
        if item is None or item.shared or not item.visible or call.part in item.removed:
            return False
        meant = tip.rows.meant_by(tip.line, call.version)
        return not any(part == call.part and tip.own.has(transfer) for transfer, part in meant)

    waiting = [CallKey(version, part) for version, part, _ in tip.rows.open_calls(tip.line, id, version)]
    latest = latest_answered(tip, id, version)
    for call in sorted({*waiting, *([latest] if latest else [])}, reverse=True):
        if is_meant_here(call):
            return call
    calls = sorted(CallKey(use.version, use.part) for use in tip.rows.uses(tip.line, id, version) if use.part >= 0)
    return next((call for call in reversed(calls) if is_meant_here(call)), None)


def latest_answered(tip: Tip, id: int, before: int) -> CallKey | None:
    """Return the call that the latest result of an id answers, of those on the path that answer one."""
    seen: set[int] = set()
    for use in tip.rows.uses(tip.line, id, before):
        if use.part < 0 and use.version not in seen:
            seen.add(use.version)
            item = tip.said(use.version)
            if use.call is not None and item is not None and tip.path_of(item.shared).has(use.version):
                return CallKey(use.call, use.call_part or 0)
    return None


def take_transfer_calls(tip: Tip, version: int, rule: int) -> None:
    """Take the calls that the transfers of the path meant, where they are still visible, and end their results."""
    done = int(tip.fact("taken") or 0)
    for transfer_, call_version, part in tip.rows.meanings(tip.line, done):
        if not tip.own.has(transfer_):
            continue
        item = tip.said(call_version)
        if item is None or not item.visible or part in item.removed:
            continue
        item.take(part, rule, version)
        for result in results_of(tip, CallKey(call_version, part)):
            if not result.item.shared and result.item.held:
                result.item.end(rule, version)
        if item.is_blank:
            item.end(rule, version)
    tip.set_fact("taken", str(version), version)


def choose(tip: Tip, version: int, context: Context, destination: Item | None) -> None:
    """End what the context of a transfer does not keep, and leave of some messages only their text (rule 4.3)."""
    rule = RULE[f"context:{context.type}"]
    own = [] if destination is None else [destination]
    ends: list[Item]
    match context.type:
        case "all":
            ends = []
        case "none":
            ends = [*tip.items(tip.rows.held(tip.line, False)), *own]
        case "lastNMessages":
            ends = before_last(tip, version, context.max_messages or 0, destination)
        case "userAndAssistantMessages":
            ends = []
            below = int(tip.fact("plain") or 0)
            for item in tip.items(tip.rows.held(tip.line, False, low=below)):
                if not only_text(item, rule, version):
                    ends.append(item)
            tip.set_fact("plain", str(PLACES * version + 1), version)
        case "previousAssistantMessages":
            active = tip.active
            if active is None:
                ends = [*tip.items(tip.rows.held(tip.line, False)), *own]
            else:
                late = chain(
                    tip.rows.held(tip.line, False, low=PLACES * active.since),
                    tip.rows.late(tip.line, active.since - 1),
                    tip.rows.not_visible(tip.line),
                )
                items = {item.place: item for item in tip.items(late) if not item.shared and item.origin != PROMPT}
                ends = [item for item in items.values() if not was_there(tip, item, active.since)] + own
        case _:
            assert_never(context.type)
    for item in ends:
        item.end(rule, version)


def before_last(tip: Tip, version: int, count: int, destination: Item | None) -> list[Item]:
    """Return what is held before the last `count` visible messages, and with none of them kept, everything."""
    wanted = count - (destination is not None)
    last = tip.rows.last_visible(tip.line, max(wanted, 0) + 1)
    if len(last) <= wanted:
        return []
    if wanted < 0:
        return [*tip.items(tip.rows.held(tip.line, False)), *([destination] if destination else [])]
    if wanted == 0 and destination is None:
        return tip.items(tip.rows.held(tip.line, False))
    high = PLACES * version if wanted == 0 else last[wanted - 1].place
    return tip.items(tip.rows.held(tip.line, False, high=high - 1))


def only_text(item: Item, rule: int, version: int) -> bool:
    """Leave of a message only its text, as `userAndAssistantMessages` does; return whether it is kept."""
    if not item.visible or not (item.role in (USER, ASSISTANT) or item.origin == SUMMARY):
        return False
    calls = item.visible_calls
    for call in calls:
        item.take(call, rule, version)
    if not item.parts & TEXT:
        return False
    if (calls or item.parts & OTHER) and not item.parts & TEXT_ONLY:
        item.take_parts(rule, version)
    return True


def was_there(tip: Tip, item: Item, since: int) -> bool:
    """Return whether a message was visible just before what the event of `since` placed as it made its assistant
    active, or was a summary of nothing but what was visible then."""
    spans = tip.rows.of_message(tip.line, item.version)
    if item.version != since or item.origin == DESTINATION:
        for span in spans:
            if span.origin == item.origin and span.why is None and span.since <= since < (span.until or since + 1):
                return True
    if item.origin != SUMMARY:
        return False
    covered = covered_by(tip, item)
    return bool(covered) and all(was_there(tip, each, since) for each in covered)
