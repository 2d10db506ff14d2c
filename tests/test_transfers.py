"""Transfers inferred from the calls of transfer tools in imported documents (DESIGN section 8)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st
from views import seen

from turnlog.cli import main
from turnlog.formats.transfers import TransferTools
from turnlog.importing import import_file
from turnlog.projections import handoffs
from turnlog.store import Event, Store
from turnlog.store.events import Mode

AIRLINE = Path(__file__).parent / "data" / "airline.jsonl"
Json = dict[str, Any]
REMOVE: Mode = "swap-system-message-in-history-and-remove-transfer-tool-messages"


def calls(*named: tuple[str, str], arguments: str = "{}") -> Json:
    """A message of the assistant that calls tools, each an id and a name."""
    made = [{"id": id, "type": "function", "function": {"name": name, "arguments": arguments}} for id, name in named]
    return {"role": "assistant", "content": None, "tool_calls": made}


def result(id: str = "t1") -> Json:
    return {"role": "tool", "tool_call_id": id, "content": "ok"}


def take(store: Store, *messages: Json, tools: TransferTools | None) -> list[Event]:
    document = {"id": "c", "messages": [{"role": "user", "content": "hi"}, *messages]}
    import_file(store, "f.json", json.dumps(document).encode(), None, tools=tools)
    return list(store.events("c"))


def destination(name: str, arguments: str = "{}", tools: TransferTools | None = None) -> str | None:
    """To whom the only transfer of a document hands over, in which a tool was called and answered."""
    with Store(":memory:") as store:
        called = calls(("t1", name), arguments=arguments)
        events = take(store, called, result(), tools=tools or TransferTools())
        found = [event.body["to"] for event in events if event.type == "transfer"]
        assert len(found) <= 1
        return found[0] if found else None


# Which calls are transfers.


@pytest.mark.parametrize(
    ("name", "to"),
    [
        ("transfer_to_billing", "billing"),
        ("transfer_to_human_agents", "human_agents"),
        ("handoff_to_Ada-2", "Ada-2"),
        ("transfer_to_transfer_to_b", "transfer_to_b"),
        ("transfer_to_", None),
        ("transfer", None),
        ("my_transfer_to_billing", None),
        ("transfercall", None),
        ("transferCalls", None),
        ("get_user_details", None),
    ],
)
def test_the_default_patterns(name: str, to: str | None) -> None:
    """`transfer_to_X` and `handoff_to_X` are transfers to X; other tools are none."""
    assert destination(name) == to


@pytest.mark.parametrize(
    ("arguments", "to"),
    [
        ('{"destination": "billing"}', "billing"),
        ('{"destination": " billing "}', "billing"),
        ('{"destination": {"type": "assistant", "assistantName": "billing"}}', "billing"),
        ('{"destination": {"type": "number", "number": "+4930123456"}}', "+4930123456"),
        ('{"reason": "angry", "destination": "billing"}', "billing"),
        ("{}", "transferCall"),
    ],
)
def test_transfer_call_names_its_destination(arguments: str, to: str) -> None:
    """`transferCall` hands over to its `destination` argument, and to its own name if it has none."""
    assert destination("transferCall", arguments) == to


@pytest.mark.parametrize(
    ("patterns", "name", "arguments", "to"),
    [
        (["escalate"], "escalate", '{"destination": "boss"}', "boss"),
        (["escalate"], "escalate", "{}", "escalate"),
        (["escalate"], "escalate_now", "{}", None),
        (["escalate"], "transfer_to_billing", "{}", None),
        (["escalate"], "transferCall", '{"destination": "boss"}', None),
        (["route_*_now"], "route_sales_now", "{}", "sales"),
        (["route_*_now"], "route_sales", "{}", None),
        (["escalate", "route_*"], "route_sales", "{}", "sales"),
        (["transfer_to_billing"], "transfer_to_billing", "{}", "billing"),
        (["transfer_to_billing"], "transfer_to_sales", "{}", None),
        (["a.b"], "axb", "{}", None),
        (["a.b"], "a.b", "{}", "a.b"),
        (["*"], "anything", "{}", "anything"),
    ],
)
def test_patterns_of_ones_own(patterns: list[str], name: str, arguments: str, to: str | None) -> None:
    """Given patterns replace the default ones: an exact name, or a `*` that stands for the destination."""
    assert destination(name, arguments, TransferTools(patterns)) == to


@pytest.mark.parametrize(
    ("options", "to"),
    [
        ([], ["b"]),
        (["--transfer-tool=escalate"], ["escalate"]),
        (["--transfer-tool=escalate", "--transfer-tool=transfer_to_*"], ["b", "escalate"]),
        (["--no-transfers"], []),
        (["--no-transfers", "--transfer-tool=escalate"], []),
    ],
)
def test_the_command_s_options(tmp_path: Path, options: list[str], to: list[str]) -> None:
    """`--transfer-tool` replaces the default patterns and can be repeated, `--no-transfers` turns inference off."""
    messages = [calls(("t1", "transfer_to_b")), result("t1"), calls(("t2", "escalate")), result("t2")]
    document = json.dumps({"id": "c", "messages": messages})
    db = f"--db={tmp_path / 'turnlog.db'}"
    assert CliRunner().invoke(main, [db, "import", "-", *options], input=document).exit_code == 0
    told = CliRunner().invoke(main, [db, "handoffs", "c", "--json"])
    assert [handoff["to"] for handoff in json.loads(told.stdout)] == to


# Where they stand.


def test_a_transfer_follows_its_result(store: Store) -> None:
    """A transfer stands right after the result of its call, with that call's id, in its scope, marked inferred."""
    events = take(
        store, calls(("t1", "transfer_to_b")), result(), {"role": "user", "content": "?"}, tools=TransferTools()
    )
    assert [event.type for event in events] == ["message", "message", "message", "transfer", "message"]
    transfer = events[3]
    assert transfer.scope == "chat"
    assert transfer.body == {"to": "b", "tool_call_id": "t1", "inferred": True}


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        ([calls(("t1", "transfer_to_b"))], []),
        ([result()], []),
        ([result(), calls(("t1", "transfer_to_b"))], []),
        ([calls(("t1", "transfer_to_b")), result("t2")], []),
        ([calls(("t1", "transfer_to_b")), result(), result()], [("t1", "b", 4)]),
        ([calls(("t1", "f"), ("t2", "transfer_to_b")), result("t1"), result("t2")], [("t2", "b", 5)]),
        ([calls(("t1", "f"), ("t2", "transfer_to_b")), result("t2"), result("t1")], [("t2", "b", 4)]),
        (
            [calls(("t1", "transfer_to_a"), ("t2", "transfer_to_b")), result("t1"), result("t2")],
            [("t1", "a", 4), ("t2", "b", 6)],
        ),
        (
            [calls(("t1", "transfer_to_a")), result(), calls(("t1", "transfer_to_b")), result()],
            [("t1", "a", 4), ("t1", "b", 7)],
        ),
        ([calls(("t1", "transfer_to_a")), calls(("t1", "f")), result()], []),
        ([calls(("t1", "f")), calls(("t1", "transfer_to_b")), result()], [("t1", "b", 5)]),
        ([calls(("t1", "transfer_to_b")), calls(("t1", "f")), result(), result()], [("t1", "b", 6)]),
    ],
    ids=[
        "unanswered",
        "orphan",
        "answered before it was called",
        "another answered",
        "answered twice",
        "with another",
        "out of turn",
        "two at once",
        "an id again",
        "the nearest is none",
        "the nearest is one",
        "the second result",
    ],
)
def test_a_transfer_needs_the_result_of_its_call(
    store: Store, messages: list[Json], expected: list[tuple[str, str, int]]
) -> None:
    """A call hands over once it is answered, by the result that answers it as rule 7 pairs them, and once only."""
    events = take(store, *messages, tools=TransferTools())
    found = [event for event in events if event.type == "transfer"]
    assert [(event.body["tool_call_id"], event.body["to"], event.version) for event in found] == expected


def test_a_function_call_is_a_call(store: Store) -> None:
    """The deprecated form of a call hands over too, after its function's result."""
    called = {"role": "assistant", "content": None, "function_call": {"name": "transfer_to_b", "arguments": "{}"}}
    *_, answer, transfer = take(
        store, called, {"role": "function", "name": "transfer_to_b", "content": "ok"}, tools=TransferTools()
    )
    assert (transfer.type, transfer.body["to"]) == ("transfer", "b")
    assert transfer.body["tool_call_id"] == answer.body["tool_call_id"]


# What a model may write.

ODD = {
    "no JSON": "billing",
    "cut JSON": '{"destination": "bil',
    "empty": "",
    "a list": '["billing"]',
    "a text": '"billing"',
    "null": "null",
    "a number": '{"destination": 5}',
    "nothing": '{"destination": null}',
    "blank": '{"destination": " \\n "}',
    "an empty object": '{"destination": {}}',
    "an object of numbers": '{"destination": {"name": 5}}',
    "endless": "[" * 100_000,
    "a long number": '{"destination": 1' + "0" * 5000 + "}",
}


@pytest.mark.parametrize("arguments", ODD.values(), ids=ODD)
def test_arguments_that_name_nobody(arguments: str) -> None:
    """Arguments that are no JSON or name no destination break no import: the tool's own name stands for it."""
    assert destination("transferCall", arguments) == "transferCall"


@pytest.mark.parametrize(
    ("written", "to"),
    [
        ("bil\x00ling\x1b[31m\n", "billing[31m"),
        ("\u202ebilling\u200b", "billing"),
        ("\ud800billing", "billing"),
        ("x" * 300, "x" * 200),
        ("Kundenbetreuung für Ä 日本", "Kundenbetreuung für Ä 日本"),
    ],
    ids=["control characters", "bidirectional", "lone surrogate", "long", "words"],
)
def test_a_destination_becomes_a_name(written: str, to: str) -> None:
    """What no assistant may be called is left out of a destination that a model wrote."""
    assert destination("transferCall", json.dumps({"destination": written})) == to


@pytest.mark.parametrize("written", ["\x00", "\ud800", "\u200b"])
def test_a_destination_of_nothing_that_shows(written: str) -> None:
    """A destination of which nothing is left still hands over to somebody."""
    assert destination("transferCall", json.dumps({"destination": written}))


@settings(max_examples=50, deadline=None)
@given(written=st.text(min_size=1), name=st.sampled_from(("transferCall", "transfer_to_*", "route")))
def test_no_destination_breaks_an_import(written: str, name: str) -> None:
    """Whatever a model wrote as a destination, or as a tool's name, the document is imported."""
    tool = name.replace("*", "".join(filter(str.isprintable, written))[:100] or "b")
    to = destination(
        tool, json.dumps({"destination": written}), TransferTools(["transferCall", "transfer_to_*", "route"])
    )
    assert to is not None
    assert 1 <= len(to) <= 200


# What they are for.


def test_the_airline_s_handoffs(store: Store) -> None:
    """Two of the real conversations hand over to human agents, after the tool said so; the others to nobody."""
    import_file(store, "airline.jsonl", AIRLINE.read_bytes(), "airline", tools=TransferTools())
    found = {each.conversation: handoffs(store, each.uuid) for each in store.conversations()}
    transfers = {name: [(handoff.to, handoff.inferred) for handoff in each] for name, each in found.items() if each}
    assert transfers == {"airline-4": [("human_agents", True)], "airline-18": [("human_agents", True)]}
    for name in transfers:
        (transfer,) = store.events(str(name), types=["transfer"])
        answer = store.event(str(name), transfer.version - 1)
        assert answer.body["role"] == "tool"
        assert answer.body["tool_call_id"] == transfer.body["tool_call_id"]


def test_an_inferred_transfer_projects_like_any_other(store: Store) -> None:
    """What if it had removed its tool messages? The call and its result are hidden by the inferred transfer."""
    take(store, calls(("t1", "transfer_to_b")), result(), tools=TransferTools())
    view = seen(store, "c", mode=REMOVE)
    assert [message.content for message in view.messages] == ["hi"]
    assert [(hidden.version, hidden.by) for hidden in view.hidden] == [(2, 4), (3, 4)]
    assert view.assistant == "b"


def test_the_same_file_again_adds_no_transfer(store: Store) -> None:
    """Inferred transfers are compared like the rest of a file: imported again, they are there already."""
    messages = [calls(("t1", "transfer_to_b")), result()]
    before = len(take(store, *messages, tools=TransferTools()))
    assert len(take(store, *messages, tools=TransferTools())) == before


def test_a_result_that_comes_later(store: Store) -> None:
    """A file that ended in the call gets its transfer when it has grown by the result."""
    called = calls(("t1", "transfer_to_b"))
    assert [event.type for event in take(store, called, tools=TransferTools())] == ["message", "message"]
    grown = take(store, called, result(), tools=TransferTools())
    assert [event.type for event in grown] == ["message", "message", "message", "transfer"]
