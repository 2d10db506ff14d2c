"""Contestants, each in a process of its own: asked by lines of JSON on standard input, answered on standard output.

A process of its own keeps one contestant's memory and garbage out of another's times, and lets a peer run in its own
environment. This module needs nothing but the standard library, since the peers' environment has no turnlog.
"""

from __future__ import annotations

import gc
import json
import sqlite3
import subprocess
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any, ClassVar

NAME = "call-42"
ROOT = Path(__file__).resolve().parent.parent


class Contestant:
    """What every contestant can be asked, but for what it lacks. Times are seconds, those of appends for one event."""

    name: ClassVar[str]
    without: ClassVar[tuple[str, ...]] = ()

    def title(self) -> str:
        """What it is called."""
        return self.name

    def lacks(self) -> tuple[str, ...]:
        """The questions that it has no answer to."""
        return self.without

    def about(self) -> str:
        """Its version, and how it was made to be as durable as the others."""
        raise NotImplementedError

    def start(self, folder: str) -> None:
        """Its files are in this folder from now on."""
        raise NotImplementedError

    def append(self, durability: str, count: int) -> float:
        """Append to the same conversation as before, a commit for each; `durability` is full or normal."""
        raise NotImplementedError

    def append_hundreds(self, batches: int) -> float:
        """Append in batches of 100 with a commit for each batch, at normal durability."""
        raise NotImplementedError

    def fill(self, size: int) -> None:
        """Make a conversation of so many messages, as fast as may be, to be read."""
        raise NotImplementedError

    def whole(self, size: int) -> float:
        """Read all messages of the conversation of that size."""
        raise NotImplementedError

    def last(self, size: int, middle: bool) -> float:
        """Read the last 50 messages of the conversation of that size, now or as they were in its middle."""
        raise NotImplementedError

    def disk(self, size: int) -> float:
        """The bytes that a message of the conversation of that size takes on disk."""
        raise NotImplementedError


def timed(work: Callable[[], object], least: float = 0.05) -> float:
    """The seconds that `work` takes: once if that is long, else the mean of as many times as fill `least` seconds."""
    gc.collect()
    began = perf_counter()
    work()
    once = perf_counter() - began
    if once > least:
        return once
    times = int(least / once) + 1
    began = perf_counter()
    for _ in range(times):
        work()
    return (perf_counter() - began) / times


def file_size(path: Path) -> int:
    """The bytes of a SQLite file once its WAL is written back."""
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    return path.stat().st_size


def serve(contestant: object) -> None:
    """Answer until standard input ends."""
    # What a library prints must not come between the answers.
    answers, sys.stdout = sys.stdout, sys.stderr
    for line in sys.stdin:
        asked = json.loads(line)
        try:
            answer = {"result": getattr(contestant, asked["call"])(**asked["arguments"])}
        except Exception:
            answer = {"error": traceback.format_exc()}
        print(json.dumps(answer), file=answers, flush=True)


class Worker:
    """A contestant's process: the module `module` of this package, run by `python`."""

    def __init__(self, module: str, *arguments: str, python: str | Path = sys.executable) -> None:
        command = [str(python), "-m", f"benchmarks.{module}", *arguments]
        self._process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def ask(self, call: str, **arguments: Any) -> Any:
        """Ask and wait for the answer."""
        self.send(call, **arguments)
        return self.receive()

    def send(self, call: str, **arguments: Any) -> None:
        """Ask without waiting."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"call": call, "arguments": arguments}) + "\n")
        self._process.stdin.flush()

    def receive(self) -> Any:
        """The answer to what was asked first of all that is not yet answered."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self._process.args!r} ended with {self._process.wait()}")
        answer = json.loads(line)
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return answer["result"]

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()
