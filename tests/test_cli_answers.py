"""The command line's words: what a command says of one thing or many, of a part, of what has no name any more."""

from __future__ import annotations

from pathlib import Path

import pytest
from test_cli import db, run

from turnlog.store import Store

__all__ = ["db"]


@pytest.mark.parametrize("command", ["history call", "handoffs call", "request call --wire=openai"])
def test_modes_of_what_is_no_transfer(db: Path, command: str) -> None:
    """A what-if for a version that is not a transfer's is refused; nothing is shown as if it had been heeded."""
    result = run(f"{command} --modes 3=delete-history", db)
    assert (result.exit_code, result.stdout) == (1, "")
    assert "modes: 3 is the version of a message event, not of a transfer" in result.stderr
    assert run(f"{command} --modes 6=delete-history", db).exit_code == 0


def test_one_of_a_thing(tmp_path: Path) -> None:
    """One conversation is not told as several."""
    path = tmp_path / "one.db"
    with Store(path) as store:
        store.append("only", [{"type": "clear"}])
    assert run("verify", path).stdout == "1 event of 1 conversation: no fault\n"


def test_the_last_messages_alone(db: Path) -> None:
    """`--last` shows these and says what is not shown; a number above all others shows all."""
    shown = run("history call --last=1", db).stdout
    assert "Hi." not in shown
    assert "(hidden messages and findings are not shown with --last)" in shown
    assert "Hi." in run(f"history call --last={10**20}", db).stdout


def test_what_is_redacted_is_told_by_name(db: Path) -> None:
    """A conversation is called what it was called when the command was given, also where its name goes."""
    assert run("redact call 3 --reason=asked", db).stdout == "erased: call version 3, a message of chat\n"
    assert "erased: other version 2, an assistant of chat" in run("erase other", db).stdout
