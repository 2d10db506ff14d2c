"""Measure what erasing costs: a redaction in stores of several sizes, many at once, and the search for what to forget.

`python -m benchmarks.erasure 1 10 100` makes stores of so many megabytes, with an index of their texts, and prints
seconds, on the clock and of CPU time, as medians of five. A copy of the file that is on the disk when it returns is the
least that writing all of it anew can cost.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import count, islice
from pathlib import Path
from statistics import median

from turnlog.projections import search
from turnlog.store import Store

from . import messages

REPEATS = 5
BATCH = 500
MANY = 200


def main(sizes: list[int]) -> None:
    """Measure stores of these sizes."""
    print(f"{'MB':>5}  {'what':<52} {'s':>7} {'s of CPU':>9}")
    for size in sizes:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "a.db"
            events = build(path, size * 1_000_000)
            for what, seconds, of_cpu in measure(path, events):
                print(f"{size:>5}  {what:<52} {seconds:>7.3f} {of_cpu:>9.3f}", flush=True)


def build(path: Path, size: int) -> int:
    """Make a store of a size in bytes; return how many events it has."""
    source = messages.messages()
    with Store(path, durability="normal") as store:
        for number in count():
            store.append(f"c{number}", [{"type": "message", **each} for each in islice(source, BATCH)])
            pages = store.db.row("SELECT page_count * page_size FROM pragma_page_count, pragma_page_size")
            if pages is not None and pages[0] >= size:
                return store.position()
    raise AssertionError


def measure(path: Path, events: int) -> list[tuple[str, float, float]]:
    """Return what was measured: what, seconds on the clock, and seconds of CPU time."""
    versions = iter(range(2, BATCH))

    def redact(store: Store, number: int = 1) -> None:
        assert store.redact("c0", list(islice(versions, number)), reason="r").left_every_file

    with Store(path) as store:
        rows = [("a copy of the file", *timed(lambda: copy(path)))]
        rows.append(("a redaction", *timed(lambda: redact(store))))
        rows.append((f"{MANY} redactions in one call", *timed(lambda: redact(store, MANY), repeats=1)))
        rows.append(("a search, which makes the index again", *timed(lambda: search(store, "refund"), repeats=1)))
        rows.append(("a redaction in a store that was searched", *timed(lambda: redact(store), repeats=1)))
        sought = timed(lambda: store.forget(["Zwickelmann"], reason="r", dry_run=True))
        rows.append((f"look for what says a word, in {events:,} events", *sought))
    return rows


def copy(path: Path) -> None:
    """Copy a file to another that is on the disk then."""
    target = path.with_name("copy")
    shutil.copyfile(path, target)
    with open(target, "rb+") as file:
        os.fsync(file.fileno())


def timed(action: Callable[[], object], repeats: int = REPEATS) -> tuple[float, float]:
    """Return the medians of seconds on the clock and of CPU time."""
    found = []
    for _ in range(repeats):
        began = time.perf_counter(), time.process_time()
        action()
        found.append((time.perf_counter() - began[0], time.process_time() - began[1]))
    return median(each[0] for each in found), median(each[1] for each in found)


if __name__ == "__main__":
    main([int(size) for size in sys.argv[1:]])
