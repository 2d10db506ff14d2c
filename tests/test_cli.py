"""The command line: what each command prints and answers, where its store is, how it refuses (DESIGN section 8)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result
from views import seen

from turnlog.cli import main
from turnlog.projections import diff, handoffs
from turnlog.store import Redaction, Store, StoreUnusable

REMOVE = "swap-system-message-in-history-and-remove-transfer-tool-messages"
CALLS = [{"id": id, "name": "f", "arguments": '{"a": 1}'} for id in ("t1", "t2")]
EVENTS: list[dict[str, Any]] = [
    {"type": "describe", "title": "A call", "metadata": {"lang": "en"}},
    {"type": "assistant", "assistant": "a", "system": "You are a.", "tools": [{"name": "f"}], "model": "gpt-4o"},
    {"type": "message", "role": "user", "content": "Hi.", "meta": {"n": 1}, "extra": {"k": None}, "name": "Ada"},
    {"type": "message", "role": "assistant", "content": "Wait.", "tool_calls": CALLS},
    {"type": "message", "role": "tool", "tool_call_id": "t1", "content": "ok"},
    {"type": "transfer", "to": "b", "system": "You are b.", "mode": REMOVE, "tool_call_id": "t1", "reason": "asked"},
    {"type": "summary", "text": "They met.", "summary_of": 3, "scope": "shared_memory"},
    {"type": "message", "role": "tool", "tool_call_id": "t9", "content": "late"},
    {"type": "message", "role": "user", "content": "plan", "scope": "agent"},
]
READING = ("list", "log", "log call", "history call", "handoffs call", "diff call 3 latest")
EXPORTS = ("export call --format=events", "export call --format=openai")


@pytest.fixture
def db(tmp_path: Path) -> Path:
    """A store with two conversations, `call` and `other`."""
    path = tmp_path / "turnlog.db"
    with Store(path, durability="normal") as store:
        store.append("call", EVENTS)
        store.append("call", [Redaction(target=5, reason="asked for")])
        store.append("other", EVENTS[:4])
    return path


def run(command: str, db: Path | None = None, **options: Any) -> Result:
    """A command, its words told apart by spaces, as a program runs it: standard output is no terminal."""
    before = [] if db is None else [f"--db={db}"]
    return CliRunner().invoke(main, [*before, *command.split()], catch_exceptions=False, **options)


def answer(command: str, db: Path) -> Any:
    """What a command answers to a program."""
    result = run(f"{command} --json", db)
    assert (result.exit_code, result.stderr) == (0, ""), result.output
    return json.loads(result.stdout)


def decoded(lines: str) -> list[Any]:
    return [json.loads(line) for line in lines.splitlines()]


# What each command answers.


@pytest.mark.parametrize("command", READING)
def test_for_people(db: Path, command: str) -> None:
    """Every command that shows something prints it for people unless it is asked for JSON, and colours no pipe."""
    result = run(command, db)
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.strip()
    assert "\x1b" not in result.stdout
    with pytest.raises(json.JSONDecodeError):
        json.loads(result.stdout)


def test_list(db: Path) -> None:
    """`list --json`: each conversation's name, uuid, last version, title and times."""
    call, other = answer("list", db)
    assert (call["conversation"], call["version"], call["title"]) == ("call", 10, "A call")
    assert (other["conversation"], other["version"]) == ("other", 4)
    assert {"uuid", "began", "changed"} <= call.keys()
    assert "call" in run("list", db).stdout


def test_an_empty_store(tmp_path: Path) -> None:
    """A store without conversations is said to have none."""
    Store(tmp_path / "empty.db").close()
    assert answer("list", tmp_path / "empty.db") == []
    assert run("list", tmp_path / "empty.db").stdout.strip()
    assert run("log", tmp_path / "empty.db").stdout == ""


@pytest.mark.parametrize(("command", "count"), [("log", 14), ("log call", 10), ("log other", 4)])
def test_log(db: Path, command: str, count: int) -> None:
    """`log --json` is one event a line in the flat form, of one conversation or of the store in its order."""
    events = decoded(run(f"{command} --json", db).stdout)
    with Store(db, read_only=True) as store:
        expected = [event.to_dict() for event in store.follow()]
    wanted = slice(0, 10) if command == "log call" else slice(14 - count, 14)
    assert events == json.loads(json.dumps(expected[wanted]))
    assert len(run(command, db).stdout.splitlines()) == count


def test_log_by_uuid(db: Path) -> None:
    """A conversation is known by its uuid as well as by its name."""
    uuid = answer("list", db)[1]["uuid"]
    assert run(f"log {uuid}", db).stdout == run("log other", db).stdout


def test_history_has_the_documented_keys(db: Path) -> None:
    """`history --json` has the keys of DESIGN section 8, at every level."""
    view = answer("history call", db)
    assert list(view) == ["conversation", "scope", "version", "assistant", "tools", "messages", "hidden", "problems"]
    assert (view["conversation"], view["scope"], view["version"], view["assistant"]) == ("call", "chat", 10, "b")
    prompt, user, calling, summary = view["messages"]
    for message in view["messages"]:
        assert {"role", "content", "version", "origin", "assistant"} <= message.keys()
    assert (prompt["role"], prompt["content"], prompt["origin"]) == ("system", "You are b.", "prompt")
    assert (user["name"], user["meta"], user["extra"]) == ("Ada", {"n": 1}, {"k": None})
    assert calling["tool_calls"] == [{"id": "t2", "name": "f", "arguments": '{"a": 1}'}]
    assert (summary["origin"], summary["summary_of"]) == ("summary", 3)
    assert view["hidden"] == [
        {"version": 2, "origin": "prompt", "rule": f"transfer:{REMOVE}", "by": 6},
        {"version": 4, "origin": "message", "rule": f"transfer:{REMOVE}", "by": 6, "call": "t1"},
        {"version": 5, "origin": "message", "rule": f"transfer:{REMOVE}", "by": 6},
        {"version": 8, "origin": "message", "rule": "orphan-result", "by": 8},
    ]
    assert {(problem["version"], problem["rule"]) for problem in view["problems"]} >= {
        (4, "unanswered-call"),
        (8, "orphan-result"),
    }
    assert all({"rule", "version", "advice"} <= problem.keys() for problem in view["problems"])


def test_history_of_a_result(db: Path) -> None:
    """A tool's result has its call's id; redacted, it shows so."""
    *_, result = answer("history call --at=5", db)["messages"]
    assert (result["role"], result["tool_call_id"], result["content"]) == ("tool", "t1", "[redacted]")
    assert answer("history call --at=4", db)["tools"] == [{"name": "f"}]


@pytest.mark.parametrize(
    ("options", "query"),
    [
        ("--at=0", {"at": 0}),
        ("--at=5", {"at": 5}),
        ("--at=2000-01-01", {"at": 0}),
        ("--at=9999-01-01T00:00:00+02:00", {}),
        ("--scope=agent", {"scope": "agent"}),
        ("--scope shared_memory", {"scope": "shared_memory"}),
        ("--mode=delete-history", {"mode": "delete-history"}),
        ("--modes=6=rolling-history", {"modes": {6: "rolling-history"}}),
        ("--mode=delete-history --modes=6=rolling-history", {"modes": {6: "rolling-history"}}),
        ("--last=2", {"last": 2}),
        ("--last=0", {"last": 0}),
    ],
)
def test_history_options(db: Path, options: str, query: Any) -> None:
    """Each option of `history` is that of the Python function."""
    with Store(db, read_only=True) as store:
        expected = json.loads(json.dumps(seen(store, "call", **query).to_dict()))
    assert answer(f"history call {options}", db) == expected


def test_handoffs(db: Path) -> None:
    """`handoffs --json` is what the Python function gives, in one scope or all, as recorded or supposed."""
    (handoff,) = answer("handoffs call", db)
    with Store(db, read_only=True) as store:
        (expected,) = handoffs(store, "call")
    assert (handoff["version"], handoff["from"], handoff["to"], handoff["mode"]) == (6, "a", "b", REMOVE)
    assert (handoff["before"], handoff["after"], handoff["kept"]) == (expected.before, expected.after, expected.kept)
    assert [hidden["version"] for hidden in handoff["hid"]] == [hidden.version for hidden in expected.hid]
    assert [message["content"] for message in handoff["added"]] == ["You are b."]
    assert answer("handoffs call --scope=agent", db) == []
    assert answer("handoffs call --mode=delete-history", db)[0]["kept"] == 0
    assert answer("handoffs call --mode=delete-history --modes=6=rolling-history", db)[0]["hid"] == []
    assert run("handoffs other", db).stdout.strip()


@pytest.mark.parametrize(
    ("points", "a", "b"),
    [
        ("3 6", {"at": 3}, {"at": 6}),
        ("latest 2000-01-01", {}, {"at": 0}),
        ("rolling-history delete-history", {"mode": "rolling-history"}, {"mode": "delete-history"}),
        (f"{REMOVE} delete-history@6", {"mode": REMOVE}, {"mode": "delete-history", "at": 6}),
        ("latest latest --scope=agent", {"scope": "agent"}, {"scope": "agent"}),
    ],
)
def test_diff(db: Path, points: str, a: Any, b: Any) -> None:
    """`diff` compares two points, each a version, a time, `latest`, a mode, or a mode at a version."""
    with Store(db, read_only=True) as store:
        expected = diff(seen(store, "call", **a), seen(store, "call", **b))
    changes = answer(f"diff call {points}", db)["changes"]
    assert [change["kind"] for change in changes] == [change.kind for change in expected]
    assert all(change.keys() == {"kind", "a", "b"} for change in changes)
    assert run(f"diff call {points}", db).exit_code == 0


def test_rewind(db: Path) -> None:
    """`rewind` goes on from a version, in one scope or in all, and answers with the receipt."""
    assert answer("rewind call 3 --scope=chat", db)["last"] == 11
    assert [message["version"] for message in answer("history call", db)["messages"]] == [2, 3, 7]
    assert run("rewind call 0", db).exit_code == 0
    assert answer("history call", db)["messages"] == []
    assert answer("history call --scope=agent", db)["messages"] == []


def test_rename(db: Path) -> None:
    """`rename` gives a conversation another name; its uuid and its events stay."""
    uuid = answer("list", db)[0]["uuid"]
    assert answer("rename call mine", db) == {"conversation": "mine", "uuid": uuid}
    assert answer("history mine", db)["version"] == 10
    assert run("history call", db).exit_code == 1


@pytest.mark.parametrize("by", ["name", "uuid"])
@pytest.mark.parametrize("as_json", [False, True])
def test_rename_drops(db: Path, by: str, as_json: bool) -> None:
    """`rename --drop` leaves a conversation without a name, known by its uuid, and says so."""
    uuid = answer("list", db)[0]["uuid"]
    result = run(f"rename {uuid if by == 'uuid' else 'call'} --drop" + " --json" * as_json, db)
    assert (result.exit_code, result.stderr) == (0, "")
    assert uuid in result.stdout
    assert answer("list", db)[0]["conversation"] is None


def test_backup(db: Path, tmp_path: Path) -> None:
    """`backup` copies the store to a new file, and never over one that is there."""
    copy = tmp_path / "copy.db"
    assert answer(f"backup {copy}", db) == {"file": str(copy), "bytes": copy.stat().st_size}
    assert answer("list", copy) == answer("list", db)
    again = run(f"backup {copy}", db)
    assert (again.exit_code, len(again.stderr.splitlines())) == (1, 1)
    assert answer("list", copy) == answer("list", db)


def test_backup_that_cannot_be_written(db: Path, tmp_path: Path) -> None:
    """A backup that fails leaves nothing behind."""
    with Store(db, read_only=True) as store, pytest.raises(StoreUnusable) as refused:
        store.backup(tmp_path / "none" / "copy.db")
    assert refused.value.path == str(tmp_path / "none" / "copy.db")
    assert run(f"backup {tmp_path / 'none' / 'copy.db'}", db).exit_code == 1
    assert not (tmp_path / "none").exists()


def test_export(db: Path, tmp_path: Path) -> None:
    """`export` writes the document of a scope at a point to standard output or to a file."""
    file = tmp_path / "call.json"
    document = json.loads(run("export call --format=openai --at=4", db).stdout)
    assert [message["role"] for message in document["messages"]] == ["system", "user", "assistant"]
    assert (document["id"], document["lang"], document["model"]) == ("call", "en", "gpt-4o")
    assert run(f"export call --format=openai --at=4 --output={file}", db).exit_code == 0
    assert json.loads(file.read_text(encoding="utf-8")) == document
    told = answer(f"export call --format=openai --scope=agent --output={file}", db)
    assert (told["conversation"], told["format"], told["file"], told["lines"]) == ("call", "openai", str(file), 1)
    assert json.loads(file.read_text(encoding="utf-8"))["messages"][-1]["content"] == "plan"
    assert len(decoded(run("export call --format=events", db).stdout)) == 10


# Where the store is.


def test_the_store_may_be_told_anywhere(db: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`--db` after the command goes before one ahead of it, that before TURNLOG_DB, and that before `turnlog.db`."""
    monkeypatch.chdir(tmp_path)
    for name in ("after", "ahead", "variable"):
        with Store(f"{name}.db") as store:
            store.append(name, [{"type": "clear"}])
    environment = {"TURNLOG_DB": "variable.db"}
    for command, name in (
        ("--db ahead.db list --json --db after.db", "after"),
        ("list --db=after.db --json", "after"),
        ("--db ahead.db list --json", "ahead"),
        ("list --json", "variable"),
    ):
        result = run(command, env=environment)
        assert [each["conversation"] for each in json.loads(result.stdout)] == [name]
    assert [each["conversation"] for each in json.loads(run("list --json").stdout)] == ["call", "other"]


@pytest.mark.parametrize("command", [*READING, *EXPORTS, "backup copy.db", "log --follow"])
def test_reading_makes_no_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    """A command that only reads refuses a store that is not there, and makes none."""
    monkeypatch.chdir(tmp_path)
    result = run(command)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith("Error: ")
    assert "turnlog.db" in result.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", ["rewind call 0", "rename call mine"])
def test_what_must_exist_makes_no_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    """A command on a conversation that must exist makes no store where there is none."""
    monkeypatch.chdir(tmp_path)
    assert run(command).exit_code == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", [*READING, "rewind call 0"])
def test_a_file_that_is_no_store(tmp_path: Path, command: str) -> None:
    """A file of another kind is refused and left as it is."""
    file = tmp_path / "notes.txt"
    file.write_text("not a store\n" * 100, encoding="utf-8")
    result = run(command, file)
    assert (result.exit_code, result.stdout, len(result.stderr.splitlines())) == (1, "", 1)
    assert file.read_text(encoding="utf-8") == "not a store\n" * 100


# How it refuses.


@pytest.mark.parametrize(
    "command",
    [
        "log nobody",
        "history nobody",
        "history call --at=99",
        "history call --scope=kitchen",
        "history call --scope=Chat",
        "handoffs nobody",
        "handoffs call --scope=kitchen",
        "diff nobody 1 2",
        "diff call 1 99",
        "rewind nobody 0",
        "rewind call 99",
        "rewind call 11",
        "rewind call 1 --scope=kitchen",
        "rename nobody mine",
        "rename call other",
        "export nobody --format=events",
        "export call --format=openai --scope=kitchen",
        "import gone.json",
    ],
)
def test_a_refusal_is_one_line(db: Path, command: str) -> None:
    """What is refused ends with exit code 1 and one clear line on standard error, and writes nothing."""
    before = run("log --json", db).stdout, run("list --json", db).stdout
    result = run(command, db)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith("Error: ")
    assert len(result.stderr.splitlines()) == 1
    assert (run("log --json", db).stdout, run("list --json", db).stdout) == before


@pytest.mark.parametrize(
    "command",
    [
        "",
        "nothing",
        "list more",
        "history",
        "history call --mode=swap",
        "history call --modes=6",
        "history call --modes=six=delete-history",
        "history call --modes=6=swap",
        "history call --at=noon",
        "history call --at=-1",
        "history call --last=-1",
        "history call --colour",
        "diff call 1",
        "diff call 1 noon",
        "diff call 1 swap@2",
        "rewind call",
        "rewind call -1",
        "rewind call x",
        "rename call",
        "rename call mine --drop",
        "export call",
        "export call --format=pdf",
        "import",
        "import --diverged=merge x",
        "import --format=pdf x",
        "backup",
    ],
)
def test_wrong_usage(db: Path, command: str) -> None:
    """A command that is written wrongly ends with exit code 2 and says on standard error how it is used."""
    before = run("log --json", db).stdout
    result = run(command, db)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("Usage: ")
    assert run("log --json", db).stdout == before


@pytest.mark.parametrize("command", sorted(main.commands))
def test_help(command: str) -> None:
    """Every command has help that says what it does and what each option is for."""
    result = run(f"{command} --help")
    assert result.exit_code == 0
    shown = main.commands[command]
    assert shown.help
    for parameter in shown.params:
        assert not isinstance(parameter, click.Option) or parameter.help, parameter.name
