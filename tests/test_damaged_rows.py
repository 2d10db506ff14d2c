"""Rows that no writer makes: each command ends with an answer or one line, and what is whole is still there."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from test_verify import fill, unguarded

from turnlog.cli import main
from turnlog.projections import differences, search, timeline
from turnlog.store import Damaged, Store
from turnlog.store.chain import digest_of_body, digest_of_event, genesis

OTHERS = "WHERE conversation = 1 AND type <> 'redaction'"  # Whose frames no index reads.
DAMAGE = {
    "a time after all times": "UPDATE events SET recorded_at = 9223372036854775807 WHERE position = 4",
    "a time before all times": "UPDATE events SET recorded_at = -9223372036854775808 WHERE conversation = 1",
    "another time after all times": "UPDATE events SET occurred_at = 9223372036854775807 WHERE conversation = 1",
    "a fork of itself": "UPDATE conversations SET parent = 1, forked_at = 2 WHERE key = 1",
    "a fork of its own fork": "UPDATE conversations SET parent = 3, forked_at = 2 WHERE key = 1",
    "a fork of what is not here": "UPDATE conversations SET parent = 99, forked_at = 2 WHERE key = 1",
    "a fork without a version": "UPDATE conversations SET parent = 2, forked_at = NULL WHERE key = 1",
    "a fork without a parent": "UPDATE conversations SET parent = NULL, forked_at = 3 WHERE key = 1",
    "a fork below everything": "UPDATE conversations SET parent = 2, forked_at = -9223372036854775808 WHERE key = 1",
    "a fork past everything": "UPDATE conversations SET parent = 2, forked_at = 9223372036854775807 WHERE key = 1",
    "no events": "DELETE FROM events WHERE conversation = 1",
    "versions that are none": "UPDATE events SET version = version - 9223372036854775800 WHERE conversation = 1",
    "versions past all versions": "UPDATE events SET version = version + 9223372036854775000 WHERE conversation = 1",
    "types of nothing": "UPDATE events SET type = '', v = -9223372036854775808 WHERE conversation = 1",
    "frames that are no JSON": f"UPDATE events SET frame = '{{' {OTHERS}",
    "frames nested too deeply": f"UPDATE events SET frame = replace(hex(zeroblob(20000)), '00', '[') {OTHERS}",
    "bodies that are no JSON": "UPDATE events SET body = '{' WHERE conversation = 1 AND body IS NOT NULL",
    "bodies of another shape": "UPDATE events SET body = '[[]]' WHERE conversation = 1 AND body IS NOT NULL",
    "texts of another type": """UPDATE events SET body = '{"content":{"a":5},"title":5,"system":[],"tools":{}}'"""
    " WHERE conversation = 1 AND body IS NOT NULL",
    "text that is not UTF-8": "UPDATE events SET body = CAST(x'ff' AS TEXT), type = CAST(x'6dff' AS TEXT),"
    " scope = CAST(x'ff' AS TEXT) WHERE conversation = 1",
    "a name that is not UTF-8": "UPDATE conversations SET name = CAST(x'6fff' AS TEXT) WHERE key = 1",
    "an identity that is not UTF-8": "UPDATE conversations SET uuid = CAST(x'ff00' AS TEXT) WHERE key = 1",
    "an empty identity": "UPDATE conversations SET uuid = '' WHERE key = 1",
    "digests of no length": "UPDATE events SET digest = x'', salt = x'' WHERE conversation = 1",
    "positions below everything": "UPDATE events SET position = position - 9223372036854775000 WHERE conversation = 1",
    "positions past everything": "UPDATE events SET position = position + 9223372036854775000 WHERE conversation = 1",
    "a redaction of itself": """UPDATE events SET type = 'redaction', frame = '{"target":4}' WHERE conversation = 1""",
}
COMMANDS: tuple[tuple[str, ...], ...] = (
    ("verify",),
    ("list", "--json"),
    ("log",),
    ("log", "one"),
    ("log", "one", "--json"),
    ("history", "one"),
    ("history", "three", "--at", "2026-01-01"),
    ("check",),
    ("check", "one"),
    ("usage",),
    ("search", "quoted"),
    ("explain", "one", "3"),
    ("handoffs", "one"),
    ("trace", "one", "quoted"),
    ("replay", "one"),
    ("export", "one", "--format", "events"),
    ("export", "one", "--format", "openai"),
    ("checkpoint",),
    ("query", "SELECT * FROM messages"),
    ("redact", "one", "3", "--reason", "r"),
    ("erase", "one"),
    ("fork", "one", "kid"),
    ("rename", "one", "uno"),
)


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store whose timelines and search index are there."""
    path: Path = tmp_path_factory.mktemp("rows") / "template.db"
    with Store(path, durability="normal") as store:
        fill(store)
        assert search(store, "first") == []
        for name in ("one", "two", "three", "four"):
            timeline(store, name).at()
    return path


@pytest.fixture
def path(template: Path, tmp_path: Path) -> Path:
    copy = tmp_path / "s.db"
    copy.write_bytes(template.read_bytes())
    return copy


def damage(path: Path, sql: str) -> None:
    with unguarded(path) as plain:
        plain.execute(sql)
        assert plain.execute("SELECT changes()").fetchone() != (0,)


def run(path: Path, *arguments: str) -> Result:
    return CliRunner().invoke(main, [f"--db={path}", *arguments])


@pytest.mark.parametrize("sql", DAMAGE.values(), ids=list(DAMAGE))
def test_every_command(path: Path, tmp_path: Path, sql: str) -> None:
    """No command fails with a traceback on damaged rows: it answers or refuses in one line; `verify` ends with 1."""
    damage(path, sql)
    content = path.read_bytes()
    for number, command in enumerate(COMMANDS):
        copy = tmp_path / f"{number}.db"
        copy.write_bytes(content)
        result = run(copy, *command)
        assert result.exception is None or isinstance(result.exception, SystemExit), (command, result.exception)
        assert result.exit_code in (0, 1)
        assert len(result.stderr.splitlines()) <= 1, (command, result.stderr)
        assert command != ("verify",) or result.exit_code == 1


@pytest.mark.parametrize("sql", DAMAGE.values(), ids=list(DAMAGE))
def test_the_rest(path: Path, sql: str) -> None:
    """`list` lists every conversation, the damaged one too, and the history of a conversation that is whole is as it
    was."""
    before = run(path, "history", "two", "--json")
    assert before.exit_code == 0
    damage(path, sql)
    listed = json.loads(run(path, "list", "--json").stdout)
    assert len(listed) == 4
    assert {"two", "three", "four"} <= {each["conversation"] for each in listed}
    assert len(run(path, "list").stdout.splitlines()) >= 4
    assert run(path, "history", "two", "--json").stdout == before.stdout


@pytest.mark.parametrize("name", [name for name in DAMAGE if name.startswith("a fork")])
def test_a_lineage_that_leads_nowhere(path: Path, name: str) -> None:
    """What a conversation was forked from is asked for once: a damaged row is an error that names the conversation."""
    with Store(path) as store:
        identity = store.stream("one").uuid
    damage(path, DAMAGE[name])
    with Store(path) as store:
        try:
            found = store.stream(identity)
        except Damaged as error:
            assert (error.conversation, error.version) == (identity, None)  # noqa: PT017
        else:
            assert name in ("a fork below everything", "a fork past everything")
            assert found.uuid == identity
        assert identity in {each.uuid for each in store.conversations()}


def test_a_time_that_is_none(path: Path) -> None:
    """A time out of the range of times is an error that names conversation and version, wherever it is read."""
    damage(path, DAMAGE["a time after all times"])
    with Store(path) as store:
        event = store.event("one", 4)
        for ask in (lambda: event.recorded_at, lambda: event.time, lambda: event.header, event.to_dict):
            with pytest.raises(Damaged) as refused:
                ask()
            assert (refused.value.conversation, refused.value.version) == (event.conversation, 4)
        assert [fault.version for fault in store.verify().faults if fault.conversation == event.conversation] == [4]


def test_a_key_that_an_object_has_twice(path: Path) -> None:
    """A body in which a key stands twice, which can be read in two ways, is named although its digest is right."""
    with Store(path, durability="normal") as store:
        store.append("six", [{"type": "message", "role": "user", "content": "AAA"}])
        event = store.event("six", 1)
        body = '{"role":"user","content":"AAA","meta":{"b":1,"a":[{"c":1,"c":2}]}}'
        digest = digest_of_event(
            genesis(event.conversation), event.header, event.frame_text, digest_of_body(event.salt or b"", body)
        )
        assert store.verify().faults == []
    with unguarded(path) as plain:
        plain.execute("UPDATE events SET body = ?, digest = ? WHERE position = ?", (body, digest, event.position))
    with Store(path) as store:
        (fault,) = store.verify().faults
    assert (fault.conversation, fault.version) == (event.conversation, 1)
    assert "'c'" in fault.why


def test_our_own_failures_are_not_taken_for_damage(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error of turnlog's own on a sound store is not hidden behind a line that blames the store."""

    def fails(store: Store) -> None:
        raise TypeError("ours")

    monkeypatch.setattr(Store, "conversations", fails)
    assert isinstance(run(path, "list").exception, TypeError)
    monkeypatch.undo()
    damage(path, DAMAGE["digests of no length"])
    monkeypatch.setattr(Store, "version", fails)
    refused = run(path, "history", "one")
    assert refused.exit_code == 1
    assert "is damaged: conversation" in refused.stderr


def test_timelines_of_a_damaged_log(path: Path) -> None:
    """Timelines that cannot be compared with a damaged log are told of, and do not keep the faults from being told."""
    damage(path, DAMAGE["a fork of its own fork"])
    with Store(path) as store:
        found = store.verify(derived=lambda: differences(store))
    assert found.faults
    assert any("timeline" in note for note in found.derived)
