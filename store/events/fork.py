"""`fork`: begins the part of a conversation that is its own."""

from __future__ import annotations

from typing import ClassVar

from .base import Frame, Misplaced, NewEvent, scope_given


class ForkFrame(Frame, frozen=True, kw_only=True, gc=False):
    """The frame of a `fork` event: all of it."""

    parent: str
    at: int

    def misplaced(self, version: int, scope: str | None) -> Misplaced | None:
        """Return what is wrong if it has a scope."""
        return scope_given(scope)


class Fork(NewEvent, kw_only=True, tag="fork"):
    """Begins a forked conversation, which shares what comes up to version `at`.

    `parent` is the uuid of the conversation that owns this version: where a fork is forked at what it shares itself,
    that is the conversation with which it shares it.
    """

    parent: str
    at: int

    default_scope: ClassVar[str | None] = None
    frame_type: ClassVar[type[Frame]] = ForkFrame

    def frame(self) -> ForkFrame:
        """Return where it was forked from."""
        return ForkFrame(parent=self.parent, at=self.at)
