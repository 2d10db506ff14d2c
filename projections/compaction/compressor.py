"""What a compressor is, and the bounds that every compressor keeps (DESIGN section 5)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from turnlog.store import TokenUsage, TurnlogError
from turnlog.store.arguments import whole_number

from ..render import VisibleMessage

CHARACTERS_A_TOKEN = 4

# Media are told in one line of at most 60 characters, always whole, in at most half of the bound:
# so the bound is at least 120 characters.
MEDIA_LINE = 60
LEAST_SUMMARY_TOKENS = 2 * MEDIA_LINE // CHARACTERS_A_TOKEN

# What holds the identifiers of a dozen exchanges and still costs less than one of them did.
DEFAULT_SUMMARY_TOKENS = 400


class CompressionFailed(TurnlogError):
    """A compressor raised, or its text is blank or over its bound; nothing was appended."""

    def __init__(self, why: str) -> None:
        self.why = why
        super().__init__(f"no summary: {why}")


@dataclass(frozen=True)
class Compressed:
    """A compressor's summary and, if models were called, all their tokens."""

    text: str
    usage: TokenUsage | None = None


@runtime_checkable
class Compressor(Protocol):
    """Extends the summary so far by new messages; `method` names it on the event, `max_tokens` bounds its text."""

    @property
    def method(self) -> str: ...

    @property
    def max_tokens(self) -> int: ...

    def compress(self, previous: str, messages: Sequence[VisibleMessage]) -> Compressed:
        """The summary of what `previous` (empty if there is none) and the messages say.

        Each call in them has an id of its own, and a result has the id of the call that it answers.
        """


def checked_bound(field: str, value: int, least: int) -> int:
    """A bound in tokens.

    :raises InvalidArgument: it is below the least.
    """
    return whole_number(field, value, least, "a number of tokens")


def checked_text(text: str, max_tokens: int) -> str:
    """A summary's text.

    :raises CompressionFailed: it is blank, or longer than `max_tokens`.
    """
    if not text.strip():
        raise CompressionFailed("the text is blank")
    most = max_tokens * CHARACTERS_A_TOKEN
    if len(text) > most:
        raise CompressionFailed(f"the text has {len(text)} characters, more than the {most} of {max_tokens} tokens")
    return text
