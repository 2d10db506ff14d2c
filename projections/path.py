"""Rule 1: the path of a scope, as rewinds leave it (DESIGN section 4)."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from turnlog.store import Event, Row, Store
from turnlog.store.events import RewindFrame

R = TypeVar("R", bound=Row)


@dataclass(frozen=True, slots=True)
class Step(Generic[R]):
    """An event on a path, and the one before it there."""

    event: R
    before: Step[R] | None


@dataclass
class Path(Generic[R]):
    """One scope's path: its end after each version, abandoned ones included."""

    _versions: list[int] = field(default_factory=list)
    _ends: list[Step[R] | None] = field(default_factory=list)

    def add(self, event: R) -> None:
        """Go on with an event."""
        self._note(event.version, Step(event, self._ends[-1] if self._ends else None))

    def rewind(self, version: int, to: int) -> None:
        """Put the path back to what it was at version `to`, by the rewind of `version`."""
        place = bisect_right(self._versions, to)
        self._note(version, self._ends[place - 1] if place else None)

    def events(self) -> list[R]:
        """The events on the path, in order."""
        found = []
        step = self._ends[-1] if self._ends else None
        while step is not None:
            found.append(step.event)
            step = step.before
        return found[::-1]

    def _note(self, version: int, end: Step[R] | None) -> None:
        self._versions.append(version)
        self._ends.append(end)


def path_of(store: Store, conversation: str, scope: str) -> list[Event]:
    """The events on a scope's path now: those that no rewind has abandoned.

    :raises NotFound: there is no such conversation.
    """
    path: Path[Event] = Path()
    for event in store.events(conversation, scopes={scope, None}):
        frame = event.frame
        if isinstance(frame, RewindFrame):
            path.rewind(event.version, frame.to)
        elif event.scope is not None:
            path.add(event)
    return path.events()
