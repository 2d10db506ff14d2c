"""Whether the search index in the file agrees with the log, in memory that does not grow with either."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing

from .search_file import INSERT, SEARCH, Readable, entry_of, position_of, rows_after

_PAGE = 1000
_MAX_NAMED = 10
_SIZES = "SELECT id, sz FROM search_docsize WHERE id > ? AND id <= ? ORDER BY id"
_WORDS = "CREATE VIRTUAL TABLE temp.search_words USING fts5vocab (main, search, instance)"
# A number that is another if a word is at another place or is another word, and that adds up over parts of the log.
_SUM = (
    "SELECT coalesce(sum((doc % 1000003 + 1) * (offset + 7) % 1000003 * (length(term) + 31 * unicode(term)"
    " + 1009 * coalesce(unicode(substr(term, 2)), 0) + 30011 * unicode(substr(term, -1))) % 2147483647), 0)"
    " FROM search_words"
)


def differences(db: Readable) -> list[str]:
    """Return in what the file's index differs from the log, as far as the index has come, one a line."""
    position = position_of(db)
    if position is None:
        return ["search index: is damaged or another build's, and is made again when it is used"]
    if not position:
        return []
    found: list[str] = []
    expected = start = more = 0
    while start < position and (rows := rows_after(db, start, _PAGE)):
        end = min(rows[-1][0], position)
        entries = [entry for row in rows if row[0] <= end and (entry := entry_of(row)) is not None]
        sizes, total = _expected(entries)
        expected += total
        found += _different_rows(sizes, dict(db.rows(_SIZES, (start, end))))
        more += len(found[_MAX_NAMED:])
        del found[_MAX_NAMED:]
        start = end
    if more:
        found.append(f"search index: and {more} more")
    if not found and _sum_of(db) != expected:
        found.append("search index: its words are not those of the log")
    return found


def _different_rows(expected: dict[int, bytes], there: dict[int, bytes]) -> Iterator[str]:
    for position in sorted(expected.keys() | there.keys()):
        where = f"search index: the event of position {position}"
        if position not in there:
            yield f"{where} is missing"
        elif position not in expected:
            yield f"{where} is in it, and says nothing"
        elif there[position] != expected[position]:
            yield f"{where} has another number of words"


def _expected(entries: list[tuple[int, str]]) -> tuple[dict[int, bytes], int]:
    """Return what an index of these rows has: the number of words of each, and the sum over all words."""
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute(SEARCH)
        connection.executemany(INSERT, entries)
        sizes = dict(connection.execute("SELECT id, sz FROM search_docsize").fetchall())
        connection.execute(_WORDS)
        return sizes, int(connection.execute(_SUM).fetchone()[0])


def _sum_of(db: Readable) -> int:
    db.rows(_WORDS)
    try:
        return int(db.rows(_SUM)[0][0])
    finally:
        db.rows("DROP TABLE temp.search_words")
