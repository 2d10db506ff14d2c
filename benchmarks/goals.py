"""The goals of DESIGN section 10 that one process meets: appends, reads, disk and memory, on the log of log.py."""

from __future__ import annotations

from collections.abc import Callable
from statistics import median

from .bench import Bench, Row, asks, at_most, middle
from .contest import NAME
from .table import MIB, time

# A log of so many events and transfers shows 10,000 messages in the scope chat.
WHOLE = (16_500, 20)
SIZES = (1_000, 10_000, 100_000, 1_000_000)
BASE = 10_000
TRANSFERS = 1_000
# The transfers of the logs whose last 50 are read; None is for messages alone.
LOGS = {"with transfers": TRANSFERS, "no transfers": 0, "messages alone": None}
POINTS = {"a quarter": 0.25, "the middle": 0.5, "three quarters": 0.75, "the end": 1.0}
MOST = 30.0  # Seconds in which 100,000 conversations of ten events are verified.
NEW_STORE = "the end, new Store"
FORK = "a fork's end"

Found = dict[tuple[str, int, str], list[float]]


def appends(bench: Bench) -> list[Row]:
    """One by one at both durabilities, and in hundreds."""
    count = bench.settings.appends
    works = (
        ("append, a commit each, FULL", 1.35, bench.both("append", durability="full", count=count)),
        ("append, a commit each, NORMAL", 2.5, bench.both("append", durability="normal", count=count)),
        ("append in hundreds, NORMAL, an event", 3.0, bench.both("append_hundreds", batches=count // 50)),
    )
    rows = []
    for what, limit, sides in works:
        bench.tell(what)
        rows.append(_against_raw(what, bench.in_rounds(sides), limit))
    return rows


def whole(bench: Bench) -> list[Row]:
    """A whole history against SELECT and decode of the rows that it shows."""
    size, transfers = WHOLE
    bench.tell(f"build a log of {size:,} events")
    bench.ours.ask("build", file="whole.db", size=size, transfers=transfers)
    visible = bench.ours.ask("visible", file="whole.db")
    bench.raw.ask("copy", store="whole.db", name=NAME, file="raw-whole.db", versions=visible)
    what = f"whole history of {len(visible):,} messages"
    bench.tell(what)
    sides = {"raw": asks(bench.raw, "read", file="raw-whole.db"), "ours": asks(bench.ours, "read", file="whole.db")}
    return [_against_raw(what, bench.in_rounds(sides), 2.0)]


def last(bench: Bench) -> tuple[list[Row], list[list[str]]]:
    """The last 50 of logs of every size and kind: what the goals say, and the curves."""
    rows, curves = [], []
    sizes = _sizes(bench)
    for kind in LOGS:
        sides = _last_sides(bench, kind)
        bench.tell(f"last 50, {kind}")
        found = bench.in_rounds(sides)
        for size in sizes:
            read = [found.get(("ours", size, point)) for point in (*POINTS, NEW_STORE, FORK)]
            times = ["-" if each is None else time(median(each)) for each in read]
            raw = time(median(found["raw", size, "the end"]))
            curves.append([f"{size:,}", _told(size, kind), *times, raw])
        if not LOGS[kind]:
            rows.append(_like_raw(found, sizes[-1], kind))
        elif sizes[-1] > BASE:
            rows.append(_flat(found, sizes[-1]))
    return rows, curves


def disk(bench: Bench) -> list[Row]:
    """The bytes of an event that has no id of its own; the logs are those of `last`."""
    size = bench.settings.largest
    rows = []
    for kind in LOGS:
        file = _file(size, kind)
        ours = bench.ours.ask("size", file=file) / size
        raw = bench.raw.ask("size", file=f"raw-{file}") / size
        what = f"disk, an event of {size:,}, {_told(size, kind)}"
        rows.append(at_most(what, f"{raw:.0f} bytes", f"{ours:.0f} bytes", ours / raw, 1.4))
    return rows


def memory(bench: Bench) -> list[Row]:
    """Peak memory of the last 50 of the largest log and of verifying its store, each in a new process."""
    size = bench.settings.largest
    file = _file(size, "with transfers")
    bench.tell("peak memory")
    with bench.fresh() as worker:
        imported = worker.ask("peak")
        worker.ask("read_last", file=file)
        peak = worker.ask("peak")
    bench.tell("verify")
    with bench.fresh() as worker:
        seconds, events = worker.ask("verify", file=file, quick=True)
        verified = worker.ask("peak")
    before = f"{imported / MIB:.0f} MiB (imports)"
    met = peak <= 100 * MIB
    rate = f"{events / seconds:,.0f} events/s"
    return [
        Row(f"peak memory, last 50 of {size:,}", before, f"{peak / MIB:.0f} MiB", "-", "≤ 100 MiB", met),
        Row(f"verify --quick, {events:,} events", "-", time(seconds), rate),
        Row("peak memory of that verify", before, f"{verified / MIB:.0f} MiB", "-"),
    ]


def conversations(bench: Bench) -> list[Row]:
    """What verify costs of many conversations of ten events, of a fifth of them, and with all that can be derived."""
    many, few = bench.settings.largest // 10, bench.settings.largest // 50
    sides = {"many": (many, False), "few": (few, False), "derived": (few, True)}
    found = {}
    for side, (count, derived) in sides.items():
        bench.tell(f"build and verify {count:,} conversations{', with timelines and index' if derived else ''}")
        file = f"verify-{side}.db"
        with bench.fresh() as worker:
            worker.ask("conversations", file=file, count=count, derived=derived)
        with bench.fresh() as worker:
            seconds, events = worker.ask("verify", file=file)
            found[side] = seconds, events, worker.ask("peak")
    all_, part, more = found["many"], found["few"], found["derived"]
    what, ratio = "conversations of 10 events", part[0] / all_[0]
    goal, rate = MOST * many / 100_000, f"{all_[1] / all_[0]:,.0f} events/s"
    return [
        Row(f"verify {many:,} {what}", "-", time(all_[0]), rate, f"≤ {goal:g} s", all_[0] <= goal),
        Row(f"verify {few:,} of them", time(all_[0]), time(part[0]), f"{ratio:.2f} x", "< 0.25 x all", ratio < 0.25),
        Row(f"verify {few:,} with timelines and index", time(part[0]), time(more[0]), f"{more[0] / part[0]:.1f} x"),
        Row(f"peak memory, verify {many:,}", f"{part[2] / MIB:.0f} MiB ({few:,})", f"{all_[2] / MIB:.0f} MiB", "-"),
    ]


def _against_raw(what: str, found: dict[str, list[float]], limit: float) -> Row:
    ours, raw = middle(found["ours"], found["raw"])
    return at_most(what, time(raw), time(ours), ours / raw, limit)


def _last_sides(bench: Bench, kind: str) -> dict[tuple[str, int, str], Callable[[], float]]:
    sides: dict[tuple[str, int, str], Callable[[], float]] = {}
    for size in _sizes(bench):
        file = _file(size, kind)
        bench.tell(f"build a log of {size:,} events, {_told(size, kind)}")
        bench.ours.ask("build", file=file, size=size, transfers=_transfers(size, kind))
        bench.raw.ask("copy", store=file, name=NAME, file=f"raw-{file}")
        for point, share in POINTS.items():
            at = int(size * share)
            sides["ours", size, point] = asks(bench.ours, "read_last", file=file, at=at)
            sides["raw", size, point] = asks(bench.raw, "read_last", file=f"raw-{file}", at=at)
        sides["ours", size, NEW_STORE] = asks(bench.ours, "read_last", file=file, opened=False)
        if LOGS[kind] is not None:
            sides["ours", size, FORK] = asks(bench.ours, "read_last", file=file, name=f"{NAME}-fork-2")
        sides["raw", size, NEW_STORE] = asks(bench.raw, "read_last", file=f"raw-{file}", at=size, opened=False)
    return sides


def _flat(found: Found, size: int) -> Row:
    """With the same transfers, a long log costs what a short one does; the worst of all points."""
    read = {point: middle(found["ours", size, point], found["ours", BASE, point]) for point in POINTS}
    worst = max(POINTS, key=lambda point: read[point][0] / read[point][1])
    ours, base = read[worst]
    what = f"last 50 of {size:,}, {TRANSFERS:,} transfers, at {worst}"
    return at_most(
        what, f"{time(base)} (turnlog, {BASE:,})", time(ours), ours / base, 1.5, of=f"that of {BASE:,} events"
    )


def _like_raw(found: Found, size: int, kind: str) -> Row:
    """Without transfers, they cost what 50 rows by key do; the worst of all points."""
    rows = []
    for point in POINTS:
        both = {side: found[side, size, point] for side in ("raw", "ours")}
        rows.append(_against_raw(f"last 50 of {size:,}, {kind}, at {point}", both, 3.0))
    return max(rows, key=lambda row: float(row.measured.split()[0]))


def _sizes(bench: Bench) -> list[int]:
    return [size for size in SIZES if size <= bench.settings.largest]


def _transfers(size: int, kind: str) -> int | None:
    """In a small log not more than every tenth event is a transfer."""
    transfers = LOGS[kind]
    return None if transfers is None else min(transfers, size // 10)


def _told(size: int, kind: str) -> str:
    return f"{_transfers(size, kind):,} transfers" if LOGS[kind] else kind


def _file(size: int, kind: str) -> str:
    return f"{size}-{kind.replace(' ', '-')}.db"
