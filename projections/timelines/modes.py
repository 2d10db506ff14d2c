"""What transfer modes and contexts do to a view, as tables (rules 4.3 and 4.4 of docs/design.md)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import assert_never, get_args

import msgspec

from turnlog.store.events import Mode, TransferFrame

MODES: tuple[Mode, ...] = get_args(Mode)
DEFAULT_MODE: Mode = "rolling-history"


@dataclass(frozen=True)
class Effect:
    """What a mode does: whether prompts end, whether the calls of transfers are taken, whether everything ends.

    `at_head` says where the next assistant's prompt is placed: before everything, or at the end.
    """

    ends_prompts: bool
    takes_calls: bool = False
    ends_everything: bool = False

    @property
    def at_head(self) -> bool:
        return self.ends_prompts


def effect_of(mode: Mode) -> Effect:
    """Return what a mode does."""
    match mode:
        case "rolling-history":
            return Effect(ends_prompts=False)
        case "swap-system-message-in-history":
            return Effect(ends_prompts=True)
        case "swap-system-message-in-history-and-remove-transfer-tool-messages":
            return Effect(ends_prompts=True, takes_calls=True)
        case "delete-history":
            return Effect(ends_prompts=True, ends_everything=True)
        case _:
            assert_never(mode)


@dataclass(frozen=True)
class WhatIf:
    """Modes other than those recorded (rule 9): one for every transfer, and some for single transfers, by version."""

    mode: Mode | None = None
    modes: Mapping[int, Mode] = field(default_factory=dict)

    def of(self, version: int, frame: TransferFrame) -> Mode:
        """Return the mode under which a transfer is projected."""
        return self.modes.get(version) or self.mode or frame.mode or DEFAULT_MODE

    @property
    def key(self) -> str:
        """Return a text that is equal for equal what-ifs, and empty if nothing differs from the log."""
        if self.mode is None and not self.modes:
            return ""
        return msgspec.json.encode([self.mode, sorted(self.modes.items())]).decode()
