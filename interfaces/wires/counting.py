"""Tokens of requests: estimated from the characters of their JSON, or counted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

CHARACTERS_A_TOKEN = 4


@dataclass(frozen=True)
class Gauge:
    """Measures requests piece by piece: with `tokens` their tokens, which it counts of a text, else their characters.

    A token never reaches from one piece into the next: pieces are what a provider puts together itself.
    """

    tokens: Callable[[str], int] | None = None

    def size(self, text: str) -> int:
        """Return the size of a piece; sizes add up."""
        if self.tokens is None or not text:
            return len(text)
        return self.tokens(text)

    def tokens_of(self, size: int) -> int:
        """Return the tokens that a size is."""
        return -(-size // CHARACTERS_A_TOKEN) if self.tokens is None else size
