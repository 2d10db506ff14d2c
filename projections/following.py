"""A view kept open: it goes on with the log instead of reading it again."""

from __future__ import annotations

from collections.abc import Mapping

from turnlog.store import Store
from turnlog.store.events import Mode, RedactionFrame

from .fold import Fold, Modes
from .history import History
from .reading import Reading
from .redactions import Redactions
from .state import SHARED


class Following(History):
    """What the model can see of a scope now. `catch_up` takes in what has been appended since, by whatever process.

    All that a `History` has is here as of the version caught up with; what was given before stays as it was.
    """

    def __init__(self, reading: Reading, scope: str, modes: Modes, position: int) -> None:
        super().__init__(reading, scope, modes, fold=Fold(scope, modes))
        self._position = position
        # What is read inside of a transaction may yet be undone.
        self._certain = not reading.store.db.in_transaction
        for row in reading.shapes(scope):
            self.fold.apply(row)

    def catch_up(self) -> int:
        """Take in what has been appended since, in order; how many events that were, of whatever scope.

        Those of a fork are its own, and its parents' redactions. What was taken in inside of a transaction is read anew
        after it, since it may have been undone.
        """
        store, position = self._reading.store, self._reading.store.position()
        stream = store.stream(self._reading.stream.uuid)
        self.conversation = self._reading.conversation = stream.label
        if position == self._position and self._certain:
            return 0
        # Read whole before any of it is taken in, so that an error leaves the view as it was.
        news = [(segment, [*store.follow(self._position, segment.uuid)]) for segment in stream.lineage]
        shown = Redactions(store.redactions(stream))
        redactions = sum(isinstance(event.frame, RedactionFrame) for _, events in news[:-1] for event in events)
        if not self._certain:
            before, anew = self.version, Following(Reading(store, stream), self.scope, self._modes, position)
            self.__dict__ = anew.__dict__
            return max(0, self.version - before) + redactions
        for name in ("items", "messages", "unpaired", "hidden", "problems", "pairing"):
            self.__dict__.pop(name, None)
        before = self.version
        for segment, events in news:
            for event in events:
                frame = event.frame
                if isinstance(frame, RedactionFrame) and frame.target <= segment.last:
                    # What was read of it may not be kept either.
                    self._contents.events.pop(frame.target, None)
                if segment.key == stream.key and event.version > self.version:
                    self.version = self._reading.version = event.version
                    if event.scope in (self.scope, SHARED):
                        self._contents.events[event.version] = event
                    # What was said is no part of the fold, and is not held by it.
                    self.fold.apply(event.bare)
        self._reading.redactions = self._contents.redactions = shown
        self._position, self._certain = position, not store.db.in_transaction
        return self.version - before + redactions


def follow(
    store: Store,
    conversation: str,
    scope: str = "chat",
    mode: Mode | None = None,
    modes: Mapping[int, Mode] | None = None,
) -> Following:
    """A view of the latest version that is kept open; scope and modes as in `history`.

    :raises NotFound: there is no such conversation or scope.
    :raises InvalidEvent: a mode is unknown.
    """
    # The position first: what is appended meanwhile is met again, and known.
    position = store.position()
    reading = Reading(store, conversation)
    return Following(reading, scope, reading.modes(scope, mode, modes), position)
