"""Measure timelines: building them, taking in an event, and looking things up, beside plain SQLite in the same run.

`python -m benchmarks.timelines 10000 100000` measures CPU time on logs of these sizes (benchmarks/log.py), with 1,000
transfers and with none, and prints each figure beside its goal (docs/design.md, section 10).
"""

from __future__ import annotations

import random
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import msgspec

from turnlog.costs import costs
from turnlog.projections import Handoff, explain, handoffs, timeline
from turnlog.store import Message, Store

from . import log

REPEATS = 200
TRANSFERS = 1000


def main(sizes: list[int]) -> None:
    """Measure logs of these sizes."""
    print(f"{'events':>9} {'transfers':>9}  {'what':<44} {'measured':>10}  goal")
    for size in sizes:
        for transfers in (TRANSFERS, None):
            with tempfile.TemporaryDirectory() as folder, Store(Path(folder) / "a.db", durability="normal") as store:
                log.build(store, "c", size, transfers)
                for what, measured, goal in measure(store, size, transfers):
                    print(f"{size:>9,} {transfers or 0:>9,}  {what:<44} {measured:>10}  {goal}", flush=True)


def measure(store: Store, size: int, transfers: int | None) -> list[tuple[str, str, str]]:
    """Return what was measured on one log: what, the figure, and the goal for it."""
    line = timeline(store, "c")
    began = time.process_time()
    line.at(last=1)
    built = time.process_time() - began
    spans = (store.db.row("SELECT count(*) FROM spans") or (0,))[0]
    pages = store.db.row(
        "SELECT sum(pgsize) FROM dbstat WHERE name LIKE 'spans%' OR name LIKE 'uses%' OR name = 'counts'"
    )
    pick = random.Random(size)
    versions = [pick.randint(1, size) for _ in range(REPEATS)]
    raw = times(lambda at: raw_last(store, at), versions)
    rows = [
        ("build, µs a span", f"{built / spans * 1e6:.1f}", "6 a message, 150 a structural event, 5 a span it ends"),
        ("disk, bytes a span", f"{(pages or (0,))[0] / spans:.0f}", "80 an event of the scope"),
        ("raw: SELECT and decode of 50 rows, µs", f"{raw:.0f}", "-"),
        ("last 50 at any version, times raw", f"{times(lambda at: line.at(at, last=50), versions) / raw:.1f}", "2.5"),
        ("a page of 50 of what is hidden, µs", f"{times(lambda at: line.hidden(at, count=50), versions):.0f}", "500"),
        ("explain of an event, µs", f"{times(lambda at: explain(store, 'c', at), versions):.0f}", "500"),
        (
            "what an event changed, µs",
            f"{times(lambda at: line.changes(at), versions):.0f}",
            "1,000 with a page",
        ),
        ("a new message, µs", f"{new_messages(store):.0f}", "60"),
    ]
    if transfers is not None:
        found: list[Handoff] = []
        alone = seconds(lambda: found.extend(handoffs(store, "c", "chat")))
        counted = seconds(lambda: list(costs(store, found)))
        rows.append(("handoffs, what each hid and added, ms", f"{alone * 1e3:.0f}", "50 at 10,000"))
        rows.append(("handoffs with costs, s", f"{alone + counted:.1f}", "5 at 10,000"))
        compared = seconds(lambda: list(costs(store, found, compare=True)))
        rows.append(("a handoff in all four modes, ms", f"{compared / len(found) * 1e3:.1f}", "200"))
    return rows


def seconds(ask: Callable[[], object]) -> float:
    """Return the CPU time of a question that is asked once."""
    began = time.process_time()
    ask()
    return time.process_time() - began


def times(ask: Callable[[int], object], versions: list[int]) -> float:
    """Return the median CPU time of a question, in microseconds."""
    ask(versions[0])
    measured = []
    for version in versions:
        began = time.process_time_ns()
        ask(version)
        measured.append((time.process_time_ns() - began) / 1000)
    return median(measured)


def raw_last(store: Store, at: int) -> list[object]:
    """Read and decode the 50 bodies up to a version as plain SQLite would."""
    rows = store.db.rows("SELECT body FROM events WHERE conversation = 1 AND version > ? LIMIT 50", (at - 50,))
    return [msgspec.json.decode(body) for (body,) in rows]


def new_messages(store: Store) -> float:
    """Return the CPU time in which a timeline takes in one message, in microseconds."""
    line, measured = timeline(store, "c"), []
    for _ in range(REPEATS):
        version = store.append("c", [Message(role="user", content="x" * 400)]).last
        began = time.process_time_ns()
        line.line(version)
        measured.append((time.process_time_ns() - began) / 1000)
    return median(measured)


if __name__ == "__main__":
    main([int(size) for size in sys.argv[1:]] or [10_000, 100_000])
