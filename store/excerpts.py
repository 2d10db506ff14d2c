"""Excerpts: where in a text the words of a query are, in time that grows with the text and not with its square."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence

from .words import SEPARATOR

TOKENIZE = "tokenize = 'unicode61 remove_diacritics 2'"

# FTS5's own snippet compares every hit with every other. A text of this many characters has few enough of them.
MAX_EXACT = 4000
_OVERLAP = 200
_SNIPPET = "SELECT snippet(pieces, 0, '«', '»', '…', 16) FROM pieces WHERE pieces MATCH ? AND rowid = ?"
_FIRST = "SELECT rowid FROM pieces WHERE pieces MATCH ? ORDER BY rowid LIMIT 1"
_LENGTH = 120


class Excerpts:
    """Makes excerpts with FTS5 in memory, so that they mark the very words that the index finds."""

    def __init__(self) -> None:
        self._connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        self._connection.execute(f"CREATE VIRTUAL TABLE pieces USING fts5 (text, {TOKENIZE})")

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def excerpt(self, text: str, phrases: Sequence[str]) -> str:
        """Return about 16 words of a text (as `spaced` gives it) around those of a query, which are marked «so».

        Of a text over `MAX_EXACT` characters it is the first piece that has all of the words or, if none has, any.
        Without words it is the beginning.
        """
        pieces = list(_pieces(text))
        execute = self._connection.execute
        execute("BEGIN")
        try:
            self._connection.executemany("INSERT INTO pieces (rowid, text) VALUES (?, ?)", enumerate(pieces, 1))
            for sought in (" ".join(phrases), " OR ".join(dict.fromkeys(phrases))) if phrases else ():
                found = execute(_FIRST, (sought,)).fetchone()
                if found is not None:
                    snippet = str(execute(_SNIPPET, (sought, found[0])).fetchone()[0])
                    return _open_ended(snippet, found[0] > 1, found[0] < len(pieces)).replace(SEPARATOR, "")
        finally:
            execute("ROLLBACK")
        return _open_ended(text[:_LENGTH], False, len(text) > _LENGTH).replace(SEPARATOR, "")


def _open_ended(snippet: str, before: bool, after: bool) -> str:
    opening = "…" if before and not snippet.startswith("…") else ""
    closing = "…" if after and not snippet.endswith("…") else ""
    return opening + snippet + closing


def _pieces(text: str) -> Iterator[str]:
    """Cut a text between words; what is next to a cut is in both pieces, so that no phrase falls into two."""
    start = 0
    while len(text) - start > MAX_EXACT:
        end = _between_words(text, start + MAX_EXACT)
        yield text[start:end]
        start = max(_between_words(text, end - _OVERLAP), start + 1)
    yield text[start:]


def _between_words(text: str, near: int) -> int:
    """Return the last place before `near` where a word ends, or `near` itself if a word is very long."""
    for place in range(near, near - _OVERLAP, -1):
        if not text[place].isalnum():
            return place
    return near
