"""turnlog as a program uses it: a Store kept open, events as dicts, each append with the version it expects."""

from __future__ import annotations

import platform
import resource
import sqlite3
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from time import monotonic, perf_counter, process_time, sleep
from typing import Any, Literal

from turnlog.projections import differences, history, rebuild
from turnlog.store import Store

from .contest import NAME, Contestant, file_size, serve, timed
from .log import TEN, build, events
from .messages import messages
from .raw import APPENDED


class Ours(Contestant):
    """turnlog."""

    name = "turnlog"

    def __init__(self) -> None:
        self._folder = Path()
        self._open: dict[str, Store] = {}
        self._versions: dict[str, int] = {}
        self._events: dict[str, Iterator[dict[str, Any]]] = {}

    def about(self) -> str:
        return f"Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}"

    def start(self, folder: str) -> None:
        self._folder = Path(folder)

    def append(self, durability: str, count: int) -> float:
        store, version, batch = self._appended(durability, count)
        began = perf_counter()
        for number, event in enumerate(batch, start=version):
            store.append(NAME, [event], expected=number)
        return (perf_counter() - began) / count

    def append_hundreds(self, batches: int) -> float:
        store, version, batch = self._appended("normal", 100 * batches)
        began = perf_counter()
        for start in range(0, len(batch), 100):
            store.append(NAME, batch[start : start + 100], expected=version + start)
        return (perf_counter() - began) / len(batch)

    def fill(self, size: int) -> None:
        store = self._store(f"ours-{size}.db", "normal")
        said = ({"type": "message", **message} for message in islice(messages(), size))
        while batch := list(islice(said, 1000)):
            store.append(NAME, batch)

    def whole(self, size: int) -> float:
        return self.read(f"ours-{size}.db")

    def last(self, size: int, middle: bool) -> float:
        return self.read_last(f"ours-{size}.db", at=size // 2 if middle else size)

    def disk(self, size: int) -> float:
        return self.size(f"ours-{size}.db") / size

    def build(self, file: str, size: int, transfers: int | None) -> float:
        """Append the log of benchmarks/log.py as the conversation call-42; the seconds that it took."""
        began = perf_counter()
        build(self._store(file, "normal"), NAME, size, transfers)
        return perf_counter() - began

    def visible(self, file: str, name: str = NAME) -> list[int]:
        """The versions that are visible in the scope chat."""
        return sorted({message.version for message in history(self._store(file, "normal"), name).messages})

    def read(self, file: str) -> float:
        """The whole history of the scope chat."""
        store = self._store(file, "normal")
        return timed(lambda: history(store, NAME).messages)

    def read_last(self, file: str, at: int | None = None, opened: bool = True, name: str = NAME) -> float:
        """The last 50 of the scope chat as of a version; if not `opened`, with a Store of its own each time."""
        kept = self._store(file, "normal")

        def work() -> object:
            if opened:
                return history(kept, name, at=at, last=50).messages
            with Store(self._folder / file, durability="normal") as store:
                return history(store, name, at=at, last=50).messages

        return timed(work)

    def size(self, file: str) -> int:
        """The bytes of a file once its WAL is written back."""
        return file_size(self._folder / file)

    def peak(self) -> int:
        """The most bytes of memory that this process has had."""
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

    def conversations(self, file: str, count: int, derived: bool) -> None:
        """Make so many conversations of the ten events of log.TEN; if `derived`, with timelines and a search index."""
        store = self._store(file, "normal")
        for start in range(0, count, 500):
            with store.transaction():
                for number in range(start, min(start + 500, count)):
                    store.append(f"{NAME}-{number}", TEN)
        if derived:
            rebuild(store)

    def verify(self, file: str, quick: bool = False) -> tuple[float, int]:
        """The seconds of the processor that verify takes, and how many events it verified."""
        store = self._store(file, "normal")
        began = process_time()
        found = store.verify(derived=lambda: () if quick else differences(store))
        if found.faults or found.derived:
            raise AssertionError(found)
        return process_time() - began, found.events

    def opened(self, file: str, durability: str) -> None:
        """Have a store open, so that opening it is no part of what is measured next."""
        self._store(file, durability)

    def write(self, file: str, writer: int, count: int, think: float) -> dict[str, Any]:
        """Append one by one beside other processes, `think` seconds apart; when that was, and how long each took."""
        store = self._open[file]
        batch = [{**event, "meta": {"by": [writer, number]}} for number, event in enumerate(_plain(count))]
        took = []
        start = monotonic()
        for event in batch:
            began = monotonic()
            store.append(NAME, [event])
            took.append(monotonic() - began)
            if think:
                sleep(think)
        return {"start": start, "end": monotonic(), "took": took}

    def lost(self, file: str, writers: int, count: int) -> int:
        """How many of what those processes appended are lost; each gap between versions counts too."""
        found, gaps, before = set(), 0, 0
        for event in self._store(file, "normal").events(NAME):
            gaps += event.version != before + 1
            before = event.version
            found.add(tuple(event.body["meta"]["by"]))
        return gaps + writers * count - len(found)

    def _appended(self, durability: str, count: int) -> tuple[Store, int, list[dict[str, Any]]]:
        """The store, the version it is at and the next events."""
        file = f"ours-{durability}.db"
        version = self._versions.get(file, 0)
        self._versions[file] = version + count
        log = self._events.setdefault(file, events(*APPENDED))
        return self._store(file, durability), version, list(islice(log, count))

    def _store(self, file: str, durability: str) -> Store:
        if file not in self._open:
            kind: Literal["full", "normal"] = "full" if durability == "full" else "normal"
            self._open[file] = Store(self._folder / file, durability=kind)
        return self._open[file]


def _plain(count: int) -> list[dict[str, Any]]:
    return [{"type": "message", **message} for message in islice(messages(), count)]


if __name__ == "__main__":
    serve(Ours())
