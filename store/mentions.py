"""Mentions: the events of a log that say certain words in whatever field, read from the log alone."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import msgspec

from .database import Database
from .streams import Stream
from .targets import Target
from .terms import BETWEEN_TEXTS, Terms, texts_of
from .words import words_of

_PAGE = 500
_INDEX = re.compile(r"\[\d+\]")


class Mention(msgspec.Struct, frozen=True):
    """A place in an event that says the words, as a path such as `tool_calls[0].arguments.customer`.

    `conversation` is the uuid of the conversation that owns the event, `excerpt` some words around it.
    """

    conversation: str
    version: int
    type: str
    scope: str | None
    where: str
    excerpt: str


class Left(msgspec.Struct, frozen=True):
    """A place that says the words and that no redaction can take: `text`, in `events` events from version `first` on.

    `where` is `name`, the conversation's, which is in no event, or the field of the events: `id`, `type`, `scope`,
    `frame.assistant` and so on.
    """

    conversation: str
    where: str
    text: str
    first: int | None
    events: int


class _Row(NamedTuple):
    position: int
    conversation: str
    version: int
    type: str
    scope: str | None
    id: str | None
    frame: str
    body: str | None
    key: int


class _Acting(msgspec.Struct):
    actor: str = ""


class Mentions:
    """The mentions of terms, and the events of an actor, in some conversations or (`only` is None) in all."""

    def __init__(
        self, db: Database, terms: Terms, actor: str | None, only: Sequence[Stream] | None, with_excerpts: bool
    ) -> None:
        self._db = db
        self._terms = terms
        self._actor = None if actor is None else _folded(actor)
        self._only = None if only is None else _owned(only)
        self._with_excerpts = with_excerpts
        self._position = 0
        self._found: dict[Target, list[Mention]] = {}
        self._left: dict[tuple[str, str, str], Left] = {}

    def look(self, progress: Callable[[int, int], None]) -> None:
        """Look through what was appended since the last look; `progress` hears positions done and in all."""
        top = (self._db.row("SELECT max(position) FROM events") or (0,))[0] or 0
        while rows := self._rows():
            wanted = [row for row in rows if self._is_wanted(row)]
            self._note_mentions(wanted)
            self._note_left(wanted)
            self._position = rows[-1].position
            progress(min(self._position, top), top)

    def targets(self) -> list[Target]:
        """Return the events that say it, in the order of the log."""
        return list(self._found)

    def mentions(self) -> list[Mention]:
        """Return the places in which they do."""
        return [mention for mentions in self._found.values() for mention in mentions]

    def left(self) -> list[Left]:
        """Return the places that say it and are not in what events say."""
        rows = self._db.rows("SELECT key, uuid, name FROM conversations WHERE name IS NOT NULL ORDER BY key")
        if self._only is not None:
            rows = [row for row in rows if row[0] in self._only]
        said = self._terms.said_in([name for *_, name in rows])
        named = [Left(identity, "name", name, None, 0) for _, identity, name in (rows[number] for number in said)]
        return [*named, *self._left.values()]

    def drop_redacted(self) -> None:
        """Leave out the events that somebody else has redacted since they were read."""
        gone: set[tuple[str, int]] = set()
        for identity in {target.conversation for target in self._found}:
            versions = [target.version for target in self._found if target.conversation == identity]
            rows = self._db.rows(
                "SELECT version FROM events WHERE conversation = (SELECT key FROM conversations WHERE uuid = ?)"
                " AND body IS NULL AND version IN (SELECT value FROM json_each(?))",
                (identity, str(versions)),
            )
            gone.update((identity, version) for (version,) in rows)
        self._found = {
            target: found for target, found in self._found.items() if (target.conversation, target.version) not in gone
        }

    def _rows(self) -> list[_Row]:
        # By position, as the plus sees to: a page begins where the last one ended.
        owned = "" if self._only is None else " AND +conversation IN (SELECT value FROM json_each(:keys))"
        rows = self._db.rows(
            "SELECT position, (SELECT uuid FROM conversations WHERE key = conversation), version, type, scope, id,"
            f" frame, body, conversation FROM events WHERE position > :position{owned} ORDER BY position LIMIT {_PAGE}",
            {"position": self._position, "keys": str(list(self._only or ()))},
        )
        return [_Row(*row) for row in rows]

    def _is_wanted(self, row: _Row) -> bool:
        """Return whether an event is in one of the conversations, or is shared by one."""
        return self._only is None or any(first <= row.version <= last for first, last in self._only[row.key])

    def _note_mentions(self, rows: Sequence[_Row]) -> None:
        candidates = [row for row in rows if row.body is not None and self._terms.may_be_in(row.body)]
        texts = [texts_of(row.body or "") for row in candidates]
        said = self._terms.said_in([BETWEEN_TEXTS.join(text for _, text in each) for each in texts])
        found = {candidates[number].position: texts[number] for number in said}
        for row in rows:
            places = self._places(found.get(row.position, []))
            if self._is_actors(row.body):
                places = {"actor": words_of(row.body or "")} | places
            if not places:
                continue
            excerpts = self._terms.excerpts(list(places.values())) if self._with_excerpts else [""] * len(places)
            of_event = (row.conversation, row.version, row.type, row.scope)
            self._found[Target(*of_event)] = [
                Mention(*of_event, where, excerpt) for where, excerpt in zip(places, excerpts, strict=True)
            ]

    def _places(self, texts: Sequence[tuple[str, str]]) -> dict[str, str]:
        """Return the texts that have the words, by their places; of a text that is JSON, where in the JSON they are."""
        places: dict[str, str] = {}
        for number in self._terms.partly_in([text for _, text in texts]):
            places.setdefault(*texts[number])
        outer = {where[:end] for where in places for end in range(len(where)) if where[end] in ".["}
        return {where: text for where, text in places.items() if where not in outer}

    def _note_left(self, rows: Sequence[_Row]) -> None:
        looked_at = [(row, where, text) for row in rows for where, text in self._texts_kept(row)]
        said = [looked_at[number] for number in self._terms.said_in([text for *_, text in looked_at])]
        for conversation, where, text, version in dict.fromkeys(
            (row.conversation, _INDEX.sub("", where), text, row.version) for row, where, text in said
        ):
            key = (conversation, where, text)
            before = self._left.get(key) or Left(*key, version, 0)
            self._left[key] = msgspec.structs.replace(before, events=before.events + 1)

    def _texts_kept(self, row: _Row) -> Iterator[tuple[str, str]]:
        kept = {"type": row.type, "scope": row.scope or "", "id": row.id or ""}
        if self._terms.may_be_in(f"{' '.join(kept.values())} {row.frame}"):
            yield from kept.items()
            yield from texts_of(row.frame, "frame")

    def _is_actors(self, body: str | None) -> bool:
        if self._actor is None or body is None or '"actor"' not in body:
            return False
        try:
            return _folded(msgspec.json.decode(body, type=_Acting).actor) == self._actor
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            return False


def _owned(streams: Sequence[Stream]) -> dict[int, list[tuple[int, int]]]:
    """Return the versions that these conversations read, by the keys of those that own them."""
    found: dict[int, list[tuple[int, int]]] = {}
    for segment in (segment for stream in streams for segment in stream.lineage):
        found.setdefault(segment.key, []).append((segment.first, segment.last))
    return found


def _folded(name: str) -> str:
    """Return a name so that it equals itself in whatever case and form of Unicode it was written."""
    return unicodedata.normalize("NFC", name.casefold())
