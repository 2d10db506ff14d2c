"""Handoffs: each transfer of a conversation, with what it hid, kept and added."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from turnlog.store import Store
from turnlog.store.events import Mode, TransferFrame

from .fold import Fold
from .history import Hidden, hidden_item
from .pairing import Pairing, pair
from .problems import Problem, problems
from .reading import Reading
from .render import Contents, VisibleMessage
from .view import Item


class Handoff(msgspec.Struct, frozen=True, omit_defaults=True, rename={"from_": "from"}):
    """A transfer: the messages visible `before` and `after` it, what it `hid`, how many it `kept` and what it `added`.

    `from_` is the assistant that was active; `problems` are the findings that were not there before; `abandoned` says
    that a rewind took the transfer off the path since.
    """

    conversation: str
    scope: str
    version: int
    from_: str | None
    to: str
    mode: Mode
    context: str
    before: int
    after: int
    kept: int
    hid: list[Hidden]
    added: list[VisibleMessage]
    tool_call_id: str | None = None
    reason: str | None = None
    inferred: bool = False
    problems: list[Problem] = []
    abandoned: bool = False


def handoffs(
    store: Store,
    conversation: str,
    scope: str | None = None,
    mode: Mode | None = None,
    modes: Mapping[int, Mode] | None = None,
) -> list[Handoff]:
    """The transfers of a conversation, in one scope or all, in order; `mode` and `modes` as in `history`.

    :raises NotFound: there is no such conversation or scope.
    :raises InvalidEvent: a mode is unknown.
    """
    reading = Reading(store, conversation)
    scopes = store.scopes_in_use(conversation) if scope is None else [scope]
    found = [handoff for name in scopes for handoff in _of_scope(reading, name, mode, modes)]
    return sorted(found, key=lambda handoff: handoff.version)


def _of_scope(reading: Reading, scope: str, mode: Mode | None, modes: Mapping[int, Mode] | None) -> list[Handoff]:
    fold = Fold(scope, reading.modes(scope, mode, modes))
    contents = Contents({}, reading.redactions)
    found = []
    for event in reading.shapes(scope):
        frame = event.frame
        if not isinstance(frame, TransferFrame):
            fold.apply(event)
            continue
        active = fold.state.active
        known = set(problems(fold, pair(fold.state.view), []))
        before = _visible(fold, pair(fold.state.view))
        calls = {(item, index) for item in before for index, _ in item.visible_calls}
        fold.apply(event)
        pairing = pair(fold.state.view)
        after = _visible(fold, pairing)
        stays = set(after)
        hid = [hidden_item(item, item.hidden or pairing.hidden[item]) for item in before if item not in stays]
        hid += [
            hidden_item(item, item.removed[index], item.calls[index].id)
            for item, index in calls
            if item in stays and index in item.removed
        ]
        kept = stays & set(before)
        added = [item for item in after if item not in kept]
        told = {event.version, *(item.source for item in added)}
        contents.events.update((row.version, row) for row in reading.store.rows_of(reading.stream, told))
        found.append(
            Handoff(
                conversation=reading.conversation,
                scope=scope,
                version=event.version,
                from_=active,
                to=frame.to,
                mode=fold.modes.of(event.version, frame),
                context="all" if frame.context is None else frame.context.type,
                before=len(before),
                after=len(after),
                kept=len(kept),
                hid=sorted(hid, key=lambda hidden: (hidden.version, hidden.origin, hidden.call or "")),
                added=list(map(contents.message, added)),
                tool_call_id=frame.tool_call_id,
                reason=contents.events[event.version].body.get("reason"),
                inferred=bool(frame.inferred),
                problems=[problem for problem in problems(fold, pairing, []) if problem not in known],
            )
        )
    on_path = {event.version for event in fold.path(scope)}
    return [msgspec.structs.replace(handoff, abandoned=handoff.version not in on_path) for handoff in found]


def _visible(fold: Fold, pairing: Pairing) -> list[Item]:
    return [item for item in fold.state.view.visible if item not in pairing.hidden]
