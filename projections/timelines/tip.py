"""The tip of a timeline: its rows as they are now, what an event changes in them, and the writing of both."""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy
from typing import Any

import msgspec

from turnlog.store.events import AssistantFrame, TransferFrame
from turnlog.store.spans import (
    HIDES,
    NEVER,
    PLACES,
    SHOWS,
    HidingRow,
    LineRow,
    SpanRow,
    Spans,
    UseRow,
    block_of,
    hash_of,
    version_of,
)

from .frames import Frames, Paths
from .item import MESSAGE, RESPONSE, Item, Reason, item_of, item_then
from .path import Path

COUNT_EVERY = 16


class Profile(msgspec.Struct, array_like=True):
    """What is known of an assistant: of each field the latest event that gave it, and of texts whether it is empty."""

    system: int | None = None
    has_system: bool = False
    first_message: int | None = None
    has_first_message: bool = False
    tools: int | None = None
    model: int | None = None


class Active(msgspec.Struct, array_like=True, frozen=True):
    """The active assistant, the event that made it active, and whether its prompt is placed at the end."""

    name: str
    since: int
    rolling: bool


class Tip:
    """The newest state of a timeline, inside a transaction; rules change it, and `flush` writes what they changed."""

    def __init__(self, rows: Spans, line: LineRow, is_shared_view: bool, frames: Frames, paths: Paths) -> None:
        self.rows = rows
        self.line = line.line
        self.version = line.version
        self.is_shared_view = is_shared_view
        self.frames = frames
        self.own, self.shared = paths.own, paths.shared
        self.names = rows.names(self.line)
        self._codes = {name: code for code, name in enumerate(self.names)}
        self._facts = rows.facts(self.line, self.version)
        self.speaker = None if self.active is None else self.active.name
        self._secret = line.secret
        self._counted = rows.count(self.line, self.version)[0]
        self.visible, self.hidden = rows.totals(self.line, self.version)
        self.touched: dict[tuple[int, int], Item] = {}
        self.recent: dict[int, list[list[Any]]] = {}
        self._plain: list[tuple[int, int, int | None]] = []
        self._plain_hidden: list[SpanRow] = []
        self._uses: dict[tuple[int, int, int, int], list[Any]] = {}
        self._new_facts: dict[tuple[str, int], str | None] = {}
        self._notes: list[tuple[int, str, str]] = []
        self._alive: set[tuple[int, int]] = set()

    def copy(self) -> Tip:
        """Return a tip of the same rows that knows the same, for one more event; nothing is left to be written."""
        copied = copy(self)
        for name, value in vars(self).items():
            if isinstance(value, dict | list | set):
                setattr(copied, name, value.copy())
        return copied

    # Facts

    def code(self, name: str, version: int) -> int:
        """Return the number of an assistant's name, which is first met in the event of `version` if it is new."""
        code = self._codes.get(name)
        if code is None:
            code = self._codes[name] = len(self.names)
            self.names.append(name)
            self.rows.insert_name(self.line, code, name, version)
        return code

    def fact(self, name: str) -> str | None:
        """Return a fact as it is now."""
        found = self._facts.get(name)
        return None if found is None else found[1]

    def set_fact(self, name: str, value: str | None, version: int) -> None:
        """Change a fact from `version` on."""
        if self.fact(name) != value:
            self._facts[name] = (version, value)
            self._new_facts[name, version] = value
            if name == "active":
                self.speaker = None if self.active is None else self.active.name

    @property
    def active(self) -> Active | None:
        """Return the active assistant."""
        value = self.fact("active")
        return None if value is None else msgspec.json.decode(value, type=Active)

    def profile(self, name: str) -> Profile:
        """Return what is known of an assistant."""
        value = self.fact(f"known:{name}")
        return Profile() if value is None else msgspec.json.decode(value, type=Profile)

    def learn(self, name: str, version: int, frame: AssistantFrame | TransferFrame) -> Profile:
        """Take in what an event says of an assistant, and return all that is known of it."""
        known = self.profile(name)
        if frame.system is not None:
            known.system, known.has_system = version, frame.system
        if frame.first_message is not None:
            known.first_message, known.has_first_message = version, frame.first_message
        if frame.tools is not None:
            known.tools = version
        if isinstance(frame, AssistantFrame) and frame.model is not None:
            known.model = version
        self.set_fact(f"known:{name}", msgspec.json.encode(known).decode(), version)
        return known

    def activate(self, name: str, version: int, rolling: bool) -> None:
        """Make an assistant the active one."""
        self.set_fact("active", msgspec.json.encode(Active(name, version, rolling)).decode(), version)

    def restore_facts(self, to: int, version: int) -> None:
        """Put every fact back to what it was after version `to`."""
        self._write_facts()
        then = self.rows.facts(self.line, to)
        for name, (since, _) in list(self._facts.items()):
            if since > to:
                self.set_fact(name, then[name][1] if name in then else None, version)

    def _write_facts(self) -> None:
        self.rows.insert_facts(self.line, [(*key, value) for key, value in self._new_facts.items()])
        self._new_facts = {}

    def note(self, version: int, rule: str, call: str = "") -> None:
        """Note a finding that an event caused by itself."""
        self._notes.append((version, rule, call))

    def hash(self, call_id: str) -> int:
        """Return the number that stands for a call's id."""
        return hash_of(call_id, self._secret)

    # Messages

    def path_of(self, shared: bool) -> Path:
        """Return the path of the scope's own events, or that of shared memory."""
        return self.shared if shared else self.own

    def items(self, rows: Iterable[SpanRow]) -> list[Item]:
        """Return the messages of spans of now, each as this event has left it so far; what has ended is left out."""
        found = [self._item(row) for row in rows]
        return [item for item in found if item.held]

    def _item(self, row: SpanRow) -> Item:
        key = (version_of(row), row.origin)
        item = self.touched.get(key)
        if item is None:
            item = self.touched[key] = item_of(row)
            item.loaded = item.state
        return item

    def said(self, version: int) -> Item | None:
        """Return the message or response of an event as it is now, held or not."""
        for origin in (MESSAGE, RESPONSE):
            if (version, origin) in self.touched:
                return self.touched[version, origin]
        spans = [row for row in self.rows.of_message(self.line, version) if row.origin in (MESSAGE, RESPONSE)]
        if not spans:
            return None
        hidings = [] if spans[-1].until is None else self.rows.hidings_of(self.line, version, version, NEVER)
        return self.load(spans, [row for row in hidings if row.origin in (MESSAGE, RESPONSE)])

    def load(self, spans: list[SpanRow], hidings: list[HidingRow]) -> Item:
        """Return a message as it is now, from all its spans and hidings, of which it has some."""
        key = (version_of(spans[0]), spans[0].origin) if spans else (hidings[0].version, hidings[0].origin)
        if key not in self.touched:
            item = item_then(spans, hidings, NEVER)
            assert item is not None
            item.loaded = item.state
            self.touched[key] = item
        return self.touched[key]

    def place(self, item: Item) -> Item:
        """Add a message."""
        self.touched[item.version, item.origin] = item
        return item

    def add_plain(self, version: int, form: int, assistant: int | None, why: Reason | None) -> None:
        """Add a message that changes nothing else; it is written with others."""
        kind, block = SHOWS, block_of(PLACES * version)
        if why is None:
            self._plain.append((version, form, assistant))
            self.visible += 1
        else:
            row = SpanRow(
                PLACES * version, version, None, why.rule, form, assistant, None, None, None, why.by, None, None
            )
            self._plain_hidden.append(row)
            self.hidden += 1
            kind = HIDES
        if (kind, block) not in self._alive:
            self.rows.begin_block(self.line, kind, block, version)
            self._alive.add((kind, block))
        if version - self._counted >= COUNT_EVERY:
            self.rows.insert_count(self.line, version, self.visible, self.hidden)
            self._counted = version

    def add_use(self, id: int, version: int, part: int, since: int, call: int | None, call_part: int | None) -> None:
        """Add a call, which is open, or a result."""
        self._uses[id, version, part, since] = [call, call_part, 1 if part >= 0 else None]

    def settle_plain(self, version: int) -> None:
        """Write what a plain message changed of others, if anything, and forget what was looked at."""
        if any(item.loaded != item.state for item in self.touched.values()):
            self.write_plain()
            self.flush(version)
        self.touched = {}

    def set_open(self, id: int, version: int, part: int, open: int | None) -> None:
        """Note whether a call waits for a result: 1 if it does, 2 if it has interim ones, None if not."""
        pending = self._uses.get((id, version, part, version))
        if pending is not None:
            pending[2] = open
        else:
            self.rows.set_open(self.line, [(open, id, version, part)])

    # Writing

    def write_plain(self) -> None:
        """Write the plain messages, calls and results that have been added, so that queries find them."""
        if self._plain:
            self.rows.insert_plain(self.line, self._plain)
            self._plain = []
        if self._plain_hidden:
            self.rows.insert_spans(self.line, self._plain_hidden)
            self._plain_hidden = []
        if self._uses:
            self.rows.insert_uses(self.line, [UseRow(*key, *values) for key, values in self._uses.items()])
            self._uses = {}

    def flush(self, version: int) -> None:
        """Write what the event of `version` changed."""
        begun: list[SpanRow] = []
        ended: list[tuple[int, int | None, int | None, int, int]] = []
        hidings: list[HidingRow] = []
        changed = [item for item in self.touched.values() if item.loaded != item.state]
        for item in changed:
            if item.since is not None:
                reason = (item.why or item.form) if item.was_visible else item.ended
                rule, by = (None, None) if reason is None else reason
                ended.append((version, rule, None if by == version else by, item.place, item.since))
            if item.held:
                begun.append(item.row(version))
            elif item.why is not None and item.ended is not None:
                was_why, was_ended = (None, None) if item.loaded is None else item.loaded[:2]
                says_it = item.since is not None and item.why == (item.ended if item.was_visible else was_why)
                if not says_it and (item.since is not None or (was_why, was_ended) != (item.why, item.ended)):
                    # The span that ended, if there was one, does not say why it is hidden now.
                    hidings.append(HidingRow(item.version, item.origin, version, *item.why, item.shared, *item.ended))
        self.rows.end_spans(self.line, ended)
        self.rows.insert_spans(self.line, begun)
        self.rows.insert_hidings(self.line, hidings)
        for item in changed:
            self._recount(item)
        self._refresh_blocks(changed, version)
        self.touched = {}
        self.recent = {}
        self.rows.insert_count(self.line, version, self.visible, self.hidden)
        self._counted = version

    def write_rest(self, version: int) -> None:
        """Write what is left to be written, and note that the timeline is caught up to `version`."""
        self.write_plain()
        self._write_facts()
        self.rows.insert_notes(self.line, self._notes)
        self._notes = []
        self.version = version
        self.rows.reach(self.line, version)

    def _count(self, item: Item, sign: int) -> None:
        if item.visible:
            self.visible += sign
            self.hidden += sign * len(item.removed)
        else:
            self.hidden += sign

    def _recount(self, item: Item) -> None:
        if item.loaded is not None:
            why, _, _, removed = item.loaded
            if why is None:
                self.visible -= 1
                self.hidden -= len(removed)  # type: ignore[arg-type]
            else:
                self.hidden -= 1
        self._count(item, 1)

    # Blocks

    def _refresh_blocks(self, changed: list[Item], version: int) -> None:
        """Begin and end the blocks of what an event changed."""
        on: set[tuple[int, int]] = set()
        off: set[tuple[int, int]] = set()
        for item in changed:
            (on if item.visible else off).add((SHOWS, block_of(item.place)))
            hides = not item.visible or bool(item.removed)
            (on if hides else off).add((HIDES, block_of(PLACES * item.version)))
        for kind, block in on - self._alive:
            self.rows.begin_block(self.line, kind, block, version)
        self._alive |= on
        for kind, block in off - on:
            if not (self.rows.is_showing if kind == SHOWS else self.rows.is_hiding)(self.line, block):
                self.rows.end_block(self.line, kind, block, version)
                self._alive.discard((kind, block))
