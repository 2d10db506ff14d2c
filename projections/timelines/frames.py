"""What timelines read of the log: the frames of its events, and the paths that its rewinds leave."""

from __future__ import annotations

from turnlog.store import Store
from turnlog.store.events import Frame, read_frame
from turnlog.store.streams import Stream

from .path import Path

SHARED = "shared_memory"
MAX_FRAMES = 20_000  # Frames of one conversation that are kept.


class Frames:
    """The frames of a conversation's events by version, and which of them are of shared memory, read when asked for."""

    def __init__(self, store: Store, stream: Stream) -> None:
        self._store = store
        self._stream = stream
        self._kept: dict[int, tuple[Frame | None, str | None]] = {}

    def __getitem__(self, version: int) -> Frame | None:
        return self._read(version)[0]

    def is_shared(self, version: int) -> bool:
        """Return whether an event is of shared memory."""
        return self._read(version)[1] == SHARED

    def keep(self, version: int, frame: Frame | None, scope: str | None) -> None:
        """Keep a frame that has been read, and not too many."""
        if len(self._kept) >= MAX_FRAMES:
            self._kept.clear()
        self._kept[version] = frame, scope

    def _read(self, version: int) -> tuple[Frame | None, str | None]:
        if version not in self._kept:
            found: tuple[Frame | None, str | None] = (None, None)
            for number, type_, v, scope, text in self._store.frames(self._stream, version, version, None, 1):
                found = read_frame(type_, v, number, scope, text), scope
            self.keep(version, *found)
        return self._kept[version]


class Paths:
    """The paths of a scope and of shared memory, as the rewinds up to a version leave them."""

    def __init__(self, store: Store, stream: Stream, scope: str, at: int) -> None:
        self.own, self.shared = Path(), Path()
        for version, frame, event_scope in store.rewinds(stream, at):
            if event_scope in (None, scope) and scope != SHARED:
                self.own.rewind(version, frame.to)
            if event_scope in (None, SHARED):
                self.shared.rewind(version, frame.to)
