"""The peers beside raw and turnlog, on messages alone: they know no scopes and no transfers."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from statistics import median

from .bench import Bench, asks
from .contest import Worker
from .peers import environment
from .table import table, time

WHOLE = 10_000


def compare(bench: Bench) -> str:
    """A table with a column for each, and how each was set up."""
    bench.tell("install the peers")
    python = environment.python()
    with ExitStack() as stack:
        contestants = {"raw": bench.raw, "turnlog": bench.ours}
        for module, *arguments in environment.CONTESTANTS:
            worker = stack.enter_context(Worker(f"peers.{module}", *arguments, python=python))
            worker.ask("start", folder=bench.folder)
            contestants[worker.ask("title")] = worker
        return _compared(bench, contestants)


def _compared(bench: Bench, contestants: dict[str, Worker]) -> str:
    size = bench.settings.compared
    for title, worker in contestants.items():
        bench.tell(f"fill {title}")
        for each in {WHOLE, size}:
            worker.ask("fill", size=each)
    appends = bench.settings.appends
    works: dict[str, tuple[str, dict[str, object]]] = {
        "append, a commit each, FULL": ("append", {"durability": "full", "count": appends}),
        "append, a commit each, NORMAL": ("append", {"durability": "normal", "count": appends}),
        "append in hundreds, NORMAL, an event": ("append_hundreds", {"batches": appends // 50}),
        f"all of {WHOLE:,} messages": ("whole", {"size": WHOLE}),
        f"last 50 of {size:,}": ("last", {"size": size, "middle": False}),
        f"last 50 of {size:,} as of the middle": ("last", {"size": size, "middle": True}),
    }
    rows = []
    for what, (call, arguments) in works.items():
        bench.tell(what)
        sides: dict[str, Callable[[], float]] = {
            title: asks(worker, call, **arguments)
            for title, worker in contestants.items()
            if call not in worker.ask("lacks")
        }
        found = bench.in_rounds(sides)
        rows.append([what, *(time(median(found[title])) if title in found else "-" for title in contestants)])
    bench.tell("disk")
    disk = [f"{worker.ask('disk', size=WHOLE):,.0f} bytes" for worker in contestants.values()]
    rows.append(["disk, a message", *disk])
    about = [f"- {title}: {worker.ask('about')}." for title, worker in contestants.items()]
    return "\n".join([table(["", *contestants], rows), "", *about])
