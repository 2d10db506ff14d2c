"""What is printed: whatever a store holds, nothing of it commands a terminal, and nothing forges a line."""

from __future__ import annotations

import ast
import json
import re
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from test_cli_terminal import FORBIDDEN, ORDERS, on_terminal

import turnlog.cli
from turnlog.cli import main
from turnlog.cli.printing import escape
from turnlog.store import Store
from turnlog.store.characters import escaped_json

EVIL = f"{ORDERS}\u2028\u061c\nforged: line"
NEVER = FORBIDDEN | set("\u2028\u061c\x00\x0b\x85")


def rows() -> list[tuple[str, str | None, dict[str, Any], dict[str, Any]]]:
    """Type, scope, frame and body of events that only another program could have written."""
    call = {"id": EVIL, "name": EVIL}
    found: list[tuple[str, str | None, dict[str, Any], dict[str, Any]]] = []
    for scope in ("chat", EVIL):
        found += [
            ("assistant", scope, {"assistant": EVIL, "system": True}, {"assistant": EVIL, "system": EVIL}),
            ("message", scope, {"role": "user", "parts": ["text"]}, {"role": "user", "content": EVIL}),
            (
                "message",
                scope,
                {"role": "assistant", "parts": ["text"], "tool_calls": [call], "assistant": EVIL},
                {"role": "assistant", "content": EVIL, "tool_calls": [{**call, "arguments": EVIL}], "actor": EVIL},
            ),
            (
                "message",
                scope,
                {"role": "tool", "parts": ["text"], "tool_call_id": EVIL, "name": EVIL},
                {"role": "tool", "content": [{"type": EVIL, "text": EVIL}], "tool_call_id": EVIL, "name": EVIL},
            ),
            (
                "transfer",
                scope,
                {"to": EVIL, "from": EVIL, "message": True},
                {"to": EVIL, "message": EVIL, "reason": EVIL},
            ),
            ("message", scope, {"role": "tool", "tool_call_id": EVIL}, {"role": "tool", "tool_call_id": EVIL}),
            (
                "request",
                scope,
                {"at": 1, "history": "0" * 64, "rules": 1},
                {"at": 1, "history": "0" * 64, "model": EVIL},
            ),
            (
                "summary",
                scope,
                {"summary_of": 1, "text": True, "usage": {"total_tokens": 3}},
                {"text": EVIL, "summary_of": 1, "method": EVIL, "usage": {"total_tokens": 3}},
            ),
        ]
    found.append(("describe", None, {"scopes": [EVIL]}, {"title": EVIL, "scopes": [EVIL], "metadata": {EVIL: EVIL}}))
    found.append((EVIL, EVIL, {}, {EVIL: EVIL}))
    return found


@pytest.fixture
def evil(tmp_path: Path) -> Path:
    """A store into whose file another program has written, and files to import."""
    path = tmp_path / "turnlog.db"
    with Store(path) as store:
        store.append("c", [{"type": "message", "role": "user", "content": "word"}])
        store.append("c", [{"type": "describe", "title": EVIL}])
        store.append("e", [{"type": "message", "role": "user", "content": f"word {EVIL}"}])
        store.fork("c", 1, "f")
    with closing(sqlite3.connect(path)) as plain:
        for version, (type_, scope, frame, body) in enumerate(rows(), 3):
            plain.execute(
                "INSERT INTO events (conversation, version, type, v, scope, recorded_at, frame, body, salt, digest)"
                " VALUES (1, ?, ?, 1, ?, 1, ?, ?, zeroblob(16), zeroblob(32))",
                (version, type_, scope, json.dumps(frame), json.dumps(body, ensure_ascii=False)),
            )
        plain.execute("UPDATE conversations SET name = ? WHERE name = 'e'", (EVIL,))
        plain.execute("DROP INDEX events_by_time")
        plain.commit()
    (tmp_path / "evil.jsonl").write_text(json.dumps({EVIL: EVIL}))
    (tmp_path / "good.jsonl").write_text(json.dumps({"id": "g", "messages": [{"role": "user", "content": EVIL}]}))
    (tmp_path / f"{ORDERS.replace('/', '')}.jsonl").write_text("{}")
    return path


COMMANDS: list[list[str]] = [
    ["list"],
    ["log"],
    ["log", "c"],
    ["log", EVIL],
    ["history", "c"],
    ["history", "c", "--last", "3"],
    ["history", "c", "--scope", EVIL],
    ["history", EVIL],
    ["history", "c", "--at", EVIL],
    ["history", "c", "--modes", EVIL],
    ["handoffs", "c"],
    ["handoffs", "c", "--compare"],
    ["handoffs", "c", "--scope", EVIL],
    ["diff", "c", "1", "latest"],
    ["diff", "c", "1", EVIL],
    ["diff", "c", "1", "2", "--with", EVIL],
    ["explain", "c", "5"],
    ["explain", "c", "15"],
    ["trace", "c", "forged"],
    ["query", "SELECT * FROM messages"],
    ["query", "SELECT name AS '\x1b[31m' FROM conversations"],
    ["query", f"SELECT {EVIL}"],
    ["query", EVIL],
    ["search", "forged"],
    ["search", "forged", "--scope", EVIL],
    ["search", EVIL],
    ["check"],
    ["check", "c"],
    ["check", "--only", EVIL],
    ["usage"],
    ["request", "c", "--wire", "openai"],
    ["request", "c", "--wire", EVIL],
    ["replay", "c"],
    ["verify"],
    ["verify", "--checkpoint", EVIL],
    ["checkpoint"],
    ["redact", "c", "3", "--reason", "r", "--dry-run"],
    ["redact", "--match", "forged", "--reason", "r", "--dry-run"],
    ["redact", "--match", "forged", "--reason", EVIL],
    ["redact", EVIL, "1", "--reason", "r"],
    ["erase", "c", "--dry-run"],
    ["erase", EVIL],
    ["erase", "--older-than", EVIL],
    ["fork", "c", EVIL],
    ["fork", "c", "g", "--at", "4"],
    ["rewind", "c", "1", "--scope", EVIL],
    ["rename", EVIL, "e"],
    ["rename", "c", EVIL],
    ["compact", "f", "--keep", "0"],
    ["compact", "c", "--scope", EVIL],
    ["export", "c", "--format", "events"],
    ["export", "c", "--format", "openai"],
    ["export", "c", "--format", "chatcli"],
    ["export", "c", "--format", EVIL],
    ["import", "{folder}/evil.jsonl"],
    ["import", "{folder}/good.jsonl"],
    ["import", EVIL],
    ["import", "{folder}/good.jsonl", "--conversation", EVIL],
    ["import", "{folder}/" + ORDERS.replace("/", "") + ".jsonl"],
    ["backup", "{folder}/" + EVIL.replace("/", "")],
    ["rebuild"],
    [EVIL],
    ["list", EVIL],
    ["list", f"--{EVIL}"],
    ["--db", EVIL, "list"],
]
# What is printed byte for byte wherever it is not for a terminal.
DATA = ("export",)


def run(path: Path, arguments: list[str]) -> Result:
    arguments = [argument.replace("{folder}", str(path.parent)) for argument in arguments]
    return CliRunner().invoke(main, [f"--db={path}", *arguments])


def test_every_command_is_tried() -> None:
    """Every command is in the table, so that none that comes later is forgotten."""
    assert {arguments[0] for arguments in COMMANDS} >= set(main.commands)


@pytest.mark.parametrize("arguments", COMMANDS, ids=ascii)
def test_nothing_is_obeyed(evil: Path, arguments: list[str]) -> None:
    """No command prints what a terminal obeys, in what it shows and in what it refuses; no text begins a line."""
    done = run(evil, arguments)
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    output = done.stderr if arguments[0] in DATA else done.output
    assert not NEVER & set(output)
    assert "\ufffd" not in output
    for line in output.split("\n"):
        assert not line.startswith("forged"), line


@pytest.mark.parametrize("arguments", [each for each in COMMANDS if each[0] in main.commands], ids=ascii)
def test_json_is_the_same_json(evil: Path, arguments: list[str]) -> None:
    """JSON has nothing raw that a terminal obeys, in a pipe either, and says the same."""
    done = run(evil, [*arguments, "--json"])
    output = done.stderr if arguments[0] in DATA else done.output
    assert not NEVER & set(output)
    if done.stdout and arguments[0] not in DATA:
        lines = done.stdout.splitlines()
        whole = [done.stdout] if arguments[0] != "log" else lines
        for text in whole:
            json.loads(text)


def test_values_are_kept(evil: Path) -> None:
    """What is escaped in JSON is read as it was."""
    done = run(evil, ["log", "c", "--json"])
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert events[4]["content"] == EVIL
    assert events[-1]["type"] == EVIL


def test_data_on_a_terminal(evil: Path) -> None:
    """What is printed byte for byte into a pipe is escaped on a terminal."""
    exported = "export c --format=events"
    assert NEVER & set(run(evil, exported.split()).stdout)
    for command in (exported, "export c --format=openai", "log c", "history c", "log c --json", "list"):
        plain = re.sub(r"\x1b\[[0-9;]*m", "", on_terminal(evil, command))
        assert not NEVER & set(plain), command
    lines = on_terminal(evil, exported, columns=10_000).splitlines()
    assert [json.loads(line) for line in lines] == [
        json.loads(line) for line in run(evil, exported.split()).stdout.split("\n") if line
    ]


def test_csv_on_a_terminal(evil: Path) -> None:
    """CSV is data too: as it is in a pipe, escaped on a terminal."""
    command = "query --csv VALUES(char(27,155,8238))"
    assert "\x1b\x9b\u202e" in run(evil, command.split()).stdout
    assert "\\x1b\\x9b\\u202e" in on_terminal(evil, command)


def test_everything_is_printed_in_one_place() -> None:
    """No module of the commands but the one that escapes writes to a stream, or makes text for a terminal."""
    folder = Path(turnlog.cli.__file__).parent
    for path in folder.glob("*.py"):
        if path.name == "printing.py":
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            names = [each.name for each in node.names] if isinstance(node, ast.Import | ast.ImportFrom) else []
            module = node.module or "" if isinstance(node, ast.ImportFrom) else ""
            assert not any(name.split(".")[0] == "rich" for name in [*names, module]), path
            if isinstance(node, ast.Call):
                called = ast.unparse(node.func)
                assert called not in ("print", "click.echo", "click.secho"), f"{path}:{node.lineno}"
                assert not called.startswith(("sys.stdout", "sys.stderr")), f"{path}:{node.lineno}"


def test_what_is_escaped() -> None:
    """Every control and bidirectional character and line separator is escaped, and nothing else is."""
    for number in range(0x11000):
        character = chr(number)
        obeyed = (
            number < 0x20
            or 0x7F <= number < 0xA0
            or number in (0x61C, 0x200E, 0x200F, 0x2028, 0x2029, *range(0x202A, 0x202F), *range(0x2066, 0x206A))
            or 0xD800 <= number < 0xE000
        )
        assert (escape(character) != character) == (obeyed and character != "\t"), hex(number)
        if not 0xD800 <= number < 0xE000:
            text = json.dumps(character, ensure_ascii=False)
            assert json.loads(escaped_json(text)) == character
            assert not NEVER & set(escaped_json(text))
