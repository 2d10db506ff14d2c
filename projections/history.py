"""The visible history: what a model could see at a point of a conversation (DESIGN section 4)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from functools import cached_property
from hashlib import sha256
from itertools import islice
from typing import Any, overload

import msgspec

from turnlog.store import InvalidEvent, Request, Row, Store
from turnlog.store.events import Mode, RequestFrame
from turnlog.store.streams import OPEN

from .fold import RULES, Fold, Modes
from .pairing import Pairing, pair
from .problems import Problem, problems
from .ranges import Rows
from .reading import Reading
from .render import Contents, VisibleMessage
from .shaping import Shaped, Unsure
from .state import Assistants, Known
from .tail import each_item, last_items
from .view import Hiding, Item


class Hidden(msgspec.Struct, frozen=True, omit_defaults=True):
    """A message that is not visible, or a call of one that is: the rule, and the version of the event that hid it."""

    version: int
    origin: str
    rule: str
    by: int
    call: str | None = None


class History:
    """What the model could see of `scope` after `version`.

    `assistant` is the active one, `tools` what it has been given. `messages` are in order; `hidden` lists what is
    not visible, by version, origin and call; `problems` what had to be repaired or looks wrong. All three are worked
    out when asked for: the messages from ranges of the log, the other two by the plain fold of all its events.
    """

    def __init__(
        self, reading: Reading, scope: str, modes: Modes, last: int | None = None, fold: Fold | None = None
    ) -> None:
        self.conversation = reading.conversation
        self.scope = scope
        self.version = reading.version
        self._reading = reading
        self._modes = modes
        self._last = last
        self._contents = Contents({}, reading.redactions)
        self._shaped: Shaped | None = None
        if fold is not None:
            self.fold = fold
        else:
            rows = Rows(reading.store, reading.stream, reading.version, self._contents.events)
            # What ranges cannot tell, the plain fold does.
            with suppress(Unsure):
                self._shaped = Shaped(scope, modes, reading.shaping(scope), rows)

    def __len__(self) -> int:
        """How many messages are visible; what they say is not read for it."""
        if self._unread is not None:
            with suppress(Unsure):
                return sum(1 for _ in each_item(self._unread, bodies=False))
        return len(self.items)

    def __bool__(self) -> bool:
        return True

    def __iter__(self) -> Iterator[VisibleMessage]:
        """The visible messages in order, read as they are asked for."""
        return map(self._contents.message, self._each())

    @overload
    def __getitem__(self, index: int) -> VisibleMessage: ...
    @overload
    def __getitem__(self, index: slice) -> list[VisibleMessage]: ...
    def __getitem__(self, index: int | slice) -> VisibleMessage | list[VisibleMessage]:
        """A message or a page of them, counted from 0 or, below 0, from the end; only as far as that is read."""
        if not isinstance(index, int | slice):
            raise TypeError(f"index: {index!r} is neither a number nor a slice")
        if isinstance(index, int):
            found = self[index : index + 1 or None] if index < 0 else self[index : index + 1]
            if not found:
                raise IndexError(f"index: {index} is not one of the visible messages")
            return found[0]
        return list(map(self._contents.message, self._page(index)))

    @property
    def assistant(self) -> str | None:
        """The active assistant."""
        return self._assistants.active

    @property
    def _assistants(self) -> Assistants:
        return self.fold.state if self._shaped is None else self._shaped.own

    @property
    def tools(self) -> list[dict[str, Any]]:
        """The active assistant's tools as they were given; only their names once redacted."""
        given = self._known.tools
        return [] if given is None else self._tools(given[0])

    @property
    def tools_since(self) -> int | None:
        """The version of the event that made the active assistant active or gave it its tools, whichever came later;
        None if no assistant is active."""
        if self.assistant is None:
            return None
        given = self._known.tools
        return max(self._assistants.active_since, 0 if given is None else given[0])

    @property
    def model(self) -> str | None:
        """The active assistant's model, if one was named."""
        return None if self._known.model is None else self._model(self._known.model)

    @property
    def tools_given(self) -> list[dict[str, Any]] | None:
        """The tools that were given last to the active assistant or, if none ever were, to another."""
        known = self._assistants.latest(lambda known: known.tools and known.tools[0])
        return None if known is None else self._tools(known)

    @property
    def model_given(self) -> str | None:
        """The model that was named last for the active assistant or, if none ever was, for another."""
        known = self._assistants.latest(lambda known: known.model)
        return None if known is None else self._model(known)

    @cached_property
    def items(self) -> list[Item]:
        """The items that are visible, in order: the shape of `messages`."""
        if self._shaped is not None:
            with suppress(Unsure):
                if self._last is None:
                    return self._loaded(list(each_item(self._shaped)))
                return self._loaded(last_items(self._shaped, self._last))
        visible = [item for item in self.fold.state.view.visible if item not in self.pairing.hidden]
        return self._loaded(visible if self._last is None else visible[max(0, len(visible) - self._last) :])

    @cached_property
    def messages(self) -> list[VisibleMessage]:
        """The visible messages, in order."""
        return list(map(self._contents.message, self.items))

    @cached_property
    def unpaired(self) -> list[VisibleMessage]:
        """What is visible before rule 7, so that results without a call are there too: what an export writes."""
        return list(map(self._contents.message, self._loaded(self.fold.state.view.visible)))

    @cached_property
    def hidden(self) -> list[Hidden]:
        """What is not visible, and why."""
        found = []
        for item in self.everything:
            hiding = self.hiding(item)
            if hiding is not None:
                found.append(hidden_item(item, hiding))
            else:
                found += [
                    hidden_item(item, removal, item.calls[index].id) for index, removal in sorted(item.removed.items())
                ]
        return sorted(found, key=lambda hidden: (hidden.version, hidden.origin, hidden.call or ""))

    @cached_property
    def problems(self) -> list[Problem]:
        """Findings on this view, each with its event and advice."""
        return problems(self.fold, self.pairing, self._redacted_requests())

    @property
    def identities(self) -> list[tuple[str, int, str]]:
        """Of each visible message the conversation (uuid) and version of the event that placed it, and its origin."""
        owner = self._reading.stream.owner
        return [(owner(item.version).uuid, item.version, item.origin) for item in self.items]

    @property
    def sources(self) -> list[Row]:
        """The events whose content the visible messages show, in order, and the one that gave the tools."""
        versions = [item.source for item in self.items]
        if self._known.tools is not None:
            versions.append(self._known.tools[0])
        self._load(versions)
        return [self._contents.events[version] for version in versions]

    @property
    def digest(self) -> str:
        """The SHA-256 (hex) of what the model could see: for a `request` event's `history` (docs/format.md).

        It is made of the events' own salted digests, so that nothing can be guessed from it once they are redacted.
        """
        lines: list[Any] = [[self.scope, self.assistant]]
        for item in self.items:
            calls = [index for index, _ in item.visible_calls]
            lines.append([item.version, item.origin, item.role, item.assistant, item.text_only, calls])
        sources = self.sources
        digests = self._reading.store.digests(self._reading.stream, {source.version for source in sources})
        for source in sources:
            redactions = self._contents.redactions.of(source)
            lines.append([digests[source.version].hex(), *(redaction.digest.hex() for redaction in redactions)])
        return sha256(b"".join(msgspec.json.encode(line) + b"\n" for line in lines)).hexdigest()

    def to_dict(self) -> dict[str, Any]:
        """The view as `history --json` prints it (DESIGN section 8)."""
        return {
            "conversation": self.conversation,
            "scope": self.scope,
            "version": self.version,
            "assistant": self.assistant,
            "tools": self.tools,
            "messages": _json(self.messages),
            "hidden": _json(self.hidden),
            "problems": _json(self.problems),
        }

    @property
    def _known(self) -> Known:
        return self._assistants.known.get(self.assistant or "", Known())

    def _tools(self, version: int) -> list[dict[str, Any]]:
        self._load([version])
        return self._contents.tools(version)

    def _model(self, version: int) -> str | None:
        self._load([version])
        return self._contents.model(version)

    @property
    def _unread(self) -> Shaped | None:
        """The ranges, if the view has all messages and they have not been read yet."""
        return None if self._last is not None or "items" in self.__dict__ else self._shaped

    def _each(self) -> Iterator[Item]:
        """The visible items in order; those that have been read already are not read again."""
        given = 0
        if self._unread is not None:
            with suppress(Unsure):
                for item in each_item(self._unread):
                    yield from self._loaded([item])
                    given += 1
                return
        yield from islice(self.items, given, None)

    def _page(self, index: slice) -> list[Item]:
        start, stop = min(index.start or 0, OPEN), None if index.stop is None else min(index.stop, OPEN)
        if self._unread is not None and index.step in (None, 1):
            if start >= 0 and stop is not None and stop >= 0:
                return list(islice(self._each(), start, stop))
            if start < 0 and (stop is None or stop < 0):
                with suppress(Unsure):
                    return self._loaded(last_items(self._unread, -start))[:stop]
        return self.items[index]

    def _loaded(self, items: list[Item]) -> list[Item]:
        """The same items, once what they say has been read."""
        self._load(item.source for item in items)
        return items

    def _load(self, versions: Iterable[int]) -> None:
        """Read the events that have not been read yet."""
        kept = self._contents.events
        missing = {version for version in versions if version not in kept}
        if missing:
            kept.update((row.version, row) for row in self._reading.store.rows_of(self._reading.stream, missing))

    def request(self, **fields: Any) -> Request:
        """The event that records a call of a model with this history: `model`, `parameters`, `cache_points` …"""
        return Request(scope=self.scope, at=self.version, history=self.digest, rules=RULES, **fields)

    def _redacted_requests(self) -> list[int]:
        """The requests of this scope whose history showed what has been redacted since."""
        found = []
        for event in self._reading.requests(self.scope):
            frame = event.frame
            if isinstance(frame, RequestFrame) and self._reading.redactions.since(event):
                shown = view_of(self._reading.at(frame.at), self.scope).sources
                if any(self._reading.redactions.since(event, each) for each in shown):
                    found.append(event.version)
        return found

    @cached_property
    def pairing(self) -> Pairing:
        """Which results answer which calls (rule 7)."""
        return pair(self.fold.state.view)

    @property
    def everything(self) -> list[Item]:
        """Every item there is or was, those that a rewind abandoned included."""
        return [*self.fold.state.view.items.values(), *(item for item, _ in self.fold.abandoned.values())]

    def hiding(self, item: Item) -> Hiding | None:
        """What hides an item of this view; None if it is visible."""
        abandoned = self.fold.abandoned.get((item.version, item.origin))
        return abandoned[1] if abandoned else item.hidden or self.pairing.hidden.get(item)

    @cached_property
    def fold(self) -> Fold:
        """The plain fold of all the events of this view."""
        fold = Fold(self.scope, self._modes)
        for row in self._reading.shapes(self.scope):
            fold.apply(row)
        return fold

    def message(self, item: Item) -> VisibleMessage:
        """The message that an item of this view shows."""
        self._load([item.source])
        return self._contents.message(item)


def history(
    store: Store,
    conversation: str,
    scope: str = "chat",
    at: int | datetime | None = None,
    mode: Mode | None = None,
    modes: Mapping[int, Mode] | None = None,
    last: int | None = None,
) -> History:
    """What the model could see of `scope` after version `at`.

    `at` is a version (0: before the first), an aware time (the last version recorded by then), or None for the
    latest. `mode` projects every transfer as if it had that mode, `modes` single ones by version (others change
    nothing); nothing is appended. `last` keeps that many messages from the end. The rules are DESIGN section 4.

    :raises NotFound: there is no such conversation, version or scope.
    :raises InvalidEvent: a mode is unknown, or `last` is negative.
    """
    return view_of(Reading(store, conversation, at), scope, mode, modes, last)


def view_of(
    reading: Reading,
    scope: str,
    mode: Mode | None = None,
    modes: Mapping[int, Mode] | None = None,
    last: int | None = None,
) -> History:
    """One view of a conversation that may have several; takes and raises what `history` does."""
    if last is not None and (not isinstance(last, int) or isinstance(last, bool) or last < 0):
        raise InvalidEvent("last", last, "is not a number of messages")
    return History(reading, scope, reading.modes(scope, mode, modes), last)


def _json(value: Any) -> Any:
    return msgspec.json.decode(msgspec.json.encode(value))


def hidden_item(item: Item, hiding: Hiding, call: str | None = None) -> Hidden:
    """The entry of the hidden list for an item or, of one that stays, for a call."""
    return Hidden(item.version, item.origin, hiding.rule, hiding.by, call)
