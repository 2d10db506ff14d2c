"""What handoffs cost in cache, per provider, for the mode used and for every other (DESIGN section 6)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from turnlog.projections import MODES, Handoff, History, history
from turnlog.store import Store
from turnlog.store.events import Mode

from .wires import WIRES, StablePrefix
from .wires.stable_prefix import Written, prefix_of

Tokens = Callable[[str], int]


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


def cost(
    store: Store,
    handoff: Handoff,
    what_if: tuple[Mode | None, Mapping[int, Mode]] = (None, {}),
    tokens: Tokens | None = None,
    compare: bool = False,
) -> list[Cost]:
    """What a handoff costs in the mode used or, to `compare`, in each of the four modes.

    `what_if` are the modes under which it was found. Tokens are 4 characters of the requests' JSON unless `tokens`
    counts those of a text.
    """
    mode, modes = what_if

    def view(at: int, own: Mapping[int, Mode]) -> History:
        return history(store, handoff.conversation, handoff.scope, at, mode, {**modes, **own})

    before = _written(view(handoff.version - 1, {}))
    costs = []
    for each in MODES if compare else (handoff.mode,):
        after = _written(view(handoff.version, {handoff.version: each}))
        costs.append(
            Cost(
                mode=each,
                messages=len(after.history),
                tokens={name: after.on[name].tokens(tokens) for name in WIRES},
                prefixes={name: prefix_of(before.on[name], after.on[name], tokens) for name in WIRES},
            )
        )
    return costs


@dataclass(frozen=True)
class _OnWires:
    history: History
    on: dict[str, Written]


def _written(history: History) -> _OnWires:
    return _OnWires(history, {name: Written.on(history, wire) for name, wire in WIRES.items()})
