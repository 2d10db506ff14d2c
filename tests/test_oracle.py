"""The oracle agrees with every example of the rules, and with itself, whatever the log."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

import pytest
from logs import MODES, SCOPES, random_log
from oracle import every_version, oracle

Json = dict[str, Any]
DATA = Path(__file__).parent / "data"
RULES = json.loads((DATA / "rules.json").read_text(encoding="utf-8"))
VIEWS = [
    pytest.param(example["events"], view, id=f"{example['name']}-{number}")
    for example in RULES
    for number, view in enumerate(example["views"])
]


def short(message: Json) -> Json:
    """Return a visible message as the examples write it."""
    found = {key: message[key] for key in ("role", "version", "origin", "source")}
    found |= {} if message["assistant"] is None else {"assistant": message["assistant"]}
    calls = [call["id"] for call in message.get("tool_calls", ())]
    return found | ({"tool_calls": calls} if calls else {}) | ({"text_only": True} if "text_only" in message else {})


@pytest.mark.parametrize(("events", "view"), VIEWS)
def test_examples(events: list[Json], view: Json) -> None:
    """Each example's assistant, messages with their forms, hidden list and held list are the oracle's."""
    found = oracle(events, **view["query"])
    order = sorted(view["hidden"], key=lambda one: (one["version"], one["origin"], one["call"] or ""))
    assert found["assistant"] == view.get("assistant")
    assert [short(message) for message in found["messages"]] == view["expect"]
    assert found["hidden"] == order
    assert [list(key) for key in found["held"]] == view["held"]


@pytest.mark.parametrize("seed", range(60))
def test_random_logs(seed: int) -> None:
    """At every version each message is visible or hidden and visible ones are held; one pass gives the same views."""
    random = Random(seed)
    log = random_log(random)
    what_if = random.choice(({}, {"mode": random.choice(MODES)}, {"modes": {random.randrange(2, 31): MODES[2]}}))
    for scope in SCOPES:
        for at, view in enumerate(every_version(log, scope, **what_if)):
            visible = {(message["version"], message["origin"]) for message in view["messages"]}
            hidden = {(entry["version"], entry["origin"]) for entry in view["hidden"] if entry["call"] is None}
            assert not visible & hidden
            assert visible <= set(view["held"]) <= visible | hidden
            if at % 7 == 0:
                assert view == oracle(log, scope, at, **what_if)
