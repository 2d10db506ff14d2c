"""What every measurement is given: the contestants, how much to measure, and rounds in which all take turns.

Everything that is compared is measured in turn, again and again, so that the machine's moods cancel out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from time import monotonic
from typing import TypeVar

from .contest import Worker

K = TypeVar("K")


@dataclass(frozen=True)
class Settings:
    """How much is measured.

    `budget` (seconds) ends the rounds of one comparison early, though not before the first has ended; `appends` are
    those of a round, `writes` those of each of several processes, `largest` is the most events that a log has, and
    `compared` the messages that are read of the peers.
    """

    rounds: int
    budget: float
    appends: int
    writes: int
    largest: int
    compared: int


@dataclass(frozen=True)
class Bench:
    """`tell` hears what is being done; the contestants' files are in `folder`."""

    settings: Settings
    folder: str
    raw: Worker
    ours: Worker
    tell: Callable[[str], None]

    @contextmanager
    def fresh(self) -> Iterator[Worker]:
        """turnlog once more, in a new process."""
        with Worker("ours") as worker:
            worker.ask("start", folder=self.folder)
            yield worker

    def both(self, call: str, **arguments: object) -> dict[str, Callable[[], float]]:
        """The sides of a comparison in which raw and turnlog are asked the same."""
        return {"raw": asks(self.raw, call, **arguments), "ours": asks(self.ours, call, **arguments)}

    def in_rounds(self, sides: Mapping[K, Callable[[], float]]) -> dict[K, list[float]]:
        """What each side measured, by round; every second round goes through the sides backwards."""
        found: dict[K, list[float]] = {key: [] for key in sides}
        began = monotonic()
        for number in range(self.settings.rounds):
            for key in list(sides)[:: -1 if number % 2 else 1]:
                found[key].append(sides[key]())
            if monotonic() - began > self.settings.budget:
                break
        return found


@dataclass(frozen=True)
class Row:
    """A line of the table of goals."""

    what: str
    raw: str
    ours: str
    measured: str
    goal: str = "-"
    met: bool | None = None


def asks(worker: Worker, call: str, **arguments: object) -> Callable[[], float]:
    """One side of a comparison."""
    return lambda: float(worker.ask(call, **arguments))


def middle(measured: Sequence[float], base: Sequence[float]) -> tuple[float, float]:
    """Both of the round whose ratio is the median: what was measured in one round was measured in the same mood."""
    rounds = sorted(zip(measured, base, strict=True), key=lambda one: one[0] / one[1])
    return rounds[len(rounds) // 2]


def at_most(what: str, base: str, ours: str, measured: float, limit: float, of: str = "raw") -> Row:
    """A row whose goal is a ratio of at most `limit`."""
    return Row(what, base, ours, f"{measured:.2f} x", f"≤ {limit:g} x {of}", measured <= limit)
