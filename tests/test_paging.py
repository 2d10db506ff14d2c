"""A view read in part: len, iteration, pages and `last` give what `messages` has, and read no more than they need."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from logs import SCOPES, logs, what_ifs
from views import reply, result, to, user

from turnlog.projections import history
from turnlog.store import InvalidEvent, Store

BOUNDS = st.none() | st.integers(-6, 6)


@settings(max_examples=60, deadline=None)
@given(
    log=logs(),
    scope=st.sampled_from(SCOPES),
    what_if=what_ifs,
    start=BOUNDS,
    stop=BOUNDS,
    step=st.sampled_from((None, 1, 2, -1)),
)
def test_any_part_is_that_of_all_messages(
    log: list[dict[str, Any]],
    scope: str,
    what_if: dict[str, Any],
    start: int | None,
    stop: int | None,
    step: int | None,
) -> None:
    """Of any log, len, iteration, indices and slices are those of the list of messages."""
    with Store(":memory:") as store:
        store.append("c", log)
        every = history(store, "c", scope, **what_if).messages

        def view() -> Any:
            return history(store, "c", scope, **what_if)

        assert len(view()) == len(every)
        assert list(view()) == every
        assert view()[start:stop:step] == every[start:stop:step]
        for index in range(-len(every), len(every)):
            assert view()[index] == every[index]
        for index in (len(every), -len(every) - 1):
            with pytest.raises(IndexError, match=f"index: {index} "):
                view()[index]


class Counted:
    """How many rows of the log have been read, and how many bodies among them."""

    def __init__(self) -> None:
        self.rows = self.bodies = 0


@contextmanager
def counted(store: Store) -> Iterator[Counted]:
    """Count what is read of the events inside."""
    found, rows = Counted(), store.db.rows

    def counting(sql: str, parameters: Any = ()) -> list[tuple[Any, ...]]:
        read = rows(sql, parameters)
        if "FROM events" in sql:
            found.rows += len(read)
            found.bodies += len(read) if "body" in sql else 0
        return read

    store.db.rows = counting  # type: ignore[method-assign]
    yield found
    store.db.rows = rows  # type: ignore[method-assign]


@pytest.fixture(scope="module")
def store() -> Iterator[Store]:
    """A conversation of 9,000 messages: calls and results among them, and shared memory."""
    said = [user("hi"), reply("", "t1"), result("t1"), user("so", scope="shared_memory"), reply("well"), reply("yes")]
    with Store(":memory:") as opened:
        opened.append("c", said * 1500)
        yield opened


@pytest.mark.parametrize(
    ("read", "rows"),
    [
        (lambda view: list(islice(view, 20)), 1000),
        (lambda view: view[10:30], 1000),
        (lambda view: view[5], 1000),
        (lambda view: view[-30:-10], 64),
        (lambda view: view[-1], 64),
        (lambda view: (view.assistant, view.tools, view.version), 0),
    ],
    ids=["iteration", "page", "index", "page from the end", "last", "head"],
)
def test_only_what_is_asked_for_is_read(store: Store, read: Any, rows: int) -> None:
    """A part of a view reads a page of rows, not the conversation."""
    with counted(store) as found:
        read(history(store, "c"))
    assert found.rows <= rows


def test_the_last_ones_read_as_many_rows_in_a_long_conversation(store: Store) -> None:
    """`last` reads some rows more than it gives, at any version."""
    for at in (None, 4000, 100):
        with counted(store) as found:
            assert len(history(store, "c", at=at, last=20).messages) == 20
        assert found.rows <= 40


def test_len_reads_no_bodies(store: Store) -> None:
    """How many messages there are is told by their frames."""
    with counted(store) as found:
        assert len(history(store, "c")) == 9000
    assert found.bodies == 0


@pytest.mark.parametrize("many", [10**6, 2**63, 10**30])
def test_more_than_there_are(many: int) -> None:
    """However many are asked for, by a reader or by a transfer's context, all that are there are given."""
    with Store(":memory:") as store:
        store.append("c", [user(str(number)) for number in range(30)])
        store.append("c", [to("b", context={"type": "lastNMessages", "maxMessages": many})])
        assert len(history(store, "c", last=many).messages) == 30
        for whole in (slice(-many, None), slice(0, many), slice(None, many)):
            assert history(store, "c")[whole] == history(store, "c").messages
        assert history(store, "c")[many : many + 1] == []
        with pytest.raises(IndexError):
            history(store, "c")[many]


@pytest.mark.parametrize("last", [-1, "3", 1.5, True])
def test_a_number_of_messages_is_one(store: Store, last: Any) -> None:
    """What `last` cannot be is refused by its name and value."""
    with pytest.raises(InvalidEvent) as error:
        history(store, "c", last=last)
    assert (error.value.field, error.value.value) == ("last", last)


@pytest.mark.parametrize("index", ["a", 1.5, None])
def test_an_index_is_a_number_or_a_slice(store: Store, index: Any) -> None:
    """Anything else is a TypeError that says so, as for a list."""
    with pytest.raises(TypeError, match="neither a number nor a slice"):
        history(store, "c")[index]
