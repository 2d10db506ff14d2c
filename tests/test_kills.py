"""Killed anywhere inside a redaction, an erasure, a fork or a catching up, a store either did it or did not."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from random import Random
from typing import Any

import pytest
from logs import random_log
from test_append import recorded, said
from test_redaction import files_with
from views import foretold, seen, summary, told

from turnlog.projections import history, search
from turnlog.projections.derived import differences
from turnlog.store import NameTaken, Store, Verified

KILLS = 20
GUARD = 120  # Seconds after which a process that hangs is killed, so that the test fails instead of hanging, too.

# Runs an action once to count the points at which it can die: before each statement, every few instructions of
# SQLite's, and when it has returned. Then it runs it again for so many of them, each on a copy of the store and in a
# process that kills itself there.
DYING = """
import os, shutil, signal, sqlite3, sys
from pathlib import Path
from turnlog.projections import timeline
from turnlog.projections.timelines import catch_up
from turnlog.store import Store, search_file
from turnlog.store.spans import tables

# Steps of catching up end by the clock, and call ids are hashed with a secret: a clock that only counts and a secret of
# zeros make every run the same.
clock = iter(range(1_000_000))
now = lambda: next(clock) / 2**14
search_file.time = catch_up.time = type("Clock", (), {"perf_counter": now, "monotonic": now})
tables.os = type("Secrets", (), {"urandom": bytes})

path, action, kills = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
connect, armed, seen, last = sqlite3.connect, False, 0, 0

def tick(*_):
    global seen
    seen += armed
    if armed and seen == last:
        os.kill(os.getpid(), signal.SIGKILL)

def traced(*arguments, **options):
    connection = connect(*arguments, **options)
    connection.set_trace_callback(tick)
    connection.set_progress_handler(tick, 20)
    return connection

def run(copy):
    global armed
    shutil.copy(path, copy)
    with Store(copy) as store:
        armed = True
        exec(action)
        tick()
        armed = False

sqlite3.connect = traced
run(path.with_name("counted.db"))
points, seen = seen, 0
for kill in range(kills):
    last = 1 + kill * (points - 1) // (kills - 1)
    child = os.fork()
    if child == 0:
        run(path.with_name(f"{kill}.db"))
        os._exit(0)
    print(last, os.waitpid(child, 0)[1])
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A store of which all that was said so far is in the search index."""
    path = tmp_path / "s.db"
    with Store(path, durability="normal") as store:
        store.append("root", [said(f"secret{n} " + "filler " * (400 * (n == 2))) for n in range(1, 6)])
        store.append("root", [summary("secret6", 1, 3)])
        store.fork("root", 3, "child")
        store.append("child", [said("secret7"), summary("secret8", 1, 3)])
        store.index.catch_up()
    return path


def killed(path: Path, action: str) -> list[Path]:
    """The stores that are left when a process was killed at so many points of an action."""
    command = [sys.executable, "-c", DYING, str(path), action, str(KILLS)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=GUARD)
    assert (done.returncode, done.stderr) == (0, "")
    points = [tuple(map(int, line.split())) for line in done.stdout.splitlines()]
    assert len({point for point, _ in points}) == KILLS
    assert {status for _, status in points} == {9}
    return [path.with_name(f"{kill}.db") for kill in range(KILLS)]


def sound(store: Store) -> bool:
    """Whether a store verifies and is not damaged."""
    return store.verify().faults == [] and store.db.row("PRAGMA integrity_check") == ("ok",)


def found(store: Store, *words: str) -> list[bool]:
    """Whether each word is found, in an index that is caught up."""
    return [bool(search(store, word)) for word in words]


def erased(path: Path, action: str, name: str, words: dict[int, str]) -> set[bool]:
    """Kill an erasure of these versions; which of done and not done the stores are that it leaves."""
    with Store(path) as store:
        before = recorded(store)
        uuid = store.stream(name).uuid
    outcomes = set()
    for left in killed(path, action):
        with Store(left) as store:
            assert sound(store)
            gone = [store.event(uuid, version).redacted for version in words]
            assert len(set(gone)) == 1
            done = gone[0]
            outcomes.add(done)
            assert done or recorded(store) == before
            assert found(store, *words.values()) == [not done] * len(words)
            store.append("goes on", [said("after the kill")])
        assert len(files_with(left, *words.values())) == (0 if done else len(words))
    return outcomes


def test_redact(path: Path) -> None:
    """A redaction of events in two conversations, and of their summaries, erases all of them or none."""
    action = "store.redact('child', [2, 3, 5], reason='asked for', summaries=True)"
    words = {2: "secret2", 3: "secret3", 5: "secret7", 6: "secret8"}
    assert erased(path, action, "child", words) == {True, False}


def test_append_a_redaction(path: Path) -> None:
    """A redaction that is appended among other events erases, or is not there, and they are not."""
    action = "store.append('root', [{'type': 'clear'}, {'type': 'redaction', 'target': 2, 'reason': 'asked for'}])"
    assert erased(path, action, "root", {2: "secret2"}) == {True, False}


def test_erase(path: Path) -> None:
    """An erasure takes all that a conversation said and its name, or nothing."""
    words = {1: "secret1", 2: "secret2", 4: "secret4", 6: "secret6"}
    assert erased(path, "store.erase('root', reason='the law')", "root", words) == {True, False}
    for kill in range(KILLS):
        with Store(path.with_name(f"{kill}.db")) as store:
            first = store.conversations()[0]
            assert (first.conversation is None) == store.event(first.uuid, 1).redacted


def test_forget(path: Path) -> None:
    """Forgetting redacts what says some words in every conversation, or in none."""
    action = "store.forget(['secret2', 'secret4', 'secret7'], reason='asked for')"
    assert erased(path, action, "child", {2: "secret2", 5: "secret7"}) == {True, False}
    for kill in range(KILLS):
        with Store(path.with_name(f"{kill}.db")) as store:
            assert store.event("root", 4).redacted == store.event("child", 5).redacted


def test_fork(path: Path) -> None:
    """A fork is there with its event, or is not there at all, and can be made then."""
    with Store(path) as store:
        before = recorded(store)
        views = [message.content for message in history(store, "child", at=4)]
    outcomes = set()
    for left in killed(path, "store.fork('child', 4, 'new')"):
        with Store(left) as store:
            assert sound(store)
            made = len(store.conversations()) == 3
            outcomes.add(made)
            assert made or recorded(store) == before
            if made:
                with pytest.raises(NameTaken):
                    store.fork("child", 4, "new")
            else:
                store.fork("child", 4, "new")
            assert [message.content for message in history(store, "new")] == views
            assert store.verify() == Verified(conversations=3, events=len(before) + 1)
    assert outcomes == {True, False}


@pytest.mark.parametrize("action", ["store.index.catch_up()", "store.index.rebuild()"])
def test_index(path: Path, action: str) -> None:
    """An index whose catch-up or rebuild was killed goes on from its checkpoint, and has every event once."""
    with Store(path) as store:
        store.append("long", [said(f"number{n}") for n in range(1200)])
        events = sum(event.type != "fork" for event in store.follow())
        before = recorded(store)
    positions = set()
    for left in killed(path, action):
        with Store(left) as store:
            assert sound(store)
            assert recorded(store) == before
            positions.add(checkpoint_of(store))
            store.index.catch_up()
            assert checkpoint_of(store) == before[-1][1]
            assert store.db.rows("SELECT count(*), count(DISTINCT rowid) FROM search") == [(events, events)]
            assert found(store, "secret1", "secret8", "number0", "number1199") == [True] * 4
            store.db.rows("INSERT INTO search (search) VALUES ('integrity-check')")
    assert len(positions) > 2


def test_timelines(path: Path) -> None:
    """A timeline whose catching up was killed goes on from where it was, and is as one that was made at once."""
    log = random_log(Random(7), 500)
    expected = foretold(log)
    with Store(path) as store:
        store.append("long", log)
        before = recorded(store)
    versions = set()
    for left in killed(path, f"timeline(store, 'long').line({len(log)})"):
        with Store(left) as store:
            assert sound(store)
            assert recorded(store) == before
            versions.add((store.db.row("SELECT max(version) FROM timelines") or (None,))[0])
            assert told(seen(store, "long")) == expected
            assert list(differences(store)) == []
    assert len(versions) > 2


@pytest.mark.parametrize("room", [0, 1, 7])
def test_a_full_disk(path: Path, room: int) -> None:
    """Where a timeline cannot be stored, views are right all the same, and it is stored once there is room."""
    log = random_log(Random(8), 200)
    expected = foretold(log)
    with Store(path) as store:
        store.append("long", log)
        pages = (store.db.row("PRAGMA page_count") or (0,))[0]
        store.db.rows(f"PRAGMA max_page_count = {pages + room}")
        assert told(seen(store, "long")) == expected
        assert sound(store)
        store.db.rows(f"PRAGMA max_page_count = {2**30}")
        assert told(seen(store, "long")) == expected
        assert store.db.row("SELECT max(version) FROM main.timelines") == (len(log),)
        assert list(differences(store)) == []


def checkpoint_of(store: Store) -> Any:
    """Return the position up to which the index has come: 0 if it is not there."""
    if store.db.row("SELECT 1 FROM sqlite_schema WHERE name = 'search_checkpoint'") is None:
        return 0
    return (store.db.row("SELECT position FROM search_checkpoint") or (0,))[0]


def test_a_rebuild_after_a_kill(path: Path) -> None:
    """An index that a kill left half way can be made anew, and then has all there is."""
    left = killed(path, "store.index.rebuild()")
    with Store(left[KILLS // 2]) as store:
        assert store.index.rebuild() == len(list(store.follow()))
        assert found(store, "secret1", "secret8") == [True, True]
