"""What an erasure leaves: with the erased text at hand, nothing in any file can be recomputed or tells its length."""

from __future__ import annotations

import itertools
import json
import os
import uuid
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from test_append import said
from views import summary

from turnlog.costs import costs
from turnlog.projections import check, handoffs, history, query, search, timeline, trace, usage
from turnlog.store import Store
from turnlog.store.chain import digest_of_body

TEXTS = ("ja", "Quecksilberzauber und noch viel mehr davon, " * 400)
# Bytes of SQLite's header that count transactions and changes of the schema.
COUNTERS = (*range(24, 28), *range(40, 44), *range(92, 96))
Erases = Callable[[Store, list[int]], None]


def talk(text: str) -> list[dict[str, Any]]:
    """A conversation in which every type of event says a text, and others say what they say either way."""
    calls = [{"id": "t1", "name": "f", "arguments": json.dumps({"a": text})}]
    aside = {"meta": {"a": text}, "extra": {"b": [text]}, "actor": text}
    secret: list[dict[str, Any]] = [
        {"type": "describe", "title": text, "metadata": {"a": text}},
        {"type": "assistant", "assistant": "a", "system": text, "tools": [{"name": "f", "about": text}]},
        said(text),
        said([{"type": "text", "text": text}, {"type": "image", "url": text}], role="assistant", tool_calls=calls),
        {"type": "message", "role": "tool", "tool_call_id": "t1", "content": text},
        {"type": "transfer", "to": "b", "system": text, "message": text, "first_message": text, "reason": text},
        summary(text, 3, 5, method=text, max_tokens=1000),
        {"type": "request", "at": 7, "model": text, "parameters": {"stop": text}},
        {"type": "response", "request": 8, "status": "completed", "response": text}
        | {"usage": {"prompt_tokens": 9, "completion_tokens": 9, "total_tokens": 18}, "finish_reason": text},
        {"type": "rewind", "to": 9, "note": text},
        {"type": "redaction", "target": 1, "reason": text, "replacement": text},
        {"type": "x:mark", "deep": [text]},
    ]
    return [event | aside for event in secret]


def used(store: Store, text: str) -> list[int]:
    """Say it all, beside what stays, and make everything that is derived; the versions that say the text."""
    store.append("stays", [said(f"filler {number}") for number in range(50)])
    store.append("c", talk(text))
    versions = list(range(1, store.version("c") + 1))
    store.append("c", [said("and on"), {"type": "transfer", "to": "a", "mode": "delete-history"}, said("further")])
    store.fork("c", 12, "fork")
    store.append("fork", [said("on its own")])
    assert search(store, text.split()[0])
    for name in ("c", "fork"):
        assert history(store, name, scope="chat").digest
        assert list(costs(store, handoffs(store, name), compare=True))
        assert timeline(store, name, scope="chat").steps()
        trace(store, name, text.split()[0])
        usage(store, name)
        check(store, name)
    assert list(query(store, "SELECT content FROM visible"))
    store.append("c", [{"type": "request", "at": 14, "history": history(store, "c", at=14).digest}])
    return versions


def by_redact(store: Store, versions: list[int]) -> None:
    assert store.redact("c", versions, reason="r").left_every_file


def one_by_one(store: Store, versions: list[int]) -> None:
    for version in versions:
        assert store.redact("c", [version], reason="r").left_every_file


def by_erase(store: Store, versions: list[int]) -> None:
    assert store.erase("c").left_every_file


def by_forget(store: Store, versions: list[int]) -> None:
    done = store.forget(["ja", "quecksilberzauber"], reason="r")
    assert [target.version for target in done.redacted.erased] == [each for each in versions if each != 1]
    assert store.redact("c", [1], reason="r").left_every_file


ERASES = [by_redact, one_by_one, by_erase, by_forget]


@pytest.fixture
def without_chance(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Let the same steps give the same bytes, whatever the time; calling it begins from the start.

    The digest of a body, which alone depends on what it says, is that of its salt.
    """

    def begin() -> None:
        numbers = itertools.count(1)
        monkeypatch.setattr(os, "urandom", lambda size: (sha256(b"%d" % next(numbers)).digest() * size)[:size])
        monkeypatch.setattr(uuid, "uuid4", lambda: uuid.UUID(int=next(numbers)))
        monkeypatch.setattr("time.time_ns", lambda: 1_700_000_000_000_000_000 + next(numbers) * 1000)

    for module in ("append", "bodies"):
        monkeypatch.setattr(f"turnlog.store.{module}.digest_of_body", lambda salt, body: sha256(salt).digest())
    monkeypatch.setattr("turnlog.store.search_file._STEP", 60.0)
    monkeypatch.setattr("turnlog.projections.timelines.catch_up.STEP", 60.0)
    return begin


@pytest.mark.parametrize("again", [False, True], ids=["", "indexed again"])
@pytest.mark.parametrize("erases", ERASES)
def test_two_texts_leave_the_same(
    tmp_path: Path, erases: Erases, again: bool, without_chance: Callable[[], None]
) -> None:
    """Stores that said different texts, of different lengths, are the same to the byte once these are erased.

    But for the salted digests of what was said, which are held equal here, nothing is left that depends on it: no
    count, no length, no cost, no place in a page.
    """
    files = []
    for number, text in enumerate(TEXTS):
        without_chance()
        path = tmp_path / f"{number}.db"
        with Store(path) as store:
            with store.transaction():
                store.db.write("UPDATE _sqlite_migrations SET applied_at = 'then'")
            erases(store, used(store, text))
            if again:
                assert search(store, "filler")
                assert history(store, "fork")
        content = bytearray(path.read_bytes())
        for place in COUNTERS:
            content[place] = 0
        files.append(bytes(content))
        assert [file.name for file in tmp_path.glob(f"{number}.db*")] == [path.name]
    assert files[0] == files[1]


@pytest.mark.parametrize("erases", ERASES)
@pytest.mark.parametrize("is_open", [True, False], ids=["open", "closed"])
def test_no_digest_can_be_recomputed(tmp_path: Path, erases: Erases, is_open: bool) -> None:
    """The salts without which no digest can be made of the text are in no file, and no digest was made without one."""
    path = tmp_path / "s.db"
    with Store(path) as store:
        versions = used(store, TEXTS[1])
        said_by = {version: store.event("c", version) for version in versions}
        owner = store.stream("c").uuid
        erases(store, versions)
        after = {version: store.event(owner, version) for version in versions}
        others = [event.salt for event in store.follow() if event.salt is not None]
        contents = [file.read_bytes() for file in tmp_path.glob("s.db*")] if is_open else []
    if not is_open:
        contents = [file.read_bytes() for file in tmp_path.glob("s.db*")]
    for version, event in said_by.items():
        if event.body_text is None or event.salt is None:
            assert version == 1  # It was redacted by one of the others.
            continue
        body = event.body_text.encode()
        # With the salt it could be: so that this would be noticed.
        assert digest_of_body(event.salt, event.body_text) == after[version].body_digest
        guessed = [digest_of_body(salt, event.body_text) for salt in (b"", bytes(16), *others)]
        guessed += [sha256(body).digest(), sha256(event.frame_text.encode() + body).digest()]
        guessed += [sha256(TEXTS[1].encode()).digest()]
        for found in (event.salt, event.salt.hex().encode(), *guessed, *(each.hex().encode() for each in guessed)):
            assert not any(found in content for content in contents)
