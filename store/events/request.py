"""`request`: records that a model was called."""

from __future__ import annotations

from typing import Any, ClassVar

from .base import Frame, Misplaced, NewEvent, not_earlier, scope_missing
from .cache_points import CachePoint


class RequestFrame(Frame, frozen=True, kw_only=True, gc=False):
    """The frame of a `request` event."""

    at: int
    history: str | None = None
    rules: int | None = None

    def misplaced(self, version: int, scope: str | None) -> Misplaced | None:
        """Return what is wrong if it has no scope, or its history is not that of an earlier version (or of none, 0)."""
        return scope_missing(scope) or not_earlier("at", self.at, version, "request", least=0)


class Request(NewEvent, kw_only=True, tag="request"):
    """Records that a model was called with the history of version `at`; `history` is that history's digest.

    `cache_points` are the places at which its prefixes were to be cached.
    """

    at: int
    history: str | None = None
    rules: int | None = None
    model: str | None = None
    cache_points: list[CachePoint] | None = None
    parameters: dict[str, Any] | None = None

    frame_type: ClassVar[type[Frame]] = RequestFrame
    references: ClassVar[tuple[str, ...]] = ("at",)

    def written(self) -> dict[str, Any]:
        """Return the event as JSON, its cache points in their forms."""
        fields = NewEvent.written(self)
        if isinstance(self.cache_points, list | tuple):
            fields["cache_points"] = [
                point.form if isinstance(point, CachePoint) else form
                for point, form in zip(self.cache_points, fields["cache_points"], strict=True)
            ]
        return fields

    def frame(self) -> RequestFrame:
        """Return which history was sent."""
        return RequestFrame(at=self.at, history=self.history, rules=self.rules)
