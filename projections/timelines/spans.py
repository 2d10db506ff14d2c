"""What people get from a timeline: spans, what is hidden and why, and what an event changed."""

from __future__ import annotations

import msgspec

from turnlog.store import InvalidArgument
from turnlog.store.arguments import whole_number
from turnlog.store.spans import ORIGINS, RULES_THAT_HIDE, Origin


class Hidden(msgspec.Struct, frozen=True, omit_defaults=True):
    """A message that is not visible, or a call of one that is: the rule, and the version of the event that hid it."""

    version: int
    origin: str
    rule: str
    by: int
    call: str | None = None


class Span(msgspec.Struct, frozen=True, omit_defaults=True):
    """From `since` until before `until` a message was visible in one form and at one place.

    `rule` and `by` are what ended it. `goes_on` says that the message stayed, in another form. A message that was never
    visible has one span whose `until` is its `since`. `calls` are the ids of the calls that were visible.
    """

    version: int
    origin: Origin
    place: int
    role: str
    assistant: str | None
    source: int
    since: int
    until: int | None = None
    rule: str | None = None
    by: int | None = None
    calls: tuple[str, ...] = ()
    text_only: bool = False
    goes_on: bool = False


class Changes(msgspec.Struct, frozen=True):
    """What one event did to a view: the spans of the messages that it showed, hid, and left in another form."""

    version: int
    shown: list[Span]
    hid: list[Span]
    changed: list[Span]


class Step(msgspec.Struct, frozen=True):
    """How many messages are visible after an event that changes it, and how many characters of text they have."""

    version: int
    visible: int
    characters: int


def hidden_of(version: int, origin: int, reason: tuple[int, int], call: str | None) -> Hidden:
    """Return an entry of the hidden list."""
    return Hidden(version, ORIGINS[origin], RULES_THAT_HIDE[reason[0]], reason[1], call)


def check_page(first: int | None, count: int | None, last: int | None) -> None:
    """Refuse a page that is none.

    :raises InvalidArgument: names the field and the value.
    """
    for field, value in (("first", first), ("count", count), ("last", last)):
        if value is not None:
            whole_number(field, value, 0, "a number of messages")
    if last is not None and (first is not None or count is not None):
        raise InvalidArgument("last", last, "is given beside first or count")
