"""Run the benchmarks: `python -m benchmarks [--quick] [--peers] [--largest EVENTS] [--folder FOLDER]`."""

from __future__ import annotations

import argparse
import os
import platform
import sys
import tempfile
from dataclasses import replace
from datetime import UTC, datetime
from time import monotonic

from .bench import Bench, Settings
from .compare import compare
from .contest import Worker
from .goals import FORK, NEW_STORE, POINTS, appends, conversations, disk, last, memory, whole
from .processes import processes
from .table import table

QUICK = Settings(rounds=3, budget=3, appends=200, writes=150, largest=10_000, compared=10_000)
FULL = Settings(rounds=11, budget=30, appends=1_000, writes=1_000, largest=1_000_000, compared=100_000)


def main() -> None:
    """Print the tables on standard output; what is being done goes to standard error."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="turnlog beside sqlite3 and its peers")
    parser.add_argument("--quick", action="store_true", help="few rounds and small logs: about a minute")
    parser.add_argument("--peers", action="store_true", help="install and measure the peers too")
    parser.add_argument("--largest", type=int, metavar="EVENTS", help="the largest log, at least 10,000 events")
    parser.add_argument("--folder", help="where the files go; the disk to measure (default: the temporary folder)")
    arguments = parser.parse_args()
    settings = QUICK if arguments.quick else FULL
    if arguments.largest is not None:
        settings = replace(settings, largest=arguments.largest)
    with tempfile.TemporaryDirectory(prefix="turnlog-benchmarks-", dir=arguments.folder) as folder:
        _run(settings, folder, arguments.peers)


def _run(settings: Settings, folder: str, peers: bool) -> None:
    began = monotonic()

    def tell(what: str) -> None:
        print(f"{monotonic() - began:5.0f} s  {what}", file=sys.stderr, flush=True)

    with Worker("raw") as raw, Worker("ours") as ours:
        for worker in (raw, ours):
            worker.ask("start", folder=folder)
        bench = Bench(settings, folder, raw, ours, tell)
        rows = [*appends(bench), *whole(bench)]
        flat, curves = last(bench)
        rows += [*flat, *disk(bench), *processes(bench), *memory(bench), *conversations(bench)]
        verdicts = {True: "met", False: "missed", None: ""}
        cells = [[row.what, row.raw, row.ours, row.measured, row.goal, verdicts[row.met]] for row in rows]
        print(f"{_machine()}, {ours.ask('about')}\n")
        print(table(["", "raw", "turnlog", "measured", "goal", ""], cells), "\n")
        print(table(["last 50 of", "", *POINTS, NEW_STORE, FORK, "raw, the end"], curves), flush=True)
        if peers:
            print(f"\n{compare(bench)}")
    tell("done")


def _machine() -> str:
    gibibytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    day = datetime.now(UTC).date().isoformat()
    return f"{day}: {os.cpu_count()} cores, {gibibytes:.0f} GiB, {platform.system()} {platform.machine()}"
