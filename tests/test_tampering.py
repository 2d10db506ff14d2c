"""What `verify` says of each way to tamper with a store's file: the README's table is measured here."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import pytest
from test_append import said
from test_verify import fill, unguarded

from turnlog.projections import differences, search, timeline
from turnlog.store import Checkpoint, Store, Verified
from turnlog.store.chain import digest_of_body, digest_of_event, genesis, header
from turnlog.store.spans.rows import TABLES

README = Path(__file__).parent.parent / "README.md"
COLUMNS = "conversation, version, type, v, scope, id, recorded_at, occurred_at, frame, body, salt, body_digest, digest"


class Scene(NamedTuple):
    """A store's file, what it was some events ago, and a checkpoint of now."""

    path: Path
    older: bytes
    kept: Checkpoint


Act = Callable[[Scene], object]
DERIVED = "".join(f"DROP TABLE {table};" for table in ("search", "search_checkpoint", *TABLES))


def rows(*statements: str) -> Act:
    """Change rows with no trigger and no CHECK in the way, and drop what is derived, which might give it away."""

    def act(scene: Scene) -> None:
        with unguarded(scene.path) as plain:
            for statement in statements:
                plain.execute(statement)
                assert plain.execute("SELECT changes()").fetchone() != (0,)
            plain.executescript(DERIVED)

    return act


def chained(statement: str) -> Act:
    """Change the events of the conversation `two`, and make all its digests again as docs/format.md says."""

    def act(scene: Scene) -> None:
        rows(statement)(scene)
        with unguarded(scene.path) as plain:
            (uuid,) = plain.execute("SELECT uuid FROM conversations WHERE key = 2").fetchone()
            before = genesis(uuid)
            events = plain.execute(f"SELECT position, {COLUMNS} FROM events WHERE conversation = 2 ORDER BY version")
            for position, _, *about, frame, body, salt, body_digest, _ in events.fetchall():
                said = body_digest if body is None else digest_of_body(salt, body)
                before = digest_of_event(before, header(uuid, *about), frame, said)
                plain.execute("UPDATE events SET digest = ? WHERE position = ?", (before, position))

    return act


def script(statements: str) -> Act:
    """Run statements on a plain connection."""

    def act(scene: Scene) -> None:
        with closing(sqlite3.connect(scene.path, isolation_level=None)) as plain:
            plain.executescript(statements)

    return act


def an_older_copy(scene: Scene) -> None:
    scene.path.write_bytes(scene.older)


def an_index_without_rows(scene: Scene) -> None:
    """Make an index again without some rows, and put its text back."""
    with closing(sqlite3.connect(scene.path, isolation_level=None)) as plain:
        (text,) = plain.execute("SELECT sql FROM sqlite_schema WHERE name = 'events_by_type'").fetchone()
        plain.execute("DROP INDEX events_by_type")
        plain.execute(text.replace("WHERE", "WHERE type <> 'redaction' AND (") + ")")
        plain.execute("PRAGMA writable_schema = ON")
        plain.execute("UPDATE sqlite_schema SET sql = ? WHERE name = 'events_by_type'", (text,))


def another_word(scene: Scene) -> None:
    """Exchange a word of an event in the search index for another, and let the index be looked at anew."""
    with closing(sqlite3.connect(scene.path, isolation_level=None)) as plain:
        (at,) = plain.execute("SELECT position FROM events WHERE conversation = 2 AND version = 2").fetchone()
        plain.execute("INSERT INTO search (search, rowid, text) VALUES ('delete', ?, 'second')", (at,))
        plain.execute("INSERT INTO search (rowid, text) VALUES (?, 'sicond')", (at,))
        plain.execute("UPDATE search_checkpoint SET seal = NULL")


OF_TWO = "conversation = 2 AND version = 2"
COPY = (
    "INSERT INTO events (conversation, version, type, v, scope, recorded_at, frame, body, salt, digest)"
    " SELECT {to}, {last}.version + 1, copied.type, copied.v, copied.scope, {last}.recorded_at, copied.frame,"
    " copied.body, copied.salt, copied.digest FROM events AS copied JOIN events AS last ON last.conversation = {to}"
    " WHERE copied.conversation = 2 AND copied.version = 2 ORDER BY last.version DESC LIMIT 1"
).replace("{last}", "last")
TAMPERINGS: dict[str, Act] = {
    "what an event says changed": rows("UPDATE events SET body = '{}' WHERE position = 2"),
    "its time, scope or id changed": rows("UPDATE events SET scope = 'lab' WHERE position = 2"),
    "an event deleted, others came after it": rows("DELETE FROM events WHERE position = 2"),
    "the newest event of the store deleted": rows(
        "DELETE FROM events WHERE position = (SELECT max(position) FROM events)"
    ),
    "an older copy of the file put back": an_older_copy,
    "two events exchanged": rows(
        "UPDATE events SET version = -version WHERE position IN (1, 2)",
        "UPDATE events SET version = 3 + version WHERE position IN (1, 2)",
    ),
    "an event copied to another conversation": rows(COPY.format(to=1)),
    "an event erased without a redaction": rows(
        f"UPDATE events SET body = NULL, salt = NULL, body_digest = zeroblob(32) WHERE {OF_TWO}"
    ),
    "a body in which a key stands twice, its digest right": chained(
        f"""UPDATE events SET body = '{{"role":"user","content":"a","content":"b"}}' WHERE {OF_TWO}"""
    ),
    "a history rewritten, every digest made again": chained(
        f"""UPDATE events SET body = '{{"role":"user","content":"forged"}}' WHERE {OF_TWO}"""
    ),
    "an event appended, its digest right": chained(COPY.format(to=2)),
    "another uuid, or another parent of a fork": rows("UPDATE conversations SET parent = 2 WHERE name = 'three'"),
    "names exchanged": rows(
        "UPDATE conversations SET name = iif(name = 'one', 'x', 'one') WHERE name IN ('one', 'two')",
        "UPDATE conversations SET name = 'two' WHERE name = 'x'",
    ),
    "a trigger dropped or changed": script("DROP TRIGGER events_are_not_updated"),
    "a trigger added that swallows appends": script(
        "CREATE TRIGGER z BEFORE INSERT ON events BEGIN SELECT RAISE(IGNORE); END"
    ),
    "a trigger added that copies bodies": script(
        "CREATE TABLE z (b); CREATE TRIGGER y AFTER INSERT ON events BEGIN INSERT INTO z VALUES (NEW.body); END"
    ),
    "a table declared without a check": script(
        "PRAGMA writable_schema = ON;"
        "UPDATE sqlite_schema SET sql = replace(sql, 'CHECK (version > 0)', '') WHERE name = 'events';"
        "PRAGMA writable_schema = RESET"
    ),
    "a view that lies, or is gone": script("DROP VIEW messages; CREATE VIEW messages AS SELECT 'x' AS content"),
    "an index dropped": script("DROP INDEX events_by_type"),
    "an index made without some rows": an_index_without_rows,
    "a span of a timeline changed": script("UPDATE spans SET until = since + 1 WHERE until IS NULL"),
    "what a timeline counts changed": script("UPDATE counts SET visible = visible + 1"),
    "rows left for a timeline to come": script("INSERT INTO names SELECT max(line) + 1, 9, 'x', 1 FROM timelines"),
    "a word of the search index exchanged": another_word,
    "the search index emptied": script(
        "INSERT INTO search (search) VALUES ('delete-all'); UPDATE search_checkpoint SET seal = NULL"
    ),
    "the search index said to have come further": script(
        "UPDATE search_checkpoint SET position = (SELECT max(position) FROM events)"
    ),
    "blocks of the search index zeroed": script("UPDATE search_data SET block = zeroblob(length(block)) WHERE id > 10"),
    "how the search index ranks changed": script("INSERT INTO search (search, rank) VALUES ('rank', 'bm25(0.0)')"),
    "timelines or the search index dropped": script(DERIVED),
    "an erasure that was interrupted": script("PRAGMA user_version = 41"),
}


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Scene:
    """A store of forks and redactions, with timelines and a search index, and what it was before its last events."""
    path: Path = tmp_path_factory.mktemp("tampering") / "s.db"
    with Store(path) as store:
        fill(store)
    older = path.read_bytes()
    with Store(path) as store:
        store.append("two", [said("newer")])
        assert search(store, "second")
        store.append("one", [said("newest")])
        for each in store.conversations():
            assert timeline(store, each.uuid).line(each.version).is_stored
        kept = store.checkpoint()
    return Scene(path, older, kept)


@pytest.fixture
def copied(scene: Scene, tmp_path: Path) -> Scene:
    (tmp_path / "s.db").write_bytes(scene.path.read_bytes())
    return scene._replace(path=tmp_path / "s.db")


def outcome(path: Path, kept: Checkpoint | None) -> str:
    """Return in one word what `verify` says: the first that holds."""
    with Store(path, read_only=True) as store:
        found: Verified = store.verify(kept, derived=lambda: differences(store))
    words = (("fault", found.faults), ("differs", found.derived), ("listed", found.renamed), ("told", found.erasure))
    return next((word for word, said in words if said), "nothing")


def table() -> dict[str, tuple[str, str]]:
    """Return what the README says of each tampering: of `verify` alone, and with a checkpoint."""
    text = README.read_text(encoding="utf-8")
    found = re.findall(r"^\| (.*?) \| (fault|differs|listed|told|nothing) \| (.*?) \|$", text, re.MULTILINE)
    return {what: (alone, kept) for what, alone, kept in found}


def test_the_scene(scene: Scene) -> None:
    """Nothing is said of the store before it is tampered with."""
    assert (outcome(scene.path, None), outcome(scene.path, scene.kept)) == ("nothing", "nothing")


def test_every_tampering_is_a_row() -> None:
    """The README's table has a row for each tampering, in the same order, and no other."""
    assert list(table()) == list(TAMPERINGS)


@pytest.mark.parametrize("what", TAMPERINGS)
def test_what_the_readme_says(copied: Scene, what: str) -> None:
    """`verify` says of a tampering what the README says that it does, alone and with a checkpoint."""
    TAMPERINGS[what](copied)
    assert (outcome(copied.path, None), outcome(copied.path, copied.kept)) == table()[what]
