"""Terms: words that are looked for in any field of an event, as full-text search looks for them."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any

from .errors import InvalidArgument
from .excerpts import TOKENIZE, Excerpts
from .words import DECODER, LOOKS_LIKE_JSON, phrases_of, spaced

# A character that is a word of its own, so that no word is found across two texts.
BETWEEN_TEXTS = "\n\ue000\n"
_ESCAPES = re.compile(r"(?:\\+u[0-9a-fA-F]{4})+")


class Terms:
    """Whole words, without regard to case and accents: all of one term are needed, and of several terms any.

    :raises InvalidArgument: a term has no word.
    """

    def __init__(self, terms: Sequence[str]) -> None:
        self._phrases = [phrases_of(term) for term in terms]
        self._connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        execute = self._connection.execute
        execute(f"CREATE VIRTUAL TABLE texts USING fts5 (text, {TOKENIZE})")
        execute("CREATE VIRTUAL TABLE tokens USING fts5vocab (texts, 'row')")
        self._tokens: list[list[str]] = []
        for term in terms:
            execute("BEGIN")
            execute("INSERT INTO texts (text) VALUES (?)", (spaced(term),))
            self._tokens.append([token for (token,) in execute("SELECT term FROM tokens")])
            execute("ROLLBACK")
            if not self._tokens[-1] or not self._phrases[len(self._tokens) - 1]:
                self.close()
                raise InvalidArgument("match", term, "has no word")
        self._any = " OR ".join(phrase for phrases in self._phrases for phrase in phrases)

    def __len__(self) -> int:
        return len(self._phrases)

    def close(self) -> None:
        """Close what they are looked for with."""
        self._connection.close()

    def may_be_in(self, json_text: str) -> bool:
        """Return whether a JSON text can say any of them: quick, and never False where one is said."""
        if not json_text.isascii() or "\\u" in json_text:
            return bool(self._tokens)
        lowered = json_text.lower()
        return any(all(token in lowered for token in tokens) for tokens in self._tokens)

    def said_in(self, texts: Sequence[str]) -> list[int]:
        """Return the indexes of the texts that say any of the terms, in order."""
        return self._matching(texts, " OR ".join(f"({' '.join(phrases)})" for phrases in self._phrases))

    def partly_in(self, texts: Sequence[str]) -> list[int]:
        """Return the indexes of the texts that have any word of the terms, in order."""
        return self._matching(texts, self._any)

    def _matching(self, texts: Sequence[str], expression: str) -> list[int]:
        if not expression or not texts:
            return []
        execute = self._connection.execute
        execute("BEGIN")
        try:
            rows = ((number, spaced(text)) for number, text in enumerate(texts))
            self._connection.executemany("INSERT INTO texts (rowid, text) VALUES (?, ?)", rows)
            found = execute("SELECT rowid FROM texts WHERE texts MATCH ? ORDER BY rowid", (expression,))
            return [number for (number,) in found]
        finally:
            execute("ROLLBACK")

    def excerpts(self, texts: Sequence[str]) -> list[str]:
        """Return a line of each text, around words of the terms, which are marked «so»."""
        phrases = [phrase for phrases in self._phrases for phrase in phrases]
        with closing(Excerpts()) as excerpts:
            return [excerpts.excerpt(spaced(text), phrases) for text in texts]


def texts_of(json_text: str, where: str = "") -> list[tuple[str, str]]:
    """Return every text in a JSON, keys and numbers too, each with its place: `tool_calls[0].arguments.customer`.

    A text that is JSON itself is read as such, too, and `\\u00e9` as the character that it stands for wherever it is.
    """
    try:
        return list(_leaves(DECODER.decode(json_text), where))
    except (ValueError, RecursionError):
        return list(_readings(json_text, where))


def _leaves(value: Any, where: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, tuple):
        for key, inner in value:
            place = f"{where}.{key}" if where else key
            yield place, key
            yield from _leaves(inner, place)
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from _leaves(inner, f"{where}[{number}]")
    elif isinstance(value, str):
        yield from _readings(value, where)
        if LOOKS_LIKE_JSON.match(value):
            try:
                inner = DECODER.decode(value)
            except (ValueError, RecursionError):
                return
            yield from _leaves(inner, where)


def _readings(text: str, where: str) -> Iterator[tuple[str, str]]:
    yield where, text
    if "\\u" in text:
        yield where, _ESCAPES.sub(_unescaped, text)


def _unescaped(escapes: re.Match[str]) -> str:
    units = [bytes.fromhex(unit) for unit in re.findall(r"u([0-9a-fA-F]{4})", escapes[0])]
    return b"".join(units).decode("utf-16-be", "replace")
