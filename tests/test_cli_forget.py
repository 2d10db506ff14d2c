"""`turnlog redact --match` and `--actor`: what they list, and what they refuse."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from test_append import said
from test_forget import NAME
from test_redaction import files_with
from views import summary

from turnlog.cli import main
from turnlog.store import Store


def run(path: Path, *arguments: str) -> Result:
    return CliRunner().invoke(main, [f"--db={path}", *arguments], catch_exceptions=False)


class TestCommand:
    """`turnlog redact --match` and `--actor`."""

    @pytest.fixture
    def path(self, tmp_path: Path) -> Path:
        with Store(tmp_path / "s.db") as store:
            store.append("one", [said(f"I am {NAME}\n\x1b[31m", assistant=NAME), said("b", actor="them")])
            store.append("José", [said(f"{NAME}?", meta={"by": NAME}), summary("c", 1, 1)])
        return tmp_path / "s.db"

    def test_a_dry_run(self, path: Path) -> None:
        """A dry run lists events with places and excerpts, what tells of them, and what is left, each on a line."""
        done = run(path, "redact", "--match", "jose", "--reason=r", "--dry-run")
        assert done.exit_code == 0
        assert done.stdout.splitlines() == [
            "would go: one version 1, a message of chat",
            r"      content: I am «José» \x1b[31m",
            "      assistant: «José»",
            "would go: José version 1, a message of chat",
            "      content: «José»?",
            "      meta.by: «José»",
            "still tells of it: José version 2, a summary of chat (--summaries redacts it too)",
            "left: José: its name, José (`turnlog rename --erase` takes it)",
            "left: one: frame.assistant José in 1 event from version 1 on",
            "2 events of 2 conversations would go",
        ]

    def test_done(self, path: Path) -> None:
        """What was redacted is listed with its places and without what it said."""
        done = run(path, "redact", "--match", "jose", "--actor=them", "--summaries", "--reason=r", "--conversation=one")
        assert done.stdout.splitlines() == [
            "erased: one version 1, a message of chat: content, assistant",
            "erased: one version 2, a message of chat: actor",
            "left: one: frame.assistant José in 1 event from version 1 on",
            "2 events of 1 conversation erased",
        ]
        assert run(path, "redact", "--match=jose", "--reason=r", "--conversation=one").stdout.splitlines()[-1] == (
            "0 events of 0 conversations erased"
        )

    def test_json(self, path: Path) -> None:
        """`--json` gives the same as an object."""
        told = json.loads(run(path, "redact", "--match=jose", "--reason=r", "--json", "--dry-run").stdout)
        with Store(path) as store:
            found = store.forget(["jose"], reason="r", dry_run=True)
        assert [each["where"] for each in told["mentions"]] == [mention.where for mention in found.mentions]
        assert [each["where"] for each in told["left"]] == ["name", "frame.assistant"]
        assert [target["version"] for target in told["redacted"]["erased"]] == [1, 1]

    @pytest.mark.parametrize(
        ("arguments", "why"),
        [
            (["one", "1", "--match=x"], "no CONVERSATION"),
            (["--match", "a", "b"], "no CONVERSATION"),
            (["one"], "give a CONVERSATION and a VERSION"),
            ([], "give a CONVERSATION and a VERSION"),
            (["one", "1", "--conversation=one"], "give a CONVERSATION and a VERSION"),
        ],
    )
    def test_misuse(self, path: Path, arguments: list[str], why: str) -> None:
        """Versions and words together, or neither, are refused before anything is done."""
        before = path.read_bytes()
        done = run(path, "redact", "--reason=r", *arguments)
        assert done.exit_code == 2
        assert why in done.stderr
        assert path.read_bytes() == before

    @pytest.mark.parametrize("arguments", [["--match=%%"], ["--match=jose", "--conversation=x"], ["--actor="]])
    def test_refusals(self, path: Path, arguments: list[str]) -> None:
        """What cannot be looked for or does not exist is refused in one line."""
        done = run(path, "redact", "--reason=r", *arguments)
        assert (done.exit_code, done.stdout, len(done.stderr.splitlines())) == (1, "", 1)

    @pytest.mark.parametrize("to", [["another"], ["--drop"]])
    def test_the_name_of_a_conversation(self, tmp_path: Path, to: list[str]) -> None:
        """A name that is left can be taken with `rename --erase`: no file has it then, as one has without."""
        path = tmp_path / "n.db"
        with Store(path) as store:
            store.append("José", [said("a")])
            store.append("Josefine", [said("a")])
            assert run(path, "rename", "Josefine", "b").exit_code == 0
            assert files_with(path, "Josefine")
            assert "left: José: its name" in run(path, "redact", "--match=jose", "--reason=r").stdout
            done = run(path, "rename", "José", *to, "--erase")
            assert (done.exit_code, done.stderr) == (0, "")
            assert files_with(path, "José", "Josefine") == []
            assert "its name" not in run(path, "redact", "--match=jose", "--reason=r").stdout
