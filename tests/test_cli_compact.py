"""`turnlog compact`: what it prints and answers, and how it refuses (DESIGN section 8)."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from views import reply, user

from turnlog.cli import main
from turnlog.projections import history
from turnlog.projections.compaction import LEAST_SUMMARY_TOKENS
from turnlog.store import Store

CODER = {"scope": "coder"}
TALK = [user("My order is AB-123."), reply("It failed: E404."), *(user(f"{number}?") for number in range(3, 7))]


@pytest.fixture
def db(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A store with one conversation: five exchanges in `chat`, two in `coder`."""
    monkeypatch.setenv("LLM_USER_PATH", str(tmp_path / "llm"))
    monkeypatch.delenv("LLM_ECHO_NEEDS_KEY_KEY", raising=False)
    path = tmp_path / "turnlog.db"
    with Store(path, durability="normal") as store:
        store.append("call", [*TALK, user("a", **CODER), user("b\x1b[2J", **CODER)])
    return path


def run(db: Path, *arguments: str) -> Result:
    return CliRunner().invoke(main, [f"--db={db}", "compact", *arguments], catch_exceptions=False)


def answer(db: Path, *arguments: str) -> Any:
    result = run(db, "call", "--json", *arguments)
    assert (result.exit_code, result.stderr) == (0, "")
    return json.loads(result.stdout)


def version(db: Path) -> int:
    with Store(db, read_only=True) as store:
        return store.version("call")


@pytest.mark.parametrize(
    ("options", "covered"),
    [
        ((), (1, 2, 2)),
        (("--keep=2",), (1, 4, 4)),
        (("--keep=0", "--scope=coder"), (7, 8, 2)),
        (("--keep=1", f"--max-tokens={LEAST_SUMMARY_TOKENS}"), (1, 5, 5)),
    ],
    ids=["four by default", "two", "a scope", "the least bound"],
)
def test_for_programs(db: Path, options: tuple[str, ...], covered: tuple[int, int, int]) -> None:
    """`--json` answers the receipt, the range covered, the count and the text of the event that was appended."""
    told = answer(db, *options)
    assert (told["first"], told["last"], told["summary_of"]) == covered
    with Store(db, read_only=True) as store:
        written = store.event("call", 9)
        assert (told["receipt"]["last"], told["receipt"]["digest"]) == (9, written.digest.hex())
        assert (written.body["text"], written.body["method"]) == (told["text"], "digest")
        assert len(told["text"]) <= 4 * written.body["max_tokens"]
        assert history(store, "call", written.scope or "").messages[0].summary_of == covered[2]


def test_for_people(db: Path) -> None:
    """For people it prints which event stands for what, and its text, which a terminal shows and does not obey."""
    result = run(db, "call", "--keep=0", "--scope=coder")
    assert (result.exit_code, result.stderr) == (0, "")
    first, *text = result.stdout.splitlines()
    assert first == "version 9 stands for 2 messages of 7-8:"
    assert text
    assert "\x1b" not in result.stdout


def test_nothing_to_summarise(db: Path) -> None:
    """With nothing to summarise it says so, answers null, and appends nothing."""
    assert run(db, "call", "--scope=coder").stdout == "nothing to summarise\n"
    assert answer(db, "--scope=agent") is None
    assert version(db) == 8


def test_a_model_compacts(db: Path) -> None:
    """`--model` asks a model of the llm package, named on the event with the tokens that it counted."""
    told = answer(db, "--model=echo", "--max-tokens=2000")
    assert "AB-123" in json.loads(told["text"])["prompt"]
    with Store(db, read_only=True) as store:
        body = store.event("call", 9).body
    assert body["method"] == "model:echo"
    assert body["usage"]["completion_tokens"] == len(told["text"].split())


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("nobody",), 1, "nobody"),
        (("call", "--scope=kitchen"), 1, "kitchen"),
        (("call", "--model=no-such-model"), 1, "no-such-model"),
        (("call", "--model=echo", "--max-tokens=30"), 1, "no summary: the text has "),
        (("call", "--model=echo-needs-key"), 1, "no summary: echo-needs-key: "),
        (("call", "--keep=-1"), 2, "--keep"),
        (("call", f"--max-tokens={LEAST_SUMMARY_TOKENS - 1}"), 2, "--max-tokens"),
        ((), 2, "CONVERSATION"),
    ],
)
def test_refusals(db: Path, arguments: tuple[str, ...], code: int, words: str) -> None:
    """What is refused ends with one line and 1, wrong usage with 2, and nothing is appended."""
    result = run(db, *arguments)
    assert (result.exit_code, result.stdout) == (code, "")
    told = result.stderr.splitlines()
    assert words in told[-1]
    assert code == 2 or len(told) == 1
    assert version(db) == 8


def test_without_the_llm_package(db: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the llm package a digest can still be had; a model is refused, with what to install."""
    monkeypatch.setitem(sys.modules, "llm", None)
    result = run(db, "call", "--model=echo")
    assert (result.exit_code, len(result.stderr.splitlines())) == (1, 1)
    assert "pip install 'turnlog[llm]'" in result.stderr
    assert answer(db)["summary_of"] == 2
