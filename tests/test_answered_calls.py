"""What a view knows of the results of its calls, and what wires, plans and compressors make of that."""

from __future__ import annotations

import json
from typing import Any

import pytest
from sending import both, changes, messages, moved, sent
from views import event, reply, result, rewind, summary, user, view
from wire_rules import ANTHROPIC, OPENAI

from turnlog.projections import VisibleMessage, history, plan
from turnlog.projections.answers import Pair, with_own_ids
from turnlog.projections.compaction import DigestCompressor, compact
from turnlog.store import Store
from turnlog.store.events import Messages
from turnlog.wires import Wire

HIDDEN = [user("a"), reply("", "t1"), result("t1", "gone"), user("b"), summary("s", 3, 3)]
RUNNING = [user("a"), reply("", "t1"), result("t1", "half", interim=True)]


def calling(name: str, id: str = "t1") -> dict[str, Any]:
    calls = [{"id": id, "name": name, "arguments": "{}"}]
    return event("message", role="assistant", content="", tool_calls=calls)


def said(found: list[VisibleMessage]) -> list[tuple[str, list[str]]]:
    """The text of each message, and the ids of its calls or of what it answers."""
    return [
        (str(each.content), [call.id for call in each.tool_calls] + ([each.tool_call_id] if each.tool_call_id else []))
        for each in found
    ]


def test_pairs_of_one_id() -> None:
    """Of several calls of one id, a result answers the nearest that no earlier result answers."""
    found = view(reply("", "t1"), reply("", "t1", "t1"), result("t1"), result("t1"), result("t1"))
    assert found.pairs == [Pair(2, 0, 3, False), Pair(2, 1, 4, False), Pair(1, 0, 5, False)]


def test_pairs_that_are_hidden_or_rewound() -> None:
    """A pair is there while its call is visible and its result on the path, whether that is visible or not."""
    assert view(*HIDDEN).pairs == [Pair(2, 0, 3, False)]
    assert view(*HIDDEN[:3], rewind(2)).pairs == []
    assert view(*HIDDEN[:3], at=2).pairs == []
    assert view(*HIDDEN[:3], last=1).pairs == []


def test_pairs_are_searched_by_an_index_and_only_for_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    """A page costs one search of an index by call if it has calls, and none if it has no calls."""
    with Store(":memory:") as store:
        store.append("c", [user("a"), user("b"), reply("", "t1"), result("t1")])
        history(store, "c")
        rows = store.db.rows
        asked: list[str] = []

        def noting(sql: str, parameters: Any = ()) -> Any:
            if "uses_by_call" in sql:
                asked.extend(step[3] for step in rows(f"EXPLAIN QUERY PLAN {sql}", parameters))
            return rows(sql, parameters)

        monkeypatch.setattr(store.db, "rows", noting)
        assert history(store, "c", at=2).pairs == []
        assert asked == []
        assert history(store, "c").pairs == [Pair(3, 0, 4, False)]
    assert any("uses_by_call (line=? AND call=?" in step for step in asked)
    assert not [step for step in asked if step.startswith("SCAN") and "VIRTUAL TABLE" not in step]


@both
def test_a_result_no_longer_shown(wire: Wire) -> None:
    """Where a call that was answered is visible and its result is not, the model is told just that, and no error."""
    found = view(*HIDDEN)
    request = sent(found, wire).request
    assert "the result of this call is no longer shown" in json.dumps(request)
    assert "is_error" not in json.dumps(request)
    assert (2, "result added for call t1, whose own is no longer shown") in changes(found, wire)


def test_points_lie_past_a_result_no_longer_shown() -> None:
    """What stands for a hidden result stays as it is, so that a cache point may lie behind it."""
    found = view(*HIDDEN)
    assert moved(found, OPENAI, Messages(len(found.messages))) == [Messages(4)]
    assert plan(found) == [Messages(len(found.messages))]


@both
def test_an_interim_result_in_the_last_exchange(wire: Wire) -> None:
    """A call of the last exchange that has only interim results is running: the interim result is sent, no error."""
    found = view(*RUNNING)
    assert messages(found, wire)[-1][1][-1] in ("half", "t1")
    assert "half" in json.dumps(sent(found, wire).request)
    assert changes(found, wire) == []


@both
def test_an_interim_result_that_is_hidden(wire: Wire) -> None:
    """If the interim result of a running call is hidden, the model is told that the call is still running."""
    found = view(*RUNNING, summary("s", 3, 3))
    assert "this call is still running" in json.dumps(sent(found, wire).request)
    assert (2, "result added for call t1, still running") in changes(found, wire)


@both
def test_an_interim_result_of_an_earlier_exchange(wire: Wire) -> None:
    """Once another exchange has begun, a call without a final result was never answered."""
    found = view(*RUNNING, user("b"))
    request = json.dumps(sent(found, wire).request)
    assert "never answered" in request
    assert "half" not in request
    assert (3, "interim result of a call that was never finished dropped") in changes(found, wire)


@both
def test_no_point_past_a_running_call(wire: Wire) -> None:
    """The result of a running call will change: no cache point lies past the call."""
    found = view(*RUNNING)
    assert moved(found, wire, Messages(3)) == [Messages(2)]
    assert plan(found) == [Messages(2)]


def test_a_final_result_takes_the_place_of_an_interim_one() -> None:
    """Once the final result is there it is sent alone."""
    found = view(*RUNNING, result("t1", "done"))
    assert messages(found, ANTHROPIC)[-1][0] == "user"
    request = json.dumps(sent(found, ANTHROPIC).request)
    assert "done" in request
    assert "half" not in request


def test_ids_of_their_own() -> None:
    """What compressors get has an id of its own for each call, and each result has the id of the call it answers."""
    found = view(reply("", "t1"), reply("", "t1", "t2"), result("t1", "of 2"), result("t1", "of 1"), result("t2"))
    assert said(with_own_ids(found.messages, found.pairs)) == [
        ("", ["t1"]),
        ("", ["t1#2", "t2"]),
        ("of 2", ["t1#2"]),
        ("of 1", ["t1"]),
        ("r", ["t2"]),
    ]


def test_ids_of_results_whose_calls_are_elsewhere() -> None:
    """A result whose call is not among the messages has the id of none that is."""
    found = view(reply("", "t1"), reply("", "t1"), result("t1", "of 2"))
    kept = [found.messages[0], found.messages[2]]
    assert said(with_own_ids(kept, found.pairs)) == [("", ["t1"]), ("of 2", ["t1#2"])]


def test_the_digest_tells_the_call_that_a_result_answers() -> None:
    """In a digest a result stands with the call that rule 7 pairs it with, not with the first of its id."""
    with Store(":memory:") as store:
        store.append(
            "c",
            [user("a"), calling("cancel"), calling("refund"), result("t1", '{"status": "refunded"}')],
        )
        store.append("c", [result("t1", '{"status": "cancelled"}'), user("b")])
        done = compact(store, "c", "chat", DigestCompressor(), keep_exchanges=1)
    assert done is not None
    assert "cancel() → status=cancelled" in done.text
    assert "refund() → status=refunded" in done.text
