"""`redaction`: erases the text of an earlier event."""

from __future__ import annotations

from typing import ClassVar

from .base import Frame, Misplaced, NewEvent, flag, not_earlier, scope_given


class RedactionFrame(Frame, frozen=True, kw_only=True, gc=False):
    """The frame of a `redaction` event."""

    target: int
    replacement: bool | None = None
    whole: bool = False

    def misplaced(self, version: int, scope: str | None) -> Misplaced | None:
        """Return what is wrong if it has a scope, or its target is not an earlier version."""
        return scope_given(scope) or not_earlier("target", self.target, version, "redaction")


class Redaction(NewEvent, kw_only=True, tag="redaction"):
    """Erases the body of the event of version `target`; `replacement` is shown in its place.

    One that is `whole` belongs to the erasure of the whole conversation; its reason stays when that is repeated.
    """

    target: int
    reason: str
    replacement: str | None = None
    whole: bool | None = None

    default_scope: ClassVar[str | None] = None
    frame_type: ClassVar[type[Frame]] = RedactionFrame
    texts: ClassVar[tuple[str, ...]] = ("reason", "replacement")
    references: ClassVar[tuple[str, ...]] = ("target",)

    def frame(self) -> RedactionFrame:
        """Return the target, whether there is a replacement, and whether the whole conversation was erased."""
        return RedactionFrame(target=self.target, replacement=flag(self.replacement), whole=bool(self.whole))
