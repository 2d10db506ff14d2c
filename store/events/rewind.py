"""`rewind`: goes back to an earlier version."""

from __future__ import annotations

from typing import ClassVar

from .base import Frame, Misplaced, NewEvent, not_earlier


class RewindFrame(Frame, frozen=True, kw_only=True, gc=False):
    """The frame of a `rewind` event: all of it."""

    to: int

    def misplaced(self, version: int, scope: str | None) -> Misplaced | None:
        """Return what is wrong if it does not go back to an earlier version, or to the beginning, 0."""
        return not_earlier("to", self.to, version, "rewind", least=0)


class Rewind(NewEvent, kw_only=True, tag="rewind"):
    """Goes on from version `to` (0 is the beginning); without a scope, in every scope."""

    to: int

    default_scope: ClassVar[str | None] = None
    frame_type: ClassVar[type[Frame]] = RewindFrame
    references: ClassVar[tuple[str, ...]] = ("to",)

    def frame(self) -> RewindFrame:
        """Return where it goes back to."""
        return RewindFrame(to=self.to)
