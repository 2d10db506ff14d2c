"""How many tokens a model call took: a field of responses and summaries."""

from __future__ import annotations

import msgspec

from .base import Count, FrameField


class Usage(FrameField, frozen=True, kw_only=True, gc=False):
    """The token counts of one or more model calls, as a frame has them."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    total_tokens: int = 0
    cached_tokens: int | None = None
    reasoning_tokens: int | None = None


class TokenUsage(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The token counts of a model call."""

    prompt_tokens: Count
    completion_tokens: Count
    total_tokens: Count
    cached_tokens: Count | None = None
    reasoning_tokens: Count | None = None

    def frame(self) -> Usage:
        """Return the counts as a frame has them."""
        return Usage(**msgspec.structs.asdict(self))
