"""The rules by example, through Python and, the older ones, through the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from views import forms, lifelines, seen

from turnlog.cli import main
from turnlog.projections import timeline
from turnlog.store import Store

Json = dict[str, Any]
DATA = Path(__file__).parent / "data"


def views_of(file: str) -> list[Any]:
    """Return the events and one view of each example in a file, for each of its views."""
    examples = json.loads((DATA / file).read_text(encoding="utf-8"))
    return [
        pytest.param(example["events"], view, id=f"{example['name']}-{number}")
        for example in examples
        for number, view in enumerate(example["views"])
    ]


VIEWS = views_of("history.json")


def told(messages: list[Json]) -> list[Json]:
    """The messages of `history --json` as the vectors write them."""
    found = []
    for message in messages:
        short = {key: message[key] for key in ("role", "content", "version", "origin")}
        calls = [call["id"] for call in message.get("tool_calls", ())]
        found.append(short | ({"tool_calls": calls} if calls else {}))
    return found


def holds(document: Json, view: Json) -> None:
    assert told(document["messages"]) == view["expect"]
    if "hidden" in view:
        assert document["hidden"] == view["hidden"]


def asked(view: Json) -> Json:
    """The query of an example as Python asks it."""
    query = dict(view["query"])
    return query | {"modes": {int(version): mode for version, mode in query.get("modes", {}).items()}}


@pytest.mark.parametrize(("events", "view"), VIEWS)
def test_python(events: list[Json], view: Json) -> None:
    """A timeline gives every vector's messages and hidden list."""
    with Store(":memory:") as store:
        store.append("c", events)
        holds(seen(store, "c", **asked(view)).to_dict(), view)


@pytest.mark.parametrize(("events", "view"), views_of("rules.json"))
def test_rules(events: list[Json], view: Json) -> None:
    """A timeline gives every rule's assistant, messages with sources and forms, all that is hidden and all held."""
    query = asked(view)
    at, scope = query.pop("at", None), query.pop("scope", "chat")
    with Store(":memory:") as store:
        store.append("c", events)
        line = timeline(store, "c", scope, **query)
        shown, shapes = line.at(at), forms(lifelines(line), len(events) if at is None else at)
        messages = []
        for message in shown:
            short: Json = {key: getattr(message, key) for key in ("role", "version", "origin")}
            short["source"] = message.version if message.source is None else message.source
            short |= {} if message.assistant is None else {"assistant": message.assistant}
            calls, text_only = shapes.pop((message.version, message.origin))
            assert calls == [call.id for call in message.tool_calls]
            short |= ({"tool_calls": calls} if calls else {}) | ({"text_only": True} if text_only else {})
            messages.append(short)
        hidden = [
            {"version": each.version, "origin": each.origin, "rule": each.rule, "by": each.by, "call": each.call}
            for each in line.hidden(at)
        ]
        held = [[message.version, message.origin] for message in line.held(at)]
    assert (shown.assistant, messages) == (view["assistant"], view["expect"])
    assert shapes == {}
    assert hidden == sorted(view["hidden"], key=lambda one: (one["version"], one["origin"], one["call"] or ""))
    assert held == view["held"]


@pytest.mark.parametrize(("events", "view"), VIEWS)
def test_command_line(events: list[Json], view: Json, tmp_path: Path) -> None:
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
