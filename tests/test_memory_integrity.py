"""The attacks T1 to T9 of the public package agent-memory-integrity: what the README's table says, measured."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from agmi.check import LABELS, main  # type: ignore[import-untyped]

REPORTED, ACCEPTED = "REPORTED", "ACCEPTED"
EDITS = [label.split()[0] for label in LABELS.values()]


def measured(adapter: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[int, dict[str, str]]:
    """The exit code of `agmi-check`, and its verdict on each edit by the edit's number."""
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)
    code: int = main(["--adapter", f"integrity_adapter:{adapter}", "--json", str(tmp_path / "verdicts.json")])
    edits = json.loads((tmp_path / "verdicts.json").read_text())["edits"]
    return code, {edit["edit"].split()[0]: edit["verdict"] for edit in edits}


def test_the_package_has_these_attacks() -> None:
    """The package attacks in the nine ways that the table has a row for."""
    assert " ".join(EDITS) == "T1 T2 T3 T4 T5 T6 T7 T8 T9"


@pytest.mark.parametrize(
    ("adapter", "accepted"),
    [
        ("WithCheckpoint", []),
        ("WithoutCheckpoint", ["T2", "T9"]),
        # Who computes the whole chain anew has, in T5, appended: that is no edit of anything that was there.
        ("KnowingWithCheckpoint", ["T5"]),
        ("KnowingWithoutCheckpoint", EDITS),
    ],
)
def test_what_is_reported(
    adapter: str,
    accepted: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Every edit is evaluated, and all are reported with a checkpoint kept elsewhere; without, all but T2 and T9."""
    code, verdicts = measured(adapter, tmp_path, monkeypatch)
    assert verdicts == {edit: ACCEPTED if edit in accepted else REPORTED for edit in EDITS}
    assert code == (1 if accepted else 0)
    assert capsys.readouterr().out.startswith("agmi-check: turnlog")


def test_the_command(tmp_path: Path) -> None:
    """The package's own command passes turnlog with a checkpoint."""
    command = [str(Path(sys.executable).with_name("agmi-check")), "--adapter", "integrity_adapter:WithCheckpoint"]
    paths = os.pathsep.join(filter(None, (str(Path(__file__).parent), os.environ.get("PYTHONPATH"))))
    environment = os.environ | {"PYTHONPATH": paths, "GITHUB_ACTIONS": ""}
    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count(REPORTED) == len(EDITS)
