"""Whether the search index in the file agrees with the log, in memory that does not grow with either."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from functools import lru_cache
from hashlib import blake2b
from os import urandom

from .search_file import INSERT, SEARCH, copy_shadows, entry_of, position_of, rows_after
from .state import State

_PAGE = 1000
_MAX_NAMED = 10
_SIZES = "SELECT id, sz FROM search_docsize WHERE id > ? AND id <= ? ORDER BY id"
_INSTANCES = "CREATE VIRTUAL TABLE temp.search_instances USING fts5vocab (main, search, instance)"
_TERMS = "CREATE VIRTUAL TABLE temp.search_terms USING fts5vocab (main, search, row)"
_CONFIG = "SELECT k, v FROM search_config WHERE k <> 'version' ORDER BY k"
_TOTALS = "SELECT block FROM search_data WHERE id = 1"


def differences(state: State) -> list[str]:
    """Return in what the file's index differs from the log, as far as the index has come, one a line."""
    position = position_of(state)
    if position is None:
        return ["search index: is damaged or another build's, and is made again when it is used"]
    if not position:
        return []
    audit = _Audit()
    found: list[str] = []
    more = 0
    with closing(sqlite3.connect("", isolation_level=None)) as copy:  # A file that goes when it is closed.
        copy.execute(SEARCH)
        copy_shadows(copy, state.each, position)
        for each in audit.rows(state, copy, position):
            if len(found) < _MAX_NAMED:
                found.append(each)
            else:
                more += 1
        if not found and not audit.agrees(copy):
            found.append("its words are not those of the log")
        if not found and (state.rows(_CONFIG) or copy.execute(_TOTALS).fetchone() != (audit.totals,)):
            found.append("its ranks are not those of the log")
        if not found and not _finds_all(copy):
            found.append("a word that it has is not found")
    if more:
        found.append(f"and {more} more")
    return [f"search index: {each}" for each in found]


class _Audit:
    """Adds up the words of the log, so that they can be compared with those of an index.

    The sum of an index is another if a word is at another place or is another word, and that of the log is the sum of
    those of its parts. It is made with secrets of its own, so that nobody can make an index whose sum is the same.
    """

    def __init__(self) -> None:
        secret = urandom(64)
        self._factors = [int.from_bytes(secret[at : at + 4], "big") >> 1 for at in (0, 4, 8)]
        self._hash = lru_cache(1 << 16)(lambda word: int.from_bytes(blake2b(word, digest_size=8, key=secret).digest()))
        self._sum = self._events = self._words = 0

    def rows(self, state: State, copy: sqlite3.Connection, position: int) -> Iterator[str]:
        """Compare the numbers of words of the events; return where they differ."""
        start = 0
        while start < position and (rows := rows_after(state, start, _PAGE)):
            end = min(max(start + 1, rows[-1][0]), position)
            entries = [entry for row in rows if row[0] <= end and (entry := entry_of(row)) is not None]
            yield from _different_rows(self._expect(entries), dict(copy.execute(_SIZES, (start, end))))
            start = end
        if copy.execute("SELECT 1 FROM search_docsize WHERE id > ? OR id < 1", (position,)).fetchone():
            yield "events that are not in the log are in it"

    def agrees(self, index: sqlite3.Connection) -> bool:
        """Return whether an index has the words of the log."""
        return self._sum == self._sum_of(index)

    @property
    def totals(self) -> bytes:
        """Return FTS5's own record of how many rows and words there are, by which it ranks what it finds."""
        return _varint(self._events) + _varint(self._words)

    def _expect(self, entries: list[tuple[int, str]]) -> dict[int, bytes]:
        """Take in rows of the log; return the number of words of each, as an index has it."""
        with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
            connection.execute(SEARCH)
            connection.execute("BEGIN")
            connection.executemany(INSERT, entries)
            connection.execute("COMMIT")
            sizes = dict(connection.execute("SELECT id, sz FROM search_docsize").fetchall())
            self._sum += self._sum_of(connection)
        self._events += len(entries)
        self._words += sum(map(_number, sizes.values()))
        return sizes

    def _sum_of(self, index: sqlite3.Connection) -> int:
        index.execute(_INSTANCES)
        # The place of a word as a number below 2³¹, of whose square the middle counts.
        place = "(doc % 2147483647 * ? + offset * ? + ?) % 2147483647 AS place"
        rows = index.execute(
            "SELECT CAST(term AS BLOB), sum(place * place >> 15 & 2147483647)"
            f" FROM (SELECT term, {place} FROM search_instances) GROUP BY term",
            self._factors,
        )
        found: int = sum(self._hash(term) * places for term, places in rows)
        index.execute("DROP TABLE temp.search_instances")
        return found


def _different_rows(expected: dict[int, bytes], there: dict[int, bytes]) -> Iterator[str]:
    for position in sorted(expected.keys() | there.keys()):
        where = f"the event of position {position}"
        if position not in there:
            yield f"{where} is missing"
        elif position not in expected:
            yield f"{where} is in it, and says nothing"
        elif there[position] != expected[position]:
            yield f"{where} has another number of words"


def _finds_all(index: sqlite3.Connection) -> bool:
    """Return whether FTS5 finds its index sound, and every word that is in it.

    :raises sqlite3.DatabaseError: it does not.
    """
    index.execute("INSERT INTO search (search) VALUES ('integrity-check')")
    index.execute(_TERMS)
    return all(
        index.execute("SELECT 1 FROM search WHERE search MATCH ? LIMIT 1", (f'"{term}"',)).fetchone() is not None
        for (term,) in index.execute("SELECT term FROM search_terms")
    )


def _varint(number: int) -> bytes:
    """Return a number below 2⁵⁶ as SQLite writes it."""
    digits = [number & 127]
    while number := number >> 7:
        digits.append(number & 127 | 128)
    return bytes(reversed(digits))


def _number(varint: bytes) -> int:
    """Return the number that SQLite wrote."""
    number = 0
    for digit in varint:
        number = number << 7 | digit & 127
    return number
