"""Events as people write them, and exports restored as they were: the `events` format (DESIGN sections 2, 3 and 8)."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from views import seen

from turnlog.cli import main
from turnlog.formats.document import BrokenFile
from turnlog.importing import Diverged, Imported, import_file
from turnlog.projections import history
from turnlog.store import Describe, Event, Message, NameTaken, Redaction, RestoreRefused, Store, Summary, ToolCall

LONG_AGO = "2024-05-15T15:00:00Z"


def lines(*events: dict[str, Any]) -> bytes:
    return "\n".join(map(json.dumps, events)).encode()


def said(content: str, **more: Any) -> dict[str, Any]:
    return {"type": "message", "role": "user", "content": content, **more}


def take(store: Store, data: bytes, **options: Any) -> list[Imported]:
    return import_file(store, "f.jsonl", data, "stem", **options)


# As people write them.


def test_several_conversations(store: Store) -> None:
    """A file's events go to the conversations that they name, each in the order of its lines."""
    data = lines(said("1", conversation="a"), said("2", conversation="b"), said("3", conversation="a"))
    assert take(store, data) == [Imported("a", 2, 0), Imported("b", 1, 0)]
    assert take(store, data) == [Imported("a", 0, 2), Imported("b", 0, 1)]
    assert [message.content for message in seen(store, "a").messages] == ["1", "3"]


def test_a_list_of_events(store: Store) -> None:
    """A file may be one JSON list of events, whose places are told by number."""
    assert take(store, json.dumps([said("1"), said("2")]).encode()) == [Imported("stem", 2, 0)]
    assert [event.body for event in store.events("stem")] == [{"role": "user", "content": text} for text in "12"]
    with pytest.raises(BrokenFile) as refused:
        take(store, json.dumps([said("1"), said("2"), said("3", scope="kitchen")]).encode())
    assert (refused.value.place, refused.value.field) == ("[2]", "scope")
    assert store.version("stem") == 2


def test_versions_are_places(store: Store) -> None:
    """A version that is given must be the event's place in its own conversation."""
    good = [said("1", conversation="a", version=1), said("2", conversation="b", version=1)]
    take(store, lines(*good, said("3", conversation="a", version=2)))
    with pytest.raises(BrokenFile) as refused:
        take(store, lines(*good, said("3", conversation="b", version=3)))
    error = refused.value
    assert (error.file, error.place, error.field, error.value) == ("f.jsonl", "line 3", "version", 3)
    assert store.version("b") == 1


@pytest.mark.parametrize("field", ["recorded_at", "occurred_at"])
def test_recording_is_what_happens_now(store: Store, field: str) -> None:
    """A `recorded_at` of a file is when the event occurred; the store says itself when it recorded it."""
    take(store, lines(said("1", **{field: LONG_AGO}, position=99)))
    event = store.event("stem", 1)
    assert event.occurred_at == datetime(2024, 5, 15, 15, tzinfo=UTC)
    assert event.recorded_at > event.occurred_at


def test_what_occurred_is_not_when_it_was_recorded(store: Store) -> None:
    """An event's own `occurred_at` goes before its `recorded_at`."""
    take(store, lines(said("1", recorded_at="2025-01-01T00:00:00Z", occurred_at=LONG_AGO)))
    assert store.event("stem", 1).occurred_at == datetime(2024, 5, 15, 15, tzinfo=UTC)


def test_ids_and_scopes_are_kept(store: Store) -> None:
    """Header fields of a file are the event's own: its id, its scope, and further scopes once described."""
    take(store, lines({"type": "describe", "scopes": ["notes"]}, said("1", id="i", scope="notes")))
    event = store.event("stem", 2)
    assert (event.id, event.scope) == ("i", "notes")


def test_the_whole_log_is_compared(store: Store) -> None:
    """A file of events is a whole log: one that went on by other means has diverged from a file that grew."""
    take(store, lines(said("1"), said("2")))
    store.append("stem", [Summary(text="s", summary_of=2)])
    assert take(store, lines(said("1"), said("2"))) == [Imported("stem", 0, 2)]
    with pytest.raises(Diverged) as refused:
        take(store, lines(said("1"), said("2"), said("3")))
    assert (refused.value.place, refused.value.version) == ("line 3", 3)
    assert refused.value.difference.startswith("type: ")
    assert store.version("stem") == 3


def test_a_redacted_event_is_no_difference(store: Store) -> None:
    """What was erased cannot be compared: the frame that is left is."""
    take(store, lines(said("secret")))
    store.append("stem", [Redaction(target=1, reason="asked for")])
    assert take(store, lines(said("secret"))) == [Imported("stem", 0, 1)]
    with pytest.raises(Diverged) as refused:
        take(store, lines(said("")))
    assert refused.value.version == 1


# As `export` writes them.


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """An export of a conversation with every kind of thing that must survive it."""
    with Store(tmp_path / "old.db") as store:
        call = store.conversation("call")
        call.append(Describe(title="A call", metadata={"lang": "en"}))
        call.assistant("greeter", system="You greet.", tools=[{"name": "f"}])
        call.user("naïve 日本 \u2028 \\u0041", id="i", meta={"n": 1.0, "none": None})
        call.reply(tool_calls=[ToolCall(id="t1", name="f", arguments="{")])
        call.append(Message(role="tool", tool_call_id="t1", content=[{"type": "image", "url": "u"}]))
        call.user("secret")
        call.append(Redaction(target=6, reason="asked for", replacement="***"))
        call.rewind(4)
    result = turnlog(tmp_path / "old.db", "export", "call", "--format=events", f"--output={tmp_path / 'call.jsonl'}")
    assert result.exit_code == 0, result.output
    return tmp_path / "call.jsonl"


def turnlog(db: Path, *arguments: str) -> Result:
    return CliRunner().invoke(main, [f"--db={db}", *arguments])


def recorded(store: Store, conversation: str) -> list[dict[str, Any]]:
    """Everything that is stored of a conversation's events, but the position."""

    def fields(event: Event) -> dict[str, Any]:
        return {name: getattr(event, name) for name in event.__struct_fields__ if name != "position"}

    return [fields(event) for event in store.events(conversation)]


def tampered(data: bytes, old: bytes, new: bytes) -> bytes:
    assert data.count(old) == 1
    return data.replace(old, new)


def test_an_export_is_restored_verbatim(file: Path, tmp_path: Path) -> None:
    """Importing an export restores it: the same uuid, versions, times, bytes and digests, and the same views."""
    result = turnlog(tmp_path / "new.db", "import", str(file), "--json")
    assert json.loads(result.stdout) == [{"conversation": "call", "added": 8, "present": 0, "rewound_to": None}]
    with Store(tmp_path / "old.db") as old, Store(tmp_path / "new.db") as new:
        assert recorded(new, "call") == recorded(old, "call")
        assert [each.uuid for each in new.conversations()] == [each.uuid for each in old.conversations()]
        assert history(new, "call").to_dict() == history(old, "call").to_dict()
    again = turnlog(tmp_path / "new.db", "export", "call", "--format=events")
    assert again.stdout_bytes == file.read_bytes()


def test_a_restore_is_safe_to_repeat(store: Store, file: Path) -> None:
    """An export again adds nothing, a longer one adds what is new, a shorter one nothing."""
    data = file.read_bytes()
    part = b"".join(data.splitlines(keepends=True)[:5])
    assert take(store, part) == [Imported("call", 5, 0)]
    assert take(store, data) == [Imported("call", 3, 5)]
    assert take(store, data) == [Imported("call", 0, 8)]
    assert take(store, part) == [Imported("call", 0, 5)]


def test_a_restored_conversation_may_be_named(store: Store, file: Path) -> None:
    """The caller's name goes before the export's; the uuid stays."""
    assert take(store, file.read_bytes(), conversation="mine") == [Imported("mine", 8, 0)]
    assert store.stream("mine").uuid == json.loads(file.read_bytes().splitlines()[0])["conversation"]


def test_a_name_that_is_taken(store: Store, file: Path) -> None:
    """A restore takes no other conversation's name."""
    store.append("call", [Summary(text="s", summary_of=1)])
    with pytest.raises(NameTaken) as refused:
        take(store, file.read_bytes())
    assert refused.value.name == "call"
    assert len(store.conversations()) == 1


TAMPERED = {
    "title": (b'"title":"A call"', b'"title":"a call"', 1),
    "frame": (b'"frame":{"to":4}', b'"frame":{"to":3}', 8),
    "header": (b'"id":"i"', b'"id":"j"', 3),
    "replacement": (b'"replacement":"***"', b'"replacement":"---"', 7),
}


@pytest.mark.parametrize(("old", "new", "version"), TAMPERED.values(), ids=TAMPERED)
def test_a_changed_export_is_refused(store: Store, file: Path, old: bytes, new: bytes, version: int) -> None:
    """Every byte of an export is checked: one that was changed is refused by version, and nothing is written."""
    with pytest.raises(RestoreRefused) as refused:
        take(store, tampered(file.read_bytes(), old, new))
    assert refused.value.version == version
    assert store.conversations() == []


@pytest.mark.parametrize(("old", "new", "version"), TAMPERED.values(), ids=TAMPERED)
def test_a_changed_export_is_refused_again(store: Store, file: Path, old: bytes, new: bytes, version: int) -> None:
    """A changed export is no repetition of what is there: it is refused, though its digests are the store's."""
    take(store, file.read_bytes())
    with pytest.raises(RestoreRefused) as refused:
        take(store, tampered(file.read_bytes(), old, new))
    assert refused.value.version == version


def test_an_export_with_a_gap_is_refused(store: Store, file: Path) -> None:
    """Events follow each other: an export with one left out is refused at the next."""
    kept = file.read_bytes().splitlines(keepends=True)
    with pytest.raises(RestoreRefused) as refused:
        take(store, b"".join(kept[:2] + kept[3:]))
    assert refused.value.version == 4
    assert store.conversations() == []


def test_a_broken_export_names_the_line(store: Store, file: Path) -> None:
    """A line of an export that is none breaks the file at that line."""
    data = tampered(file.read_bytes(), b'"type":"rewind"', b'"kind":"rewind"')
    with pytest.raises(BrokenFile) as refused:
        take(store, data)
    assert (refused.value.file, refused.value.place) == ("f.jsonl", "line 8")
    assert store.conversations() == []


def test_an_erased_secret_is_not_exported(file: Path, tmp_path: Path) -> None:
    """What was redacted is in no export, and the restored conversation shows its replacement."""
    assert b"secret" not in file.read_bytes()
    turnlog(tmp_path / "new.db", "import", str(file))
    with Store(tmp_path / "new.db", read_only=True) as new:
        assert [message.content for message in history(new, "call", at=6).messages][-1] == "***"


def test_a_refused_export_names_its_file(file: Path, tmp_path: Path) -> None:
    """Of several files on a command line, the error says which one was refused."""
    file.write_bytes(tampered(file.read_bytes(), b'"id":"i"', b'"id":"j"'))
    result = turnlog(tmp_path / "new.db", "import", str(file))
    assert (result.exit_code, result.stdout) == (1, "")
    assert len(result.stderr.splitlines()) == 1
    assert str(file) in result.stderr
