"""What an audit finds."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Fault:
    """The first thing wrong with a conversation, or with the store as a whole (`conversation` is None)."""

    conversation: str | None
    version: int | None
    why: str


@dataclass(frozen=True)
class Renamed:
    """A conversation whose name is not the one that it had at a checkpoint; `name` is what it is called now."""

    conversation: str
    name: str | None


@dataclass
class Verified:
    """How much was verified, and what is wrong with it.

    `derived` says how what is derived from the log differs from it: the log has no fault by that, and what is derived
    can be made again, but until then views and searches may be wrong. `renamed` has the conversations whose names
    differ from those at the checkpoint: a rename is no event, so that nothing says whether it was meant.
    `erasure` says where copies of what was erased may be left, and who holds that up; None if nowhere.
    """

    conversations: int = 0
    events: int = 0
    faults: list[Fault] = field(default_factory=list)
    derived: list[str] = field(default_factory=list)
    renamed: list[Renamed] = field(default_factory=list)
    erasure: str | None = None
