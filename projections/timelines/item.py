"""The messages that an event changes, while it is applied."""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import NamedTuple

import msgspec

from turnlog.store.spans import (
    NEVER,
    OTHER,
    PLACES,
    ROLES,
    RULES_THAT_HIDE,
    TEXT,
    TEXT_ONLY,
    Form,
    HidingRow,
    SpanRow,
    read_form,
    version_of,
)

RULE = {name: number for number, name in enumerate(RULES_THAT_HIDE)}
ROLE = {name: number for number, name in enumerate(ROLES)}
# What takes the calls of a message: also of one that ends by it, since nothing of it is left.
TAKING = frozenset(
    RULE[name]
    for name in (
        "context:userAndAssistantMessages",
        "transfer:swap-system-message-in-history-and-remove-transfer-tool-messages",
    )
)
MESSAGE, RESPONSE, SUMMARY, PROMPT, FIRST_MESSAGE, DESTINATION = range(6)
USER, ASSISTANT, TOOL, SYSTEM = range(4)


class Reason(NamedTuple):
    """The number of a rule that hides, and the version of the event whose rule it was."""

    rule: int
    by: int


_decode_removed = msgspec.json.Decoder(dict[int, Reason]).decode
_encode = msgspec.json.Encoder().encode


class Item(msgspec.Struct, eq=False, kw_only=True):
    """A message as it is now: held unless something `ended` it, and hidden for the reason `why`, or visible.

    `since` is where its span began if it has one now. `removed` has the reasons of the calls that are taken, `form`
    what has just changed its form. `loaded` is how it was when it was read, or None if it is new.
    """

    place: int
    version: int
    origin: int
    role: int
    assistant: int | None
    source: int
    shared: bool
    parts: int
    calls: int
    removed: dict[int, Reason] = {}
    ended: Reason | None = None
    why: Reason | None = None
    form: Reason | None = None
    since: int | None = None
    loaded: tuple[object, ...] | None = None

    @property
    def state(self) -> tuple[object, ...]:
        """Return what a change of begins another span, or none."""
        return self.why, self.ended, self.parts, tuple(self.removed.items())

    @property
    def held(self) -> bool:
        return self.ended is None

    @property
    def visible(self) -> bool:
        return self.why is None

    @property
    def was_visible(self) -> bool:
        return self.loaded is not None and self.loaded[0] is None

    @property
    def visible_calls(self) -> list[int]:
        """Return the indexes of the calls that are not taken."""
        return _left(self.calls, self.removed)

    @property
    def is_blank(self) -> bool:
        """Return whether nothing of it is left to be seen."""
        shown = TEXT if self.parts & TEXT_ONLY else TEXT | OTHER
        return not self.parts & shown and not self.visible_calls

    @property
    def is_note(self) -> bool:
        return self.origin == MESSAGE and self.role == SYSTEM

    def end(self, rule: int, by: int) -> None:
        """End it; what hid it before goes on to say why it is hidden."""
        if self.ended is None:
            self.ended = Reason(rule, by)
            self.why = self.why or self.ended

    def take(self, call: int, rule: int, by: int) -> None:
        """Take one of its calls."""
        self.form = Reason(rule, by)
        self.removed = {**self.removed, call: self.form}

    def take_parts(self, rule: int, by: int) -> None:
        """Leave only its text."""
        self.form = Reason(rule, by)
        self.parts |= TEXT_ONLY

    def row(self, since: int) -> SpanRow:
        """Return the span that begins with it as it is now."""
        natural = self.place // PLACES == self.version
        return SpanRow(
            place=self.place,
            since=since,
            until=None,
            why=None if self.why is None else self.why.rule,
            form=Form(self.origin, self.role, self.shared, self.parts, self.calls).packed(),
            assistant=self.assistant,
            version=None if natural else self.version,
            source=None if self.source == self.version else self.source,
            removed=encode_removed(self.removed),
            why_by=None if self.why is None else self.why.by,
            rule=None,
            by=None,
        )


def item_of(row: SpanRow) -> Item:
    """Return the message of a span: visible or hidden as in it, or hidden by what ended it."""
    version = version_of(row)
    form = read_form(row.form)
    ended = None
    if row.until is not None and row.rule is not None:
        ended = Reason(row.rule, row.until if row.by is None else row.by)
    return Item(
        place=row.place,
        version=version,
        origin=form.origin,
        role=form.role,
        assistant=row.assistant,
        source=version if row.source is None else row.source,
        shared=form.shared,
        parts=form.parts,
        calls=form.calls,
        removed=decode_removed(row.removed),
        ended=ended,
        why=ended if row.why is None else Reason(row.why, row.why_by or 0),
        since=row.since if row.until is None else None,
    )


def item_then(spans: Sequence[SpanRow], hidings: Sequence[HidingRow], at: int) -> Item | None:
    """Return a message as it was after version `at`, from all its spans and hidings; None if it was not there."""
    last = None
    for span in spans:
        if span.since <= at:
            last = span
    hiding = None
    for each in hidings:
        if each.since <= at and (last is None or (last.until or NEVER) <= each.since):
            hiding = each
    if last is not None:
        if last.until is not None and last.until > at:
            last = last._replace(until=None, rule=None, by=None)
        item = item_of(last)
    elif hiding is not None:
        # It was never held, so that nothing but this is ever asked of it.
        item = Item(
            place=PLACES * hiding.version,
            version=hiding.version,
            origin=hiding.origin,
            role=SYSTEM,
            assistant=None,
            source=hiding.version,
            shared=bool(hiding.shared),
            parts=0,
            calls=0,
        )
    else:
        return None
    if hiding is not None:
        item.why, item.ended = Reason(hiding.rule, hiding.by), Reason(hiding.ended, hiding.ended_by)
    return item


def visible_calls(form: int, removed: str | None) -> list[int]:
    """Return the indexes of the calls of a span that are not taken, from its columns `form` and `removed`."""
    return _left(read_form(form).calls, decode_removed(removed))


def _left(calls: int, removed: Container[int]) -> list[int]:
    return [index for index in range(calls) if index not in removed] if calls else []


def decode_removed(text: str | None) -> dict[int, Reason]:
    """Return the calls that are taken, each with its reason."""
    return {} if text is None else _decode_removed(text)


def encode_removed(removed: dict[int, Reason]) -> str | None:
    """Return the calls that are taken as a span keeps them."""
    return _encode(removed).decode() if removed else None
