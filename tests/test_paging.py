"""Pages of views and of what is hidden: what is asked for is what is read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from turnlog.projections import Timeline, history, timeline
from turnlog.store import InvalidEvent, Store

SIZE = 9000
MANY = 2**70


@pytest.fixture(scope="module")
def store() -> Iterator[Store]:
    """A store with a long conversation, most of which a transfer hides."""
    with Store(":memory:") as opened:
        said = [{"type": "message", "role": "user", "content": str(number)} for number in range(SIZE)]
        opened.append("c", [*said, {"type": "transfer", "to": "b", "mode": "delete-history"}, *said[:100]])
        yield opened


@pytest.fixture
def line(store: Store) -> Timeline:
    made = timeline(store, "c")
    made.at(last=1)
    return made


class Counted:
    """Counts the rows that a store reads."""

    def __init__(self, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
        self.rows = 0
        read = store.db.rows

        def rows(sql: str, parameters: Any = ()) -> list[tuple[Any, ...]]:
            found = read(sql, parameters)
            self.rows += len(found)
            return found

        monkeypatch.setattr(store.db, "rows", rows)


@pytest.mark.parametrize("at", [None, SIZE, SIZE + 1, SIZE + 50, 200])
def test_only_what_is_asked_for_is_read(
    store: Store, line: Timeline, at: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last messages of any version cost a few hundred rows, also right after nearly everything was hidden."""
    counted = Counted(store, monkeypatch)
    assert len(line.at(at, last=50)) <= 50
    line.hidden(at, count=50)
    assert counted.rows < 800


def test_a_number_above_all_gives_all(line: Timeline) -> None:
    """A page that is longer than the view, however long, is the view."""
    whole = line.at().messages
    assert len(whole) == 100
    assert line.at(last=MANY).messages == line.at(first=0, count=MANY).messages == whole
    assert line.at(first=MANY).messages == []
    assert line.hidden(first=MANY) == []
    assert len(line.hidden(count=MANY)) == SIZE


def test_a_page_knows_its_place(line: Timeline) -> None:
    """A page says which number its first message has, and how many there are in all."""
    page = line.at(first=10, count=5)
    assert (page.first, page.total, len(page)) == (10, 100, 5)
    assert page[0].content == "10"
    assert page[-1].content == "14"
    assert not page.is_whole


@pytest.mark.parametrize("page", [{"last": -1}, {"first": -1}, {"count": -1}, {"last": True}, {"last": 1, "first": 0}])
def test_a_page_that_is_none(line: Timeline, page: dict[str, Any]) -> None:
    """A negative number, one that is none, and `last` beside the others are refused by name."""
    field = next(iter(page))
    with pytest.raises(InvalidEvent, match=f"^{field}: "):
        line.at(**page)


def test_a_page_is_not_sent(store: Store) -> None:
    """A page has no digest, and no request is recorded for it: a model is sent the whole view."""
    with pytest.raises(InvalidEvent, match="is a page, not a whole view"):
        history(store, "c", last=3).request(model="m")
