"""`describe`: says something about the conversation as a whole."""

from __future__ import annotations

from typing import Any, ClassVar

from .base import Frame, Misplaced, NewEvent, Scope, scope_given


class DescribeFrame(Frame, frozen=True, kw_only=True, gc=False):
    """The frame of a `describe` event."""

    scopes: tuple[str, ...] | None = None

    def misplaced(self, version: int, scope: str | None) -> Misplaced | None:
        """Return what is wrong if it has a scope."""
        return scope_given(scope)


class Describe(NewEvent, kw_only=True, tag="describe"):
    """Describes the conversation; the latest wins, key by key. `scopes` lists further scopes."""

    title: str | None = None
    metadata: dict[str, Any] | None = None
    scopes: list[Scope] | None = None

    default_scope: ClassVar[str | None] = None
    frame_type: ClassVar[type[Frame]] = DescribeFrame
    texts: ClassVar[tuple[str, ...]] = ("title",)

    def frame(self) -> DescribeFrame:
        """Return the scopes that it lists."""
        return DescribeFrame(scopes=None if self.scopes is None else tuple(self.scopes))
