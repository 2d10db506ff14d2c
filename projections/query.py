"""One read-only SQL statement over everything in the store."""

from __future__ import annotations

import re
from collections.abc import Callable

from turnlog.store import QueryResult, Store, StoreUnusable
from turnlog.store.query import Parameters, run

from .derived import catch_up

# What cannot be asked of timelines that are kept in memory: another connection runs the statement.
_OF_TIMELINES = re.compile(r"\b(visible|spans|timelines)\b", re.IGNORECASE)


def query(
    store: Store,
    sql: str,
    parameters: Parameters = (),
    *,
    timeout: float = 30.0,
    conversation: str | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> QueryResult:
    """Return the result of one SELECT over the tables and views of `schema.sql`: its `columns` and its `rows`.

    The statement can read and nothing else. It has `timeout` seconds of its own: the time between two rows that are
    asked for does not count. `parameters` are the values of `?` or `:name`. `conversation` is the one whose projected
    histories are caught up first, all if it is None; `progress` hears of that.

    :raises QueryRefused: it is not one statement that reads, or is wrong; `what` is the part that is refused.
    :raises QueryTimedOut: it ran for too long, also while rows are asked for.
    :raises NotFound: there is no such conversation.
    :raises StoreUnusable: it asks of timelines, which are behind, and the file cannot be written.
    """
    stored, wanted = catch_up(store, conversation, progress)
    result = run(store.db, sql, parameters, timeout)
    if stored < wanted and _OF_TIMELINES.search(sql):
        result.close()
        raise StoreUnusable(store.path, "its timelines are behind, and the file cannot be written to catch them up")
    return result
