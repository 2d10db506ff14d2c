"""OpenAI chat documents: what is imported is exported again, to the last key (DESIGN section 8)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st
from views import seen

from turnlog.cli import main
from turnlog.formats import openai
from turnlog.formats.transfers import TransferTools
from turnlog.importing import Imported, import_file
from turnlog.projections import describe, timeline
from turnlog.store import Event, Redaction, Store, Transfer, TransferContext
from turnlog.store.events import Mode

AIRLINE = Path(__file__).parent / "data" / "airline.jsonl"
Json = dict[str, Any]
REMOVE: Mode = "swap-system-message-in-history-and-remove-transfer-tool-messages"


def take(store: Store, document: Any, tools: TransferTools | None = None) -> list[Event]:
    """Import a document; its events."""
    (imported,) = import_file(store, "f.json", json.dumps(document).encode(), "c", tools=tools)
    return list(store.events(imported.conversation))


def given_back(store: Store, **view: Any) -> Json:
    """The document of the conversation `c` as an export writes it."""
    line = timeline(store, "c", view.get("scope", "chat"))
    document = openai.write("c", line, view.get("at"), describe(store, "c"))
    decoded: Json = json.loads(msgspec.json.encode(document))
    return decoded


def exact(document: Any) -> str:
    """A document as text in which 1, 1.0 and true differ, and the order of keys does not count."""
    return json.dumps(document, sort_keys=True)


def chat(*messages: Json, **more: Any) -> Json:
    return {"id": "c", "messages": list(messages), **more}


def call(id: str = "t1", name: str = "f", arguments: Any = "{}", **more: Any) -> Json:
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}, **more}


USER = {"role": "user", "content": "hi"}
RESULT = {"role": "tool", "tool_call_id": "t1", "content": "ok"}
CALLED = {"role": "assistant", "content": None, "tool_calls": [call()]}
FUNCTION_CALL = {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}}
TOOLS = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}, "strict": True}]


# Nothing is lost.


def test_every_airline_conversation_comes_back(tmp_path: Path) -> None:
    """Import then `export --format openai` gives every real conversation as its file had it."""
    db = f"--db={tmp_path / 'turnlog.db'}"
    assert CliRunner().invoke(main, [db, "import", str(AIRLINE)]).exit_code == 0
    for line in AIRLINE.read_text(encoding="utf-8").splitlines():
        document = json.loads(line)
        exported = CliRunner().invoke(main, [db, "export", document["id"], "--format=openai"])
        assert exact(json.loads(exported.stdout)) == exact(document)


NOTED = st.text(min_size=1, max_size=3).map("_".__add__) | st.sampled_from(
    ("type", "id", "scope", "v", "extra", "body")
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=2), inner, max_size=2),
    max_leaves=3,
)
MORE = st.dictionaries(NOTED, VALUES, max_size=2)
CALL_IDS = st.sampled_from(("t1", "t2"))
NAMES = st.sampled_from(("f", "transfer_to_b", "transferCall"))
ARGUMENTS = st.sampled_from(("{}", '{"destination": "b"}', "{", "")) | st.text(max_size=4)
PARTS = st.lists(
    st.sampled_from(({"type": "text", "text": ""}, {"type": "refusal", "refusal": "no"}, {"type": "image_url"}))
    | st.fixed_dictionaries({"type": st.just("text"), "text": st.text(max_size=3)}, optional={"_cache": VALUES}),
    max_size=3,
)
CONTENTS = st.none() | st.just("") | st.text(max_size=4) | PARTS


def plus(known: st.SearchStrategy[Json], unknown: st.SearchStrategy[Json] = MORE) -> st.SearchStrategy[Json]:
    """Objects with keys that the format does not know; those that it knows go before."""
    return st.builds(lambda more, fields: {**more, **fields}, unknown, known)


FUNCTIONS = plus(st.fixed_dictionaries({"name": NAMES, "arguments": ARGUMENTS | st.dictionaries(st.text(), VALUES)}))
CUSTOM = plus(st.fixed_dictionaries({"name": NAMES, "input": st.text(max_size=3)}))
CALLS = plus(
    st.fixed_dictionaries({"id": CALL_IDS, "function": FUNCTIONS}, optional={"type": st.just("function")})
    | st.fixed_dictionaries({"id": CALL_IDS, "custom": CUSTOM}, optional={"type": st.just("custom")}),
    st.dictionaries(st.just("index"), VALUES),
)
NAME = st.none() | st.sampled_from(("Ada", "é"))
SPOKEN: st.SearchStrategy[Json] = st.fixed_dictionaries(
    {"role": st.sampled_from(("system", "developer", "user", "assistant")), "content": CONTENTS},
    optional={"name": NAME, "refusal": st.none() | st.text(max_size=2), "tool_calls": st.none() | st.just([])},
)
CALLING = st.fixed_dictionaries(
    {"role": st.just("assistant"), "tool_calls": st.lists(CALLS, min_size=1, max_size=3)},
    optional={"content": CONTENTS, "name": NAME, "function_call": st.none() | FUNCTIONS},
)
CALLING_BEFORE = st.fixed_dictionaries(
    {"role": st.just("assistant"), "function_call": FUNCTIONS},
    optional={"content": CONTENTS, "tool_calls": st.none() | st.just([])},
)
ANSWERS = st.fixed_dictionaries(
    {"role": st.just("tool"), "tool_call_id": CALL_IDS}, optional={"content": CONTENTS, "name": NAME}
)
ANSWERS_BEFORE = st.fixed_dictionaries({"role": st.just("function"), "content": CONTENTS}, optional={"name": NAMES})
MESSAGES = st.lists(plus(st.one_of(SPOKEN, SPOKEN, CALLING, CALLING_BEFORE, ANSWERS, ANSWERS_BEFORE)), max_size=6)
DOCUMENTS = plus(
    st.fixed_dictionaries(
        {"id": st.just("c"), "messages": MESSAGES.filter(bool)},
        optional={
            "tools": st.sampled_from((TOOLS, [])) | st.none(),
            "model": st.sampled_from(("gpt-4o", "")) | st.none(),
            "metadata": st.none() | st.dictionaries(st.text(max_size=2), VALUES, max_size=2),
        },
    ),
    st.dictionaries(st.text(min_size=1, max_size=3).map("_".__add__), VALUES, max_size=2),
)


@settings(max_examples=200, deadline=None)
@given(document=DOCUMENTS, infer=st.booleans())
def test_any_document_comes_back(document: Json, infer: bool) -> None:
    """Import then export gives an equal document, whatever its messages hold, and the same again adds nothing."""
    tools = TransferTools() if infer else None
    with Store(":memory:") as store:
        events = take(store, document, tools)
        assert exact(given_back(store)) == exact(document)
        assert len(take(store, document, tools)) == len(events)


@pytest.mark.parametrize(
    "document",
    [
        chat(USER, tools=TOOLS, model="gpt-4o", temperature=1.0),
        chat(USER, tools=[]),
        chat(USER, tools=None),
        chat(USER, model=None),
        chat(USER, model=""),
        chat(USER, note=None),
        chat(USER, metadata={"a": None}),
        chat(CALLED | {"function_call": None}, RESULT),
        chat(CALLED | {"refusal": None, "audio": None, "annotations": []}, RESULT),
        chat(CALLED | {"tool_calls": [call(), call("t2"), call()]}, RESULT, RESULT, RESULT | {"tool_call_id": "t9"}),
        chat(CALLED | {"tool_calls": [call(index=0), {"id": "t2", "custom": {"name": "g", "input": "x"}}]}),
        chat(CALLED | {"tool_calls": [call(arguments={"a": 1})]}),
        chat(FUNCTION_CALL, {"role": "function", "name": "f", "content": "ok"}),
        chat(FUNCTION_CALL | {"tool_calls": [call()]}, {"role": "function", "content": None}),
        chat({"role": "assistant", "content": None, "refusal": "no"}),
        chat({"role": "system", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}, USER),
        chat({"role": "user", "content": 'n" \u2028 \x00 😀', "n": [10**30, 1e300, -0.0, 1.0, True]}),
    ],
)
def test_a_document_comes_back(document: Json) -> None:
    """Documents as SDKs write them, with every field null that is not used, come back as they were."""
    with Store(":memory:") as store:
        take(store, document)
        assert exact(given_back(store)) == exact(document)


@pytest.mark.parametrize("more", [{}, {"tools": TOOLS}, {"model": "gpt-4o"}], ids=["plain", "tools", "model"])
@pytest.mark.parametrize("prompt", [[], [{"role": "system", "content": "You help."}]], ids=["no prompt", "prompt"])
def test_a_transfer_inferred_loses_nothing(store: Store, prompt: list[Json], more: Json) -> None:
    """An inferred transfer adds an event to the log and takes nothing from the document."""
    transferring = CALLED | {"tool_calls": [call(name="transfer_to_b")]}
    document = chat(*prompt, USER, transferring, RESULT, **more)
    assert [event.type for event in take(store, document, TransferTools())][-1] == "transfer"
    assert exact(given_back(store)) == exact(document)


def test_results_that_answer_nothing_are_exported(store: Store) -> None:
    """Export writes what is visible before rule 7: results that a view hides are not lost."""
    document = chat(USER, CALLED, RESULT, RESULT, RESULT | {"tool_call_id": "t9"})
    take(store, document)
    assert {hidden.rule for hidden in seen(store, "c").hidden} == {"duplicate-result", "orphan-result"}
    assert given_back(store) == document


def test_a_bare_list(store: Store) -> None:
    """A bare list of messages is a document too, named by its file."""
    take(store, [USER, CALLED, RESULT])
    assert given_back(store) == chat(USER, CALLED, RESULT)


@pytest.mark.parametrize("key", ["version", "type", "conversation", "events"])
def test_an_object_with_messages_is_a_document(store: Store, key: str) -> None:
    """An object with `messages` is an openai document, whatever its other keys are called."""
    document = chat(USER, **{key: 1})
    take(store, document)
    assert given_back(store) == document


# What becomes of it.


@pytest.mark.parametrize("role", ["system", "developer"])
@pytest.mark.parametrize(
    "content", ["You help.", [{"type": "text", "text": "You "}, {"type": "text", "text": "help."}]]
)
def test_a_leading_system_message_is_the_prompt(store: Store, role: str, content: Any) -> None:
    """A leading system message becomes the assistant event's prompt, with the document's tools and model."""
    first, *_ = take(store, chat({"role": role, "content": content}, USER, tools=TOOLS, model="gpt-4o"))
    assert (first.type, first.body["system"], first.body["tools"]) == ("assistant", "You help.", TOOLS)
    view = seen(store, "c")
    assert [(message.role, message.origin) for message in view.messages] == [("system", "prompt"), ("user", "message")]
    assert (view.messages[0].content, view.tools, view.model) == ("You help.", TOOLS, "gpt-4o")


@pytest.mark.parametrize("content", [None, "", [], [{"type": "text", "text": ""}]], ids=repr)
def test_a_leading_system_message_without_text_is_a_note(store: Store, content: Any) -> None:
    """There is no prompt without text: such a message is kept as a note."""
    events = take(store, chat({"role": "system", "content": content}, USER))
    assert [(event.type, event.body["role"]) for event in events] == [("message", "system"), ("message", "user")]


def test_a_later_system_message_is_a_note(store: Store) -> None:
    """Only the message that leads a document is its prompt."""
    note = {"role": "system", "content": "It is late."}
    events = take(store, chat(note, USER, note))
    assert [event.type for event in events] == ["assistant", "message", "message"]
    assert seen(store, "c").messages[-1].origin == "message"


@pytest.mark.parametrize(
    ("message", "role"),
    [
        ({"role": "developer", "content": "x"}, "system"),
        ({"role": "function", "name": "f", "content": "x"}, "tool"),
        ({"role": "user", "content": "x"}, "user"),
    ],
)
def test_deprecated_roles(store: Store, message: Json, role: str) -> None:
    """`developer` and `function` are read as `system` and `tool`, the original word kept in `extra`."""
    event = take(store, chat(USER, message))[-1]
    assert event.body["role"] == role
    assert event.body.get("extra", {}).get("role", role) == message["role"]


def test_a_function_answers_its_call(store: Store) -> None:
    """A function's result answers the `function_call` of its name, though neither has an id."""
    take(store, chat(USER, FUNCTION_CALL, {"role": "function", "name": "f", "content": "ok"}, FUNCTION_CALL))
    view = seen(store, "c")
    assert [problem.rule for problem in view.problems] == ["unanswered-call"]
    assert [message.role for message in view.messages] == ["user", "assistant", "tool", "assistant"]


def test_what_no_field_holds_is_extra(store: Store) -> None:
    """What an importer found and no field holds is in `extra`, and visible with its message."""
    *_, event = take(store, chat(USER, {"role": "assistant", "content": "x", "refusal": None, "logprobs": {"n": 1}}))
    assert event.body["extra"] == {"refusal": None, "logprobs": {"n": 1}}
    assert seen(store, "c").messages[-1].extra == {"refusal": None, "logprobs": {"n": 1}}


# What is hidden stays hidden.


@pytest.mark.parametrize("more", [{}, {"index": 0}], ids=["plain", "unknown key"])
def test_a_removed_call_is_not_exported(store: Store, more: Json) -> None:
    """A call that a transfer removed from its message is in no later export, whatever `extra` kept of it."""
    calling = {"role": "assistant", "content": "Both.", "tool_calls": [call(**more), call("t2", **more)]}
    take(store, chat(USER, calling, RESULT, RESULT | {"tool_call_id": "t2"}))
    store.append("c", [Transfer(to="b", mode=REMOVE, tool_call_id="t1")])
    messages = given_back(store)["messages"]
    assert [each["id"] for message in messages for each in message.get("tool_calls", ())] == ["t2"]
    assert [message["tool_call_id"] for message in messages if message["role"] == "tool"] == ["t2"]


def test_text_only_is_exported_as_text(store: Store) -> None:
    """Where a transfer's context kept the text alone, an export has no call, whatever `extra` kept of it."""
    calling = {"role": "assistant", "content": "Both.", "tool_calls": [call(index=0)]}
    take(store, chat(USER, calling, RESULT))
    store.append("c", [Transfer(to="b", context=TransferContext(type="userAndAssistantMessages"))])
    assert given_back(store)["messages"] == [USER, {"role": "assistant", "content": "Both."}]


def test_a_redacted_message_exports_nothing_it_said(store: Store) -> None:
    """Nothing of a redacted message is exported: not its arguments, not what `extra` kept."""
    secret = {"role": "assistant", "content": "secret", "tool_calls": [call(arguments="secret")], "note": "secret"}
    take(store, chat(USER, secret, RESULT))
    store.append("c", [Redaction(target=2, reason="asked for")])
    assert "secret" not in json.dumps(given_back(store))
    assert given_back(store)["messages"][1]["tool_calls"] == [call(arguments="[redacted]")]


def test_an_export_of_an_earlier_version(store: Store) -> None:
    """A document of a point is what was visible then, and importing it again adds nothing."""
    take(store, chat(USER, CALLED, RESULT))
    earlier = given_back(store, at=2)
    assert earlier == chat(USER, CALLED)
    assert import_file(store, "f", json.dumps(earlier).encode(), None) == [Imported("c", 0, 2)]
