"""Pages of views and of what is hidden: what is asked for is what is read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from turnlog.projections import Timeline, history, timeline
from turnlog.store import InvalidArgument, Store

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


@pytest.mark.parametrize("at", [None, SIZE + 1, 250])
@pytest.mark.parametrize("size", [7, 1000])
def test_pages_put_together_are_the_view(line: Timeline, at: int | None, size: int) -> None:
    """`first` and `count` ask for pages that overlap nowhere and leave nothing out; `last` gives the end of them."""
    whole = line.at(at)
    pages = [line.at(at, first=first, count=size) for first in range(0, whole.total + 1, size)]
    assert [message for page in pages for message in page] == whole.messages
    assert {page.total for page in pages} == {len(whole)}
    assert line.at(at, last=size).messages == whole.messages[-size:]


@pytest.mark.parametrize("at", [None, SIZE + 1, SIZE])
def test_hidden_pages_put_together_are_the_whole(line: Timeline, at: int | None) -> None:
    """Pages of what is hidden are by version, overlap nowhere and leave nothing out, by number or after a version."""
    whole = line.hidden(at)
    assert [each.version for each in whole] == ([] if at == SIZE else list(range(1, SIZE + 1)))
    assert [each for first in range(0, SIZE + 1, 1000) for each in line.hidden(at, first, 1000)] == whole
    after, found = 0, []
    while page := line.hidden(at, count=1000, after=after):
        found += page
        after = page[-1].version
    assert found == whole


def test_hidden_calls_are_paged_with_messages(store: Store) -> None:
    """A call that a visible message has lost is an entry of its own, and a page may end between two of one message.

    The removing mode takes the calls that this and earlier transfers meant, and ends their results (rule 4.4).
    """
    calls = [{"id": call, "name": "f", "arguments": "{}"} for call in ("a", "b")]
    mode = "swap-system-message-in-history-and-remove-transfer-tool-messages"
    store.append(
        "calls",
        [
            {"type": "message", "role": "assistant", "content": "x", "tool_calls": calls},
            {"type": "message", "role": "tool", "tool_call_id": "b", "content": "r"},
            {"type": "transfer", "to": "d", "mode": "rolling-history", "tool_call_id": "a"},
            {"type": "transfer", "to": "e", "mode": mode, "tool_call_id": "b"},
        ],
    )
    line = timeline(store, "calls")
    whole = [(each.version, each.call, each.by) for each in line.hidden()]
    assert whole == [(1, "a", 4), (1, "b", 4), (2, None, 4)]
    pages = [line.hidden(first=first, count=1) for first in range(len(whole))]
    assert [[(each.version, each.call, each.by) for each in page] for page in pages] == [[each] for each in whole]
    assert line.hidden(first=len(whole)) == []
    assert [each.version for each in line.hidden(after=1)] == [2]


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
    with pytest.raises(InvalidArgument, match=f"^{field}: "):
        line.at(**page)


def test_a_page_is_not_sent(store: Store) -> None:
    """A page has no digest, and no request is recorded for it: a model is sent the whole view."""
    with pytest.raises(InvalidArgument, match="is a page, not a whole view"):
        history(store, "c", last=3).request(model="m")
