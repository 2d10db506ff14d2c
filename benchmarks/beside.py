"""Measure what readers cost writers: four processes append, alone and beside four that read after each append.

`python -m benchmarks.beside 60` appends for a minute each way to one conversation in which every hundredth event is a
transfer that deletes the history. A reader waits for a new version, reads the last 50 messages as of it, and checks
them against what it knows of the log: which are visible, and how many.
"""

from __future__ import annotations

import multiprocessing
import sys
import tempfile
import time
from multiprocessing.synchronize import Event
from pathlib import Path

from turnlog.projections import timeline
from turnlog.store import Message, Store, Transfer

PROCESSES = 4
EVERY = 100
PAUSE = 0.0005  # Seconds after which a reader looks again whether there is a new version.


def main(seconds: float) -> None:
    """Print how many events were appended a second without and with readers, and how many views were read."""
    with tempfile.TemporaryDirectory() as folder:
        alone, _, _ = run(Path(folder) / "alone.db", seconds, 0)
        beside, views, wrong = run(Path(folder) / "beside.db", seconds, PROCESSES)
    print(f"{PROCESSES} that append alone: {alone / seconds:,.0f} events/s")
    print(f"beside {PROCESSES} that read: {beside / seconds:,.0f} events/s, {beside / alone:.2f} x (goal 0.7)")
    print(f"{views:,} views of 50 messages read, {views / seconds:,.0f}/s, {wrong} wrong")


def run(path: Path, seconds: float, readers: int) -> tuple[int, int, int]:
    """Return how many events were appended in so many seconds, and how many views were read and were wrong."""
    context = multiprocessing.get_context("spawn")
    stop, results = context.Event(), context.Queue()
    with Store(path, durability="normal") as store:
        store.append("c", [_event(1)])
    writers = [context.Process(target=write, args=(path, stop, results)) for _ in range(PROCESSES)]
    others = [context.Process(target=read, args=(path, stop, results)) for _ in range(readers)]
    for process in (*others, *writers):
        process.start()
    for _ in (*others, *writers):
        results.get()  # It is ready.
    began = time.monotonic()
    time.sleep(seconds)
    stop.set()
    found = [results.get() for _ in (*others, *writers)]
    for process in (*others, *writers):
        process.join()
    scale = seconds / (time.monotonic() - began)
    views = [(count, wrong) for kind, count, wrong in found if kind == "views"]
    appended = sum(count for kind, count, _ in found if kind == "events")
    return int(appended * scale), sum(count for count, _ in views), sum(wrong for _, wrong in views)


def write(path: Path, stop: Event, results: multiprocessing.Queue[tuple[str, int, int]]) -> None:
    """Append one event at a time until told to stop; the event of each version is known from the version alone."""
    with Store(path, durability="normal") as store:
        results.put(("ready", 0, 0))
        count = 0
        while not stop.is_set():
            with store.transaction():
                store.append("c", [_event(store.version("c") + 1)])
            count += 1
    results.put(("events", count, 0))


def read(path: Path, stop: Event, results: multiprocessing.Queue[tuple[str, int, int]]) -> None:
    """Read the last 50 messages of each version that comes, and count the views that are not as they must be."""
    with Store(path, durability="normal") as store:
        line = timeline(store, "c")
        results.put(("ready", 0, 0))
        seen = count = wrong = 0
        while not stop.is_set():
            version = store.version("c")
            if version == seen:
                time.sleep(PAUSE)
                continue
            seen, count = version, count + 1
            view = line.at(version, last=50)
            since = version - version % EVERY
            visible = list(range(max(1, since), version + 1))
            shown = [message.version for message in view.messages]
            wrong += shown != visible[-50:] or view.total != len(visible)
    results.put(("views", count, wrong))


def _event(version: int) -> Message | Transfer:
    if version % EVERY:
        return Message(role="user", content=f"message {version} " + "x" * 300)
    return Transfer(to=f"assistant-{version // EVERY % 7}", mode="delete-history", system="You help.")


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 60)
