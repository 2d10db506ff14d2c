"""The rules by example, through Python and through the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from views import seen

from turnlog.cli import main
from turnlog.store import Store

DATA = Path(__file__).parent / "data"
VECTORS = json.loads((DATA / "history.json").read_text(encoding="utf-8"))
VIEWS = [
    pytest.param(vector["events"], view, id=f"{vector['name']}-{number}")
    for vector in VECTORS
    for number, view in enumerate(vector["views"])
]


def told(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The messages of `history --json` as the vectors write them."""
    found = []
    for message in messages:
        short = {key: message[key] for key in ("role", "content", "version", "origin")}
        calls = [call["id"] for call in message.get("tool_calls", ())]
        found.append(short | ({"tool_calls": calls} if calls else {}))
    return found


def holds(document: dict[str, Any], view: dict[str, Any]) -> None:
    assert told(document["messages"]) == view["expect"]
    if "hidden" in view:
        assert document["hidden"] == view["hidden"]


@pytest.mark.parametrize(("events", "view"), VIEWS)
def test_python(events: list[dict[str, Any]], view: dict[str, Any]) -> None:
    """`history` gives every vector's messages and hidden list."""
    query = dict(view["query"])
    modes = {int(version): mode for version, mode in query.pop("modes", {}).items()}
    with Store(":memory:") as store:
        store.append("c", events)
        holds(seen(store, "c", modes=modes, **query).to_dict(), view)


@pytest.mark.parametrize(("events", "view"), VIEWS)
def test_command_line(events: list[dict[str, Any]], view: dict[str, Any], tmp_path: Path) -> None:
    """`import` and `history --json` give every vector's messages and hidden list."""
    file = tmp_path / "c.jsonl"
    file.write_text("\n".join(map(json.dumps, events)), encoding="utf-8")
    query = dict(view["query"])
    modes = [f"--modes={version}={mode}" for version, mode in query.pop("modes", {}).items()]
    options = [f"--{key}={value}" for key, value in query.items()]
    run = CliRunner()
    db = f"--db={tmp_path / 'turnlog.db'}"
    assert run.invoke(main, [db, "import", str(file)]).exit_code == 0
    shown = run.invoke(main, [db, "history", "c", "--json", *options, *modes])
    assert shown.exit_code == 0, shown.output
    holds(json.loads(shown.stdout), view)
