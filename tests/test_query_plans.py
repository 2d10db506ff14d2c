"""No read of a conversation scans the table: every query of the reading interface goes by an index."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from turnlog.projections import explain, handoffs, history, problems, timeline, usage
from turnlog.projections.timelines.catch_up import path_of
from turnlog.store import Describe, Message, Store, Summary, Transfer

READS: dict[str, Callable[[Store], object]] = {
    "history": lambda store: history(store, "c").to_dict(),
    "hidden": lambda store: timeline(store, "c").hidden(),
    "problems": lambda store: problems(timeline(store, "c")),
    "explain": lambda store: explain(store, "c", 2),
    "changes": lambda store: timeline(store, "c").changes(6),
    "what if": lambda store: history(store, "c", mode="delete-history"),
    "history of a scope of one's own": lambda store: history(store, "c", "lab").messages,
    "last": lambda store: history(store, "c", at=5, last=2).messages,
    "len": lambda store: len(history(store, "c")),
    "page": lambda store: history(store, "c")[1:3],
    "kept open": lambda store: (kept := timeline(store, "c"), store.append("c", [{"type": "clear"}]), kept.at()),
    "digest": lambda store: history(store, "c").digest,
    "fork": lambda store: history(store, "kid").messages,
    "handoffs": lambda store: handoffs(store, "c"),
    "path": lambda store: path_of(store, "c", "chat"),
    "usage": lambda store: usage(store, "c"),
    "events": lambda store: list(store.events("c", 2, 4, types=("message",), scopes=("chat", None))),
    "backwards": lambda store: list(store.events("c", backwards=True)),
    "follow": lambda store: list(store.follow(3)),
    "follow one": lambda store: list(store.follow(3, "c")),
    "scopes": lambda store: (store.scopes("c"), store.scopes_in_use("c")),
    "time": lambda store: store.version_at("c", store.event("c", 2).recorded_at),
    "append": lambda store: store.append("c", [{"type": "clear", "id": "again"}]),
}


@pytest.fixture
def store() -> Any:
    """A store with every kind of event that a read looks for."""
    with Store(":memory:") as store:
        store.append("c", [Describe(scopes=["lab"]), *(Message(role="user", content=str(n)) for n in range(4))])
        store.append("c", [Transfer(to="b", system="B"), Message(role="system", content="note", scope="lab")])
        store.append("c", [Summary(text="s", summary_of=2, first=2, last=3)])
        store.redact("c", [4], reason="r")
        store.fork("c", 5, "kid")
        yield store


@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_no_read_scans_the_events(store: Store, read: Callable[[Store], object]) -> None:
    """No step of any query's plan is a scan of the events or of the rows of timelines."""
    plans: list[str] = []
    rows, row = store.db.rows, store.db.row

    def noted(run: Callable[..., Any]) -> Callable[..., Any]:
        def noting(sql: str, parameters: Any = ()) -> Any:
            if sql.lstrip().startswith(("SELECT", "WITH")):
                plans.extend(step[3] for step in rows(f"EXPLAIN QUERY PLAN {sql}", parameters))
            return run(sql, parameters)

        return noting

    store.db.rows, store.db.row = noted(rows), noted(row)  # type: ignore[method-assign]
    read(store)
    assert plans
    scans = ("SCAN events", "SCAN spans", "SCAN uses", "SCAN hidings", "SCAN facts", "SCAN blocks")
    assert [step for step in plans if step.startswith(scans)] == []


# What reads a whole view, all spans or all pairs, and has nothing narrower to search by.
WHOLE = ("LIMIT ? OFFSET ?", "ORDER BY place", "ORDER BY place, since", "ORDER BY uses.version")


@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_reads_of_spans_are_narrow(store: Store, read: Callable[[Store], object]) -> None:
    """Every statement that reads spans searches by more than their timeline, save those that read a whole view."""
    broad: list[str] = []
    rows, row = store.db.rows, store.db.row

    def noted(run: Callable[..., Any]) -> Callable[..., Any]:
        def noting(sql: str, parameters: Any = ()) -> Any:
            if sql.lstrip().startswith("SELECT") and ".spans" in sql:
                steps = [step[3] for step in rows(f"EXPLAIN QUERY PLAN {sql}", parameters)]
                if any("spans" in step and ("(line=?)" in step or "SCAN" in step) for step in steps):
                    broad.append(sql)
            return run(sql, parameters)

        return noting

    store.db.rows, store.db.row = noted(rows), noted(row)  # type: ignore[method-assign]
    read(store)
    assert [sql for sql in broad if not sql.endswith(WHOLE)] == []
