"""What one handoff costs in one mode."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from turnlog.store.events import Mode

from ..wires import StablePrefix


@dataclass(frozen=True)
class Cost:
    """One mode of a transfer: messages and, per wire, the request's tokens and what it keeps of the one before."""

    mode: Mode
    messages: int
    tokens: dict[str, int]
    prefixes: dict[str, StablePrefix]

    def to_dict(self) -> dict[str, Any]:
        """As JSON: per wire the tokens of the request, and of the one before those kept and lost."""
        return {
            "mode": self.mode,
            "messages": self.messages,
            "wires": {name: {"tokens": self.tokens[name]} | prefix.to_dict() for name, prefix in self.prefixes.items()},
        }
