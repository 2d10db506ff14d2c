"""The search index beside everything else: locks of others, transactions, read-only stores, erasures, long messages."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
from test_append import recorded, said

from turnlog.projections import search
from turnlog.store import Store
from turnlog.store.excerpts import MAX_EXACT, Excerpts, _pieces
from turnlog.store.words import phrases_of, spaced


def versions(store: Store, query: str, **filters: Any) -> list[int]:
    return sorted(found.version for found in search(store, query, limit=1000, **filters))


def tables(path: Path) -> list[str]:
    """Return the names of the index's tables in a file."""
    with closing(sqlite3.connect(path)) as plain:
        return [name for (name,) in plain.execute("SELECT name FROM sqlite_schema WHERE name LIKE 'search%'")]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Make a store that says it twice and was never searched."""
    with Store(tmp_path / "s.db") as store:
        store.append("c", [said("needle one"), said("needle two")])
    return tmp_path / "s.db"


class TestReadOnly:
    def test_a_store_that_was_never_searched(self, path: Path) -> None:
        """A read-only store finds all though it has no index, also what is appended later, and writes nothing."""
        with Store(path, read_only=True) as store:
            assert versions(store, "needle") == [1, 2]
            with Store(path) as other:
                other.append("c", [said("needle three")])
            assert versions(store, "needle") == [1, 2, 3]
            with Store(path) as other:
                other.redact("c", [2], reason="r")
            assert versions(store, "needle") == [1, 3]
        assert tables(path) == []

    def test_a_store_whose_index_is_behind(self, path: Path) -> None:
        """A read-only store uses the index that is there and goes on in memory; the file stays as it is."""
        with Store(path) as store:
            store.index.catch_up()
            store.append("c", [said("needle three")])
        before = path.read_bytes()
        with Store(path, read_only=True) as store:
            assert versions(store, "needle") == [1, 2, 3]
            assert store.index.catch_up() == 0
        assert path.read_bytes() == before


class TestLocks:
    @pytest.fixture
    def locked(self, path: Path) -> Iterator[sqlite3.Connection]:
        """Hold the write lock of the file, as another process would."""
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            yield other

    def test_a_lock_that_another_holds(self, path: Path, locked: sqlite3.Connection) -> None:
        """While another has the lock all is found in memory, and once it is free the file has the index."""
        with Store(path, timeout=30.0) as store:
            assert versions(store, "needle") == [1, 2]
            assert versions(store, "two") == [2]
            assert tables(path) == []
            locked.execute("ROLLBACK")
            assert versions(store, "needle") == [1, 2]
            assert "search" in tables(path)
            assert store.index.differences() == []

    def test_what_was_erased_meanwhile(self, path: Path, locked: sqlite3.Connection) -> None:
        """What another erased since is not found, though the index in memory had it."""
        with Store(path) as store:
            assert versions(store, "needle") == [1, 2]
            locked.execute("ROLLBACK")
            with Store(path) as other:
                other.redact("c", [1], reason="r")
            locked.execute("BEGIN IMMEDIATE")
            assert versions(store, "needle") == [2]


class TestTransactions:
    def test_rolled_back(self, path: Path) -> None:
        """What a transaction appends is found in it, and no more once it is rolled back, with an index or without."""
        with Store(path) as store:
            for turn in range(2):
                with suppress(KeyError), store.transaction():
                    store.append("c", [said("needle gone")])
                    assert versions(store, "needle") == [1, 2, 3]
                    raise KeyError
                assert ("search" in tables(path)) is bool(turn)
                assert versions(store, "needle") == [1, 2]
                assert versions(store, "gone") == []
                assert store.index.differences() == []
            store.append("c", [said("thread")])
            assert versions(store, "gone") == []
            assert versions(store, "thread") == [3]

    def test_an_erasure_that_is_rolled_back(self, path: Path) -> None:
        """An erasure that is rolled back leaves the words in the log and in the index."""
        with Store(path) as store:
            store.index.catch_up()
            with suppress(KeyError), store.transaction():
                store.redact("c", [1], reason="r")
                assert versions(store, "needle") == [2]
                raise KeyError
            assert versions(store, "needle") == [1, 2]
            assert store.verify().derived == []

    def test_a_part_of_a_transaction(self, path: Path) -> None:
        """A search does not end the transaction that it is in."""
        with Store(path) as store:
            with store.transaction():
                store.append("c", [said("needle three")])
                assert versions(store, "needle") == [1, 2, 3]
                assert store.db.in_transaction
                with Store(path, read_only=True) as other:
                    assert versions(other, "needle") == [1, 2]
            with Store(path, read_only=True) as other:
                assert versions(other, "needle") == [1, 2, 3]


class TestErasures:
    def test_thousands_of_redactions(self) -> None:
        """A store that was searched takes over a thousand redactions, one by one, and is searched as before."""
        count = 1200
        with Store(":memory:", durability="normal") as store:
            store.append("c", [said(f"needle word{number}") for number in range(1, count + 11)])
            store.index.catch_up()
            for version in range(1, count + 1):
                store.append("c", [{"type": "redaction", "target": version, "reason": "r"}])
                if version % 200 == 0:
                    assert versions(store, f"word{version}") == []
                    assert versions(store, f"word{version + 1}") == [version + 1]
            assert versions(store, "needle") == list(range(count + 1, count + 11))
            assert store.verify().derived == []

    def test_five_thousand_redactions_in_one_transaction(self) -> None:
        """Five thousand redactions, each after a search, are one transaction like any other."""
        count = 5000
        with Store(":memory:", durability="normal") as store:
            store.append("c", [said(f"needle {number}") for number in range(1, count + 1)] + [said("needle stays")])
            with store.transaction():
                for version in range(1, count + 1):
                    store.append("c", [{"type": "redaction", "target": version, "reason": "r"}])
                    if version % 1000 == 1:
                        store.index.catch_up()
            assert versions(store, "needle") == [count + 1]
            assert store.index.differences() == []

    def test_no_byte_is_left(self, path: Path) -> None:
        """Of a word that was indexed and erased nothing is in the file, the -wal or the -shm, and it is not found."""
        with Store(path) as store:
            version = store.append("c", [said("needle " + " ".join(f"unicornis{n}" for n in range(2000)))]).last
            store.index.catch_up()
            files = [path, path.with_name("s.db-wal"), path.with_name("s.db-shm")]
            assert any(b"unicornis" in file.read_bytes() for file in files)
            assert store.redact("c", [version], reason="r").left_every_file
            for searched in (False, True):
                if searched:
                    assert versions(store, "unicornis7") == []
                # FTS5 stores what two words share once, so that a part of the word is looked for.
                assert not any(b"nicorn" in file.read_bytes() for file in files if file.exists())
        assert b"nicorn" not in path.read_bytes()

    def test_what_the_index_has_not_come_to(self, path: Path) -> None:
        """An erasure of what is not in the index leaves the index as it is."""
        with Store(path) as store:
            store.index.catch_up()
            store.append("c", [said("thread")])
            store.redact("c", [3], reason="r")
            assert "search" in tables(path)
            assert (versions(store, "needle"), versions(store, "thread")) == ([1, 2], [])


class TestExcerpts:
    @pytest.mark.parametrize("times", [20, 200, 20_000])
    def test_a_word_many_times(self, times: int) -> None:
        """An excerpt has about sixteen words, however often the word that was searched for is in the message."""
        with Store(":memory:") as store:
            store.append("c", [said("needle " * times)])
            (found,) = search(store, "needle")
            assert found.snippet == "«" + "» «".join(["needle"] * 16) + "»…"

    @pytest.mark.parametrize("size", [10_000, 20_000, 40_000])
    def test_work_that_grows_with_the_text(self, size: int) -> None:
        """A text is cut into pieces that FTS5 is quick with; twice the text has twice the pieces, and no more."""
        pieces = list(_pieces("needle " * size))
        assert max(map(len, pieces)) <= MAX_EXACT
        assert len(pieces) <= 7 * size / (MAX_EXACT - 500) + 1

    @pytest.mark.parametrize("text", [" needle ", "x", "東京", "a\u0301 "])
    def test_pieces_are_the_text(self, text: str) -> None:
        """The pieces have all of a text in order, each with the end of the one before it."""
        text = text.join(map(str, range(9000)))
        end = 0
        for piece in _pieces(text):
            place = text.find(piece, max(0, end - 1000))
            assert 0 <= place <= end
            end = max(end, place + len(piece))
        assert end == len(text)

    def test_far_into_a_text(self) -> None:
        """Words deep in a long text are shown with what is around them, also where they are across a cut."""
        with closing(Excerpts()) as excerpts:
            for before in range(MAX_EXACT - 30, MAX_EXACT + 30, 7):
                text = "hay " * (before // 4) + "needle and thread" + " hay" * 5000
                excerpt = excerpts.excerpt(spaced(text), phrases_of("needle thread"))
                assert "«needle» and «thread»" in excerpt
                assert len(excerpt) < 200

    def test_a_text_without_words(self) -> None:
        """Where the words are not in the text, its beginning is shown."""
        with closing(Excerpts()) as excerpts:
            assert excerpts.excerpt("hay " * 1000, phrases_of("needle")) == ("hay " * 30).rstrip() + " …"


def test_words_behind_escapes() -> None:
    """Arguments and results are found as a reader would say them, though their JSON has escapes."""
    call = {"id": "t", "name": "f", "arguments": '{"guest": "Jos\\u00e9"}'}
    with Store(":memory:") as store:
        store.append(
            "c",
            [
                {"type": "message", "role": "assistant", "tool_calls": [call]},
                {"type": "message", "role": "assistant", "content": [{"type": "tool_call"} | call]},
                {"type": "message", "role": "tool", "tool_call_id": "t", "content": '["Jos\\u00e9"]'},
                said("josephine"),
            ],
        )
        assert versions(store, "José") == versions(store, "jose") == [1, 2, 3]
        assert all("«José»" in found.snippet for found in search(store, "José"))
        before = recorded(store)
        assert '"Jos\\\\u00e9' in before[0][0] or "Jos\\\\u00e9" in before[0][0]
