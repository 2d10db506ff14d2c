"""Rule 8: what is shown in place of what was redacted (DESIGN section 4)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from turnlog.store import Event
from turnlog.store.events import RedactionFrame
from turnlog.store.streams import Stream

REDACTED = "[redacted]"
Source = tuple[str, int]  # An event: the uuid of the conversation that owns it, and its version there.


class Shown(Protocol):
    """An event that a view shows, by the conversation that owns it; without a body once it is redacted."""

    @property
    def conversation(self) -> str: ...
    @property
    def version(self) -> int: ...
    @property
    def body_text(self) -> str | None: ...


def source_of(event: Shown) -> Source:
    """An event's identity, also in a fork of its conversation."""
    return event.conversation, event.version


class Redactions:
    """The redactions of a conversation and of those it was forked from, in the order of the log."""

    def __init__(self, events: Iterable[Event]) -> None:
        self._events = [event for event in events if isinstance(event.frame, RedactionFrame)]
        self._by: dict[Source, list[Event]] = {}
        self._texts: dict[Source, str] = {}
        replaced = set()
        # From the last to the first, since a redaction can itself be redacted later.
        for event in reversed(self._events):
            frame = event.frame
            assert isinstance(frame, RedactionFrame)
            target = (event.conversation, frame.target)
            self._by.setdefault(target, []).append(event)
            if frame.replacement is None or target in replaced:
                self._texts.setdefault(target, REDACTED)
                continue
            replaced.add(target)
            self._texts[target] = self._replacement(event) if frame.replacement else ""

    def __len__(self) -> int:
        return len(self._events)

    def text(self, event: Shown) -> str | None:
        """What stands in place of what an event said; None if it is not redacted."""
        text = self._texts.get((event.conversation, event.version)) if self._texts else None
        return REDACTED if text is None and event.body_text is None else text

    def of(self, source: Source) -> list[Event]:
        """Return the redactions of an event, and those of these redactions: all that its text depends on."""
        found = []
        for redaction in self._by.get(source, ()):
            found += [redaction, *self.of(source_of(redaction))]
        return found

    def targets(self, stream: Stream) -> set[int]:
        """Return the versions of a stream that are redacted."""
        return {
            version
            for owner, version in self._by
            for segment in stream.lineage
            if owner == segment.uuid and segment.first <= version <= segment.last
        }

    def before(self, event: Event) -> Redactions:
        """Those that were there when an event was recorded."""
        return Redactions(each for each in self._events if _order(each) < _order(event))

    def since(self, event: Event, shown: Shown | None = None) -> list[Event]:
        """Those that came after an event was recorded, all or of one event that was shown."""
        found = self._events if shown is None else self.of(source_of(shown))
        return [each for each in found if _order(each) > _order(event)]

    def _replacement(self, event: Event) -> str:
        text = self._texts.get(source_of(event))
        if text is not None:
            return text
        replacement = event.body.get("replacement")
        return replacement if isinstance(replacement, str) else REDACTED


def _order(event: Event) -> tuple[int, int]:
    return event.recorded_us, event.position
