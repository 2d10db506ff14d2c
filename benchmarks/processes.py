"""Four processes that append to one conversation (DESIGN section 10): nothing lost, how fast, how long they wait."""

from __future__ import annotations

from contextlib import ExitStack
from itertools import count
from statistics import median
from typing import TypedDict

from .bench import Bench, Row, middle
from .contest import Worker
from .table import time

WRITERS = 4
THINK = 0.002


class Written(TypedDict):
    """When a process began and ended, on a clock that all share, and how long each append took; seconds."""

    start: float
    end: float
    took: list[float]


def processes(bench: Bench) -> list[Row]:
    """Four against one that appends as much, at both durabilities; then with a pause after each append."""
    with ExitStack() as stack:
        workers = [bench.ours, *(stack.enter_context(bench.fresh()) for _ in range(WRITERS - 1))]
        return [*(_rates(bench, workers, durability) for durability in ("full", "normal")), _waits(bench, workers)]


def _rates(bench: Bench, workers: list[Worker], durability: str) -> Row:
    numbers, lost = count(), []

    def rate(writers: list[Worker], each: int) -> float:
        file = f"written-{durability}-{next(numbers)}.db"
        written = _write(writers, file, durability, each, 0.0)
        lost.append(bench.ours.ask("lost", file=file, writers=len(writers), count=each))
        seconds = max(one["end"] for one in written) - min(one["start"] for one in written)
        return len(writers) * each / seconds

    bench.tell(f"four processes, {durability}")
    each = bench.settings.writes
    found = bench.in_rounds(
        {"one": lambda: rate(workers[:1], WRITERS * each), "four": lambda: rate(workers, each)},
    )
    four, one = middle(found["four"], found["one"])
    what = f"four processes, {durability.upper()}; lost or gaps: {sum(lost)}"
    met = four / one >= 0.85 and not any(lost)
    rates = f"{one:,.0f} events/s (one process)", f"{four:,.0f} events/s"
    return Row(what, *rates, f"{four / one:.2f} x", "≥ 0.85 x one process", met)


def _waits(bench: Bench, workers: list[Worker]) -> Row:
    bench.tell("four processes with pauses")
    each = 5 * bench.settings.writes // 2
    written = _write(workers, "paused.db", "full", each, THINK)
    lost = bench.ours.ask("lost", file="paused.db", writers=WRITERS, count=each)
    took = sorted(duration for one in written for duration in one["took"])
    high = took[int(0.999 * len(took))]
    what = f"four processes, FULL, 2 ms between appends; lost or gaps: {lost}"
    met = high <= 0.25 and not lost
    return Row(what, "-", f"{time(median(took))} (median)", f"{time(high)} (99.9 %)", "99.9 % within 250 ms", met)


def _write(workers: list[Worker], file: str, durability: str, each: int, think: float) -> list[Written]:
    for worker in workers:
        worker.ask("opened", file=file, durability=durability)
    for number, worker in enumerate(workers):
        worker.send("write", file=file, writer=number, count=each, think=think)
    return [worker.receive() for worker in workers]
