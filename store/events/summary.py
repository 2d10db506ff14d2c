"""`summary`: takes the place of older messages."""

from __future__ import annotations

from typing import ClassVar, Literal

from .base import Count, Frame, Misplaced, NewEvent, scope_missing
from .usage import TokenUsage, Usage

SummaryRole = Literal["system", "user", "assistant"]


class SummaryFrame(Frame, frozen=True, kw_only=True, gc=False):
    """The frame of a `summary` event."""

    summary_of: int
    text: bool = False
    first: int | None = None
    last: int | None = None
    max_tokens: int | None = None
    usage: Usage | None = None
    role: SummaryRole = "user"
    keep: tuple[int, ...] = ()

    def misplaced(self, version: int, scope: str | None) -> Misplaced | None:
        """Return what is wrong if it has no scope, its range is not of earlier versions, or it keeps others."""
        return scope_missing(scope) or self._misplaced_range(version) or self._misplaced_keep()

    def _misplaced_range(self, version: int) -> Misplaced | None:
        first, last = self.first, self.last
        if first is None and last is None:
            return None
        if last is None:
            return "last", None, "is missing: a range has a first and a last version"
        if first is None:
            return "first", None, "is missing: a range has a first and a last version"
        if not 1 <= first < version:
            return "first", first, f"is not a version before the summary's own, {version}"
        if not first <= last < version:
            return "last", last, f"is not a version from {first} up to before the summary's own, {version}"
        return None

    def _misplaced_keep(self) -> Misplaced | None:
        if not self.keep:
            return None
        if self.first is None or self.last is None:
            return "keep", list(self.keep), "is not allowed: without a first and a last version nothing is covered"
        before = self.first - 1
        for number, version in enumerate(self.keep):
            if not self.first <= version <= self.last:
                return f"keep[{number}]", version, f"is not a version from {self.first} to {self.last}"
            if version <= before:
                return f"keep[{number}]", version, f"does not follow {before}: versions are in order, each once"
            before = version
        return None


class Summary(NewEvent, kw_only=True, tag="summary"):
    """Takes the place of the messages in `[first, last]`; it sums up `summary_of` original messages.

    Those of the versions in `keep` stay visible where they are.
    """

    text: str
    summary_of: Count
    first: int | None = None
    last: int | None = None
    method: str | None = None
    max_tokens: Count | None = None
    usage: TokenUsage | None = None
    role: SummaryRole = "user"
    keep: list[int] | None = None

    frame_type: ClassVar[type[Frame]] = SummaryFrame
    texts: ClassVar[tuple[str, ...]] = ("text",)
    references: ClassVar[tuple[str, ...]] = ("first", "last", "keep")

    def frame(self) -> SummaryFrame:
        """Return what it covers, as what it is shown, and what it cost."""
        return SummaryFrame(
            summary_of=self.summary_of,
            text=bool(self.text),
            first=self.first,
            last=self.last,
            max_tokens=self.max_tokens,
            usage=None if self.usage is None else self.usage.frame(),
            role=self.role,
            keep=tuple(self.keep or ()),
        )
