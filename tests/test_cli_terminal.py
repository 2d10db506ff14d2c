"""The command line as a program of its own: pipes, signals, terminals, and text that must not command them."""

from __future__ import annotations

import json
import os
import pty
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from turnlog.cli import main
from turnlog.store import Store

TURNLOG = [sys.executable, "-c", "from turnlog.cli import main; main(prog_name='turnlog')"]
# Each argument is a whole command: one process for several, since a process takes long to start.
SEVERAL = """
import sys
from turnlog.cli import main
for command in sys.argv[1:]:
    main(command.split(), standalone_mode=False)
"""
PATIENCE = 60  # Seconds after which a program that hangs is killed, and its test fails.

# What would turn a terminal red, ring it, move its cursor or write from right to left, in either form of ESC [.
ORDERS = "\x1b[31m \x9b31m \x07 \r \x7f \x08 \x1b]0;title\x07 \u202e \u2066"
FORBIDDEN = set("\x1b\x9b\x07\r\x7f\x08\u202e\u2066")
MARKUP = "[red]alarm[/red] [link=https://example.org]here[/link] [bold] [/] :smile: \\[x]"


def told(text: str) -> list[dict[str, Any]]:
    """Events that say a text wherever an event says anything."""
    calls = [{"id": "t1", "name": "f", "arguments": text}]
    return [
        {"type": "describe", "title": text},
        {"type": "assistant", "assistant": "a", "system": text, "first_message": text},
        {"type": "message", "role": "user", "content": text},
        {"type": "message", "role": "user", "content": [{"type": text, "text": text}, {"type": "text", "text": text}]},
        {"type": "message", "role": "assistant", "content": text, "tool_calls": calls},
        {"type": "message", "role": "tool", "tool_call_id": "t1", "content": text, "name": "n"},
        {"type": "transfer", "to": "b", "message": text, "reason": text, "system": text},
        {"type": "summary", "text": text, "summary_of": 1},
        {"type": "x:mark", "data": {text: text}},
    ]


@pytest.fixture
def db(tmp_path: Path) -> Path:
    return tmp_path / "turnlog.db"


def fill(db: Path, events: list[dict[str, Any]], conversation: str = "c") -> None:
    with Store(db, durability="normal") as store:
        store.append(conversation, events)


def tamper(db: Path, statement: str, parameters: tuple[str, ...]) -> None:
    """Write to the file as another program could."""
    with closing(sqlite3.connect(db)) as plain:
        plain.execute(statement, parameters)
        plain.commit()


def printed(db: Path, command: str) -> str:
    result = CliRunner().invoke(main, [f"--db={db}", *command.split()], catch_exceptions=False)
    assert (result.exit_code, result.stderr) == (0, "")
    return result.stdout


@contextmanager
def started(arguments: list[str], db: Path, **options: Any) -> Iterator[subprocess.Popen[str]]:
    """A process on a store, killed if it hangs."""
    environment = os.environ | {"TURNLOG_DB": str(db)} | options.pop("env", {})
    process = subprocess.Popen(
        arguments, text=True, encoding="utf-8", stderr=subprocess.PIPE, env=environment, **options
    )
    timer = threading.Timer(PATIENCE, process.kill)
    timer.start()
    try:
        with process:
            yield process
    finally:
        timer.cancel()


def on_terminal(db: Path, *commands: str, columns: int = 80) -> str:
    """What commands print whose output is a terminal of so many columns."""
    terminal, end = pty.openpty()
    environment = {"COLUMNS": str(columns), "TERM": "xterm-256color"}
    with started([sys.executable, "-c", SEVERAL, *commands], db, stdout=end, env=environment) as process:
        os.close(end)
        output = b""
        while True:
            try:
                piece = os.read(terminal, 65536)
            except OSError:  # How Linux says that nobody has the other end any more.
                break
            if not piece:
                break
            output += piece
        os.close(terminal)
        assert process.stderr is not None
        assert process.stderr.read() == ""
    assert process.returncode == 0
    return output.decode().replace("\r\n", "\n")


SHOWING = ("list", "log", "log c", "history c", "handoffs c", "diff c 2 latest")


# Text that must not command a terminal.


@pytest.mark.parametrize("command", SHOWING)
def test_text_commands_no_terminal(db: Path, command: str) -> None:
    """Control characters in what was said are told by number: none of them reaches the terminal."""
    fill(db, told(ORDERS))
    assert not FORBIDDEN & set(printed(db, command))


@pytest.mark.parametrize("command", SHOWING)
def test_names_command_no_terminal(db: Path, command: str) -> None:
    """Names may hold what writes from right to left; it does not reach the terminal either."""
    name = "\u202eevil\u2066"
    calls = [{"id": name, "name": name, "arguments": "{}"}]
    fill(db, [{"type": "assistant", "assistant": name}, {"type": "transfer", "to": name, "from": name}], "c")
    fill(db, [{"type": "message", "role": "assistant", "tool_calls": calls, "assistant": name}], "c")
    fill(db, [{"type": "message", "role": "tool", "tool_call_id": name + "2", "content": "x"}], "c")
    fill(db, [{"type": "clear"}], "d")
    tamper(db, "UPDATE conversations SET name = ? WHERE name = 'd'", (name,))
    assert not FORBIDDEN & set(printed(db, command))


@pytest.mark.parametrize("command", ["log", "log c"])
def test_events_of_a_newer_build_command_no_terminal(db: Path, command: str) -> None:
    """The type and the scope of an event that another program wrote are no more trusted than its text."""
    fill(db, told("x"))
    columns = "conversation, v, recorded_at, frame, body, salt, digest"
    tamper(
        db,
        f"INSERT INTO events ({columns}, version, type, scope) SELECT {columns}, 100, ?, ? FROM events LIMIT 1",
        (f"new{ORDERS}", f"new{ORDERS}"),
    )
    assert not FORBIDDEN & set(printed(db, command))


@pytest.mark.parametrize("arguments", [["log", ORDERS], ["history", "c", f"--scope={ORDERS}"], ["import", ORDERS]])
def test_errors_command_no_terminal(db: Path, arguments: list[str]) -> None:
    """What was mistyped is told in the error without commanding the terminal."""
    fill(db, told("x"))
    result = CliRunner().invoke(main, [f"--db={db}", *arguments])
    assert result.exit_code == 1
    assert not FORBIDDEN & set(result.output)


@pytest.mark.parametrize("command", ["log", "log c", "history c", "diff c 2 latest"])
def test_markup_is_printed_as_typed(db: Path, command: str) -> None:
    """Square brackets in content are content: nothing in it is taken for markup."""
    fill(db, told(MARKUP))
    assert MARKUP in printed(db, command)


def test_markup_in_titles_and_names(db: Path) -> None:
    """Nor is anything in titles, names of conversations or of assistants."""
    fill(db, [{"type": "describe", "title": MARKUP}, {"type": "transfer", "to": "[red]b"}], "[blue]c")
    assert MARKUP in printed(db, "list")
    assert "[blue]c" in printed(db, "list")
    assert "[red]b" in printed(db, "handoffs [blue]c")
    assert "[red]b" in printed(db, "history [blue]c")


def test_many_languages_are_printed_as_typed(db: Path) -> None:
    """Wide spaces, joined emoji and every script are no control characters: they are shown as they are."""
    text = "no\u00a0break 日本\u3000語 עברית \U0001f468\u200d\U0001f469\u200d\U0001f467 é"
    fill(db, told(text))
    assert text in printed(db, "history c")


def test_json_on_a_terminal_commands_nothing(db: Path) -> None:
    """JSON on a terminal escapes what would command it, and is still the same JSON."""
    fill(db, told(ORDERS))
    output = on_terminal(db, "history c --json")
    assert json.loads(output) == json.loads(printed(db, "history c --json"))
    assert not FORBIDDEN & set(output)


# Terminals.


@pytest.mark.parametrize("columns", [1, 20, 200])
def test_terminals_of_every_width(db: Path, columns: int) -> None:
    """On a terminal there are colours, and no width is too narrow or too wide."""
    fill(db, told("some words " * 30))
    assert "\x1b[" in on_terminal(db, *SHOWING, columns=columns)


@pytest.mark.parametrize(("command", "count"), [("log c", 9), ("diff c 0 4", 8)])
def test_a_line_is_cut_at_the_terminal_s_width(db: Path, command: str, count: int) -> None:
    """An event, or a difference, is one line on a terminal: it is cut at the terminal's width."""
    fill(db, told("some words " * 30))
    assert len(on_terminal(db, command, columns=60).splitlines()) == count


# Pipes and signals.


@pytest.mark.parametrize("command", ["log", "export c --format=events"])
def test_a_reader_that_has_read_enough(db: Path, command: str) -> None:
    """Output is piped into `head` without a traceback, or any other word about it."""
    fill(db, told("some words " * 30) * 200)
    script = f'set -o pipefail; "$@" --db={db} {command} | head -n 1'
    done = subprocess.run(["bash", "-c", script, "bash", *TURNLOG], capture_output=True, text=True, timeout=PATIENCE)
    assert done.stderr == ""
    assert len(done.stdout.splitlines()) == 1


@pytest.mark.parametrize("command", ["list", "export c --format=openai"])
def test_a_reader_that_has_gone(db: Path, command: str) -> None:
    """Even what is short enough to wait in a buffer leaves no word on a pipe that nobody reads."""
    fill(db, told("x"))
    reader, writer = os.pipe()
    os.close(reader)
    with started([*TURNLOG, *command.split()], db, stdout=writer) as process:
        os.close(writer)
        assert process.stderr is not None
        assert process.stderr.read() == ""


@pytest.mark.parametrize("conversation", [[], ["c"]], ids=["store", "conversation"])
def test_log_follows(db: Path, conversation: list[str]) -> None:
    """`log --follow` goes on with what another process appends, and ends cleanly when it is interrupted."""
    fill(db, told("x"))
    with started([*TURNLOG, "log", *conversation, "--follow", "--json"], db, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        shown = [json.loads(process.stdout.readline())["version"] for _ in range(9)]
        fill(db, [{"type": "clear"}], "other")
        fill(db, [{"type": "clear", "id": "late"}])
        while (event := json.loads(process.stdout.readline())).get("id") != "late":
            assert not conversation, "another conversation's event"
        process.send_signal(signal.SIGINT)
        rest, complaint = process.communicate()
    assert (shown, event["version"]) == (list(range(1, 10)), 10)
    assert (process.returncode, rest, complaint) == (0, "", "")


def test_log_is_interrupted_while_it_prints(db: Path) -> None:
    """An interrupt ends `log --follow` cleanly at any moment, also while its reader is slow."""
    fill(db, told("some words " * 30) * 200)
    with started([*TURNLOG, "log", "c", "--follow", "--json"], db, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.send_signal(signal.SIGINT)
        _, complaint = process.communicate()
    assert (process.returncode, complaint) == (0, "")


def test_output_that_cannot_be_encoded(db: Path) -> None:
    """Where standard output cannot encode what was said, there is no traceback."""
    fill(db, told("日本語"))
    ascii_only = {"PYTHONIOENCODING": "ascii"}
    with started([*TURNLOG, "history", "c"], db, stdout=subprocess.DEVNULL, env=ascii_only) as process:
        _, complaint = process.communicate()
    assert "Traceback" not in complaint
