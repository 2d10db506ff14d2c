"""Explain: why a message is or is not visible (DESIGN section 7)."""

from __future__ import annotations

from datetime import datetime

import msgspec

from turnlog.store import Store
from turnlog.store.events import SummaryFrame, TransferFrame

from .history import History, view_of
from .reading import Reading
from .state import SHARED
from .view import Item


class Passed(msgspec.Struct, frozen=True):
    """A transfer or summary that an item outlived: `what` is the transfer's mode, or `summary`."""

    version: int
    what: str


class Explained(msgspec.Struct, frozen=True, omit_defaults=True):
    """What became of one thing that an event placed, in one scope.

    Visible ones have a `place` among the messages, from 0; the others the `rule` and the version of the event that
    hid it. `calls` are those of its calls that were removed, each with its rule and event.
    """

    scope: str
    origin: str
    passed: list[Passed]
    place: int | None = None
    rule: str | None = None
    by: int | None = None
    calls: list[tuple[str, str, int]] = []


def explain(store: Store, conversation: str, version: int, at: int | datetime | None = None) -> list[Explained]:
    """What became of the event of `version`, in each scope that shows such events, at a point.

    Empty for an event that places nothing to be seen, such as a `clear`.

    :raises NotFound: there is no such conversation or version.
    """
    event = store.event(conversation, version)
    reading = Reading(store, conversation, at)
    scopes = store.scopes(conversation) if event.scope == SHARED else [event.scope or "chat"]
    return [explained for scope in scopes for explained in _in_scope(view_of(reading, scope), version)]


def _in_scope(view: History, version: int) -> list[Explained]:
    return [_explained(view, item) for item in view.everything if item.version == version]


def _explained(view: History, item: Item) -> Explained:
    hiding = view.hiding(item)
    until = view.version + 1 if hiding is None else hiding.by
    return Explained(
        scope=view.scope,
        origin=item.origin,
        passed=_passed(view, item, until),
        place=view.items.index(item) if hiding is None else None,
        rule=None if hiding is None else hiding.rule,
        by=None if hiding is None else hiding.by,
        calls=[] if hiding else [(item.calls[at].id, gone.rule, gone.by) for at, gone in sorted(item.removed.items())],
    )


def _passed(view: History, item: Item, until: int) -> list[Passed]:
    found = []
    path = view.fold.path(item.scope)
    if all(event.version != item.version for event in path):
        return []
    for event in path:
        frame = event.frame
        if not item.version < event.version < until:
            continue
        if isinstance(frame, TransferFrame):
            found.append(Passed(event.version, view.fold.modes.of(event.version, frame)))
        elif isinstance(frame, SummaryFrame):
            found.append(Passed(event.version, "summary"))
    return found
