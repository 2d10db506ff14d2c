"""`clear`: empties its scope of messages."""

from __future__ import annotations

from typing import ClassVar

from .base import Frame, Misplaced, NewEvent, scope_missing


class ClearFrame(Frame, frozen=True, kw_only=True, gc=False):
    """The frame of a `clear` event: it has no fields."""

    def misplaced(self, version: int, scope: str | None) -> Misplaced | None:
        """Return what is wrong if it has no scope."""
        return scope_missing(scope)


class Clear(NewEvent, kw_only=True, tag="clear"):
    """Empties its scope of messages."""

    frame_type: ClassVar[type[Frame]] = ClearFrame
