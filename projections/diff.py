"""Diff: two views of one log, message by message, by the events they come from."""

from __future__ import annotations

from difflib import SequenceMatcher
from typing import Literal

import msgspec

from turnlog.store.arguments import instance_of

from .history import History
from .render import VisibleMessage

Kind = Literal["same", "changed", "moved", "only-a", "only-b"]


class Change(msgspec.Struct, frozen=True):
    """One message in one or both of two views. `moved`: in both, at another place; it is listed once for each."""

    kind: Kind
    a: VisibleMessage | None
    b: VisibleMessage | None


def diff(a: History, b: History) -> list[Change]:
    """What two views have in common and what not, in the order of both.

    Messages are the same if the same event placed them as the same thing, in a fork as in its parent; `changed` ones
    differ in what is visible of them, such as a call that one view removed.

    :raises InvalidArgument: `a` or `b` is not a history.
    """
    for field, view in (("a", a), ("b", b)):
        instance_of(field, view, History, "a history")
    in_a = dict(zip(a.identities, a.messages, strict=True))
    in_b = dict(zip(b.identities, b.messages, strict=True))
    keys_a, keys_b = list(in_a), list(in_b)
    changes: list[Change] = []
    matcher = SequenceMatcher(a=keys_a, b=keys_b, autojunk=False)
    for tag, start_a, end_a, start_b, end_b in matcher.get_opcodes():
        if tag == "equal":
            changes += [_both(in_a[key], in_b[key]) for key in keys_a[start_a:end_a]]
            continue
        changes += [
            Change("moved" if key in in_b else "only-a", in_a[key], in_b.get(key)) for key in keys_a[start_a:end_a]
        ]
        changes += [
            Change("moved" if key in in_a else "only-b", in_a.get(key), in_b[key]) for key in keys_b[start_b:end_b]
        ]
    return changes


def _both(a: VisibleMessage, b: VisibleMessage) -> Change:
    return Change("same" if a == b else "changed", a, b)
