"""Session documents: one history a scope, and every key comes back (DESIGN section 8)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

from turnlog.cli import main
from turnlog.formats import chatcli
from turnlog.formats import log as events_format
from turnlog.formats.document import BrokenFile
from turnlog.formats.transfers import TransferTools
from turnlog.importing import Diverged, Imported, import_file
from turnlog.projections import describe, history, timeline
from turnlog.projections.compaction import compact
from turnlog.projections.compaction.digest import DigestCompressor
from turnlog.store import Store, Summary

Json = dict[str, Any]
DATA = Path(__file__).parent / "data"
V2: Json = json.loads((DATA / "session_v2.json").read_bytes())
LEGACY: list[Json] = json.loads((DATA / "session_legacy.json").read_bytes())
SCOPES = {"chat": "chat_history", "agent": "agent_history", "coder": "coder_history", "shared_memory": "shared_memory"}
USER = {"role": "user", "content": "hi"}
REPLY = {"role": "assistant", "content": "Hello.", "meta": {"mode": "chat"}}
SUMMARY = {"role": "user", "content": "They met.", "meta": {"is_summary": True, "summary_of": 14}}
SYSTEM = {"role": "system", "content": "You help."}
ODDLY: list[Any] = [False, None, 1, "true", []]
RESULT = {"role": "tool", "tool_call_id": "t1", "content": "ok"}


def session(**scopes: Any) -> Json:
    """A document of version 2; scopes that are not given are empty."""
    return {"version": 2} | {key: scopes.pop(key, []) for key in SCOPES.values()} | scopes


def take(store: Store, document: Any, **options: Any) -> Imported:
    """Import a document as conversation `c`."""
    (imported,) = import_file(store, "s.json", json.dumps(document).encode(), "c", **options)
    return imported


def given_back(store: Store, name: str = "c") -> Json:
    """The session document of a conversation as an export writes it."""
    document = chatcli.write(lambda scope: timeline(store, name, scope).held(), describe(store, name))
    decoded: Json = json.loads(msgspec.json.encode(document))
    return decoded


def said(store: Store, scope: str) -> list[tuple[str, str, Any]]:
    return [(message.role, message.origin, message.content) for message in history(store, "c", scope)]


def written(store: Store) -> list[tuple[str, str | None, Json]]:
    return [(event.type, event.scope, event.body) for event in store.events("c")]


# Nothing is lost.


@pytest.mark.parametrize(("file", "document"), [("session_v2", V2), ("session_legacy", session(chat_history=LEGACY))])
def test_a_session_file_comes_back(tmp_path: Path, file: str, document: Json) -> None:
    """Import then `export --format chatcli` gives an equal document, of a legacy file as version 2."""
    db = f"--db={tmp_path / 'turnlog.db'}"
    for added in (True, False):
        imported = CliRunner().invoke(main, [db, "import", "--json", str(DATA / f"{file}.json")])
        (told,) = json.loads(imported.stdout)
        assert (told["conversation"], told["added"] > 0, told["present"] > 0) == (file, added, not added)
    exported = CliRunner().invoke(main, [db, "export", file, "--format=chatcli"])
    assert json.loads(exported.stdout) == document


@pytest.mark.parametrize("format", ["chatcli", None])
@pytest.mark.parametrize("messages", [LEGACY, [SYSTEM, USER], [SYSTEM, USER, REPLY], [SUMMARY, USER]])
def test_a_legacy_document_grows_up(store: Store, format: str | None, messages: list[Json]) -> None:
    """A legacy document is the chat history, and as version 2 the same document: it adds nothing."""
    first = take(store, messages, format=format)
    document = given_back(store)
    assert document == session(chat_history=messages)
    assert take(store, document) == Imported("c", 0, first.added)


def test_one_history_a_scope(store: Store) -> None:
    """Each list is the history of its scope; shared memory is seen in all, after what was there before it."""
    take(store, V2)
    shared = ("assistant", "summary", "[agent] The user wants a --json flag; plan has three steps.")
    assert said(store, "chat") == [
        ("system", "prompt", "You are a terse assistant."),
        ("user", "message", "What does this repository do?"),
        ("assistant", "message", "It parses log files."),
        ("user", "summary", "Earlier we agreed on UTF-8 only; 14 messages about encodings."),
        ("user", "message", "Add a --json flag."),
        shared,
    ]
    assert [origin for _, origin, _ in said(store, "agent")] == ["prompt", "message", "message", "summary"]
    assert [role for role, _, _ in said(store, "coder")] == ["user", "assistant", "tool", "assistant", "assistant"]
    assert said(store, "shared_memory") == [shared]
    assert {scope: history(store, "c", scope).assistant for scope in SCOPES} == {
        "chat": "assistant",
        "agent": "assistant",
        "coder": None,
        "shared_memory": None,
    }


def test_a_summary_is_one_of_older_messages(store: Store) -> None:
    """`meta.is_summary` becomes a `summary` event without a range, which counts what the document says."""
    take(store, V2)
    summaries = [body for type, _, body in written(store) if type == "summary"]
    assert [(body["role"], body["summary_of"], "first" in body) for body in summaries] == [
        ("user", 14, False),
        ("assistant", 2, False),
    ]


@pytest.mark.parametrize("meta", [*({"is_summary": odd} for odd in ODDLY), {"summary_of": 3}, {}, None], ids=json.dumps)
def test_what_does_not_say_that_it_is_a_summary_is_none(store: Store, meta: Any) -> None:
    """Only `is_summary: true` makes a summary; whatever else `meta` says is kept with the message."""
    document = session(chat_history=[USER | {"meta": meta}])
    take(store, document)
    assert [origin for _, origin, _ in said(store, "chat")] == ["message"]
    assert given_back(store) == document


@pytest.mark.parametrize("count", [-1, True, "14", 2.5, None], ids=json.dumps)
def test_a_summary_of_an_odd_count(store: Store, count: Any) -> None:
    """A summary whose count is no number of messages counts as one, and the odd count comes back."""
    document = session(coder_history=[SUMMARY | {"meta": {"is_summary": True, "summary_of": count}}])
    take(store, document)
    assert history(store, "c", "coder").messages[0].summary_of == 1
    assert given_back(store) == document


CALLS = [{"id": "t1", "type": "function", "function": {"name": "f", "arguments": "{}"}, "index": 0}]
ODD: dict[str, Json] = {
    "a title": session(chat_history=[USER], title="Flags"),
    "a key like a format's": session(chat_history=[USER], messages=[USER], events=[], id="s1"),
    "no scope but one": {"version": 2, "coder_history": [USER]},
    "a summary of parts": session(chat_history=[SUMMARY | {"content": [{"type": "text", "text": "a"}, {"type": "x"}]}]),
    "a summary without text": session(chat_history=[SUMMARY | {"content": None}]),
    "a summary with a name": session(chat_history=[SUMMARY | {"name": "Ada", "mood": "glad"}]),
    "a summary with calls": session(chat_history=[SUMMARY | {"role": "assistant", "tool_calls": CALLS}]),
    "a summary with a function": session(
        chat_history=[SUMMARY | {"role": "assistant", "function_call": CALLS[0]["function"]}]
    ),
    "a summary by a developer": session(chat_history=[SUMMARY | {"role": "developer"}]),
    "a summary by the system": session(chat_history=[SUMMARY | {"role": "system"}, USER]),
    "a prompt with meta": session(agent_history=[SYSTEM | {"meta": {"mode": "agent"}, "system_parts": [1]}]),
    "a prompt with calls": session(agent_history=[SYSTEM | {"tool_calls": CALLS}]),
    "a prompt in shared memory": session(shared_memory=[SYSTEM, USER]),
    "an image beside the text": session(chat_history=[USER | {"images": [{"data": "…"}]}]),
    "a refusal alone": session(chat_history=[{"role": "assistant", "refusal": "no"}]),
    "a failed result": session(coder_history=[RESULT | {"content": "", "is_error": True}]),
}


@pytest.mark.parametrize("document", ODD.values(), ids=ODD)
def test_an_odd_document_comes_back(store: Store, document: Json) -> None:
    """All keys are kept, those of the document, of a message and of its `meta`; the same again adds nothing."""
    added = take(store, document).added
    assert given_back(store) == document
    assert take(store, document) == Imported("c", 0, added)


@pytest.mark.parametrize("scope", SCOPES)
def test_transfers_are_inferred_in_scopes_that_have_them(store: Store, scope: str) -> None:
    """A call of a transfer tool is followed by a transfer in its scope; shared memory has none, and loses nothing."""
    calling = {
        "role": "assistant",
        "content": None,
        "tool_calls": [CALLS[0] | {"function": {"name": "transfer_to_b", "arguments": "{}"}}],
    }
    document = session(
        **{SCOPES[scope]: [USER, calling, {"role": "tool", "tool_call_id": "t1", "content": "ok"}, USER]}
    )
    take(store, document, tools=TransferTools())
    transfers = [(type, where) for type, where, _ in written(store) if type == "transfer"]
    assert transfers == ([] if scope == "shared_memory" else [("transfer", scope)])
    assert given_back(store) == document


# Safe to repeat.


def test_a_session_that_has_grown_adds_what_is_new(store: Store) -> None:
    """The same session twice adds nothing; one that has grown, in any scope, adds what is new."""
    total = sum(len(V2[key]) for key in SCOPES.values())
    assert take(store, V2) == Imported("c", total, 0)
    assert take(store, V2) == Imported("c", 0, total)
    grown = V2 | {key: [*V2[key], USER] for key in SCOPES.values()} | {"title": "Flags"}
    assert take(store, grown) == Imported("c", 5, total)
    assert given_back(store) == grown
    assert take(store, V2) == Imported("c", 0, total)


def test_a_session_that_differs_is_refused(store: Store) -> None:
    """A session whose earlier part differs is refused, the first difference named; `rewind` goes on in that scope."""
    take(store, V2)
    before = written(store)
    other = V2 | {"agent_history": [*V2["agent_history"][:1], USER, REPLY]}
    with pytest.raises(Diverged) as refused:
        take(store, other)
    assert (refused.value.file, refused.value.place, refused.value.version) == ("s.json", "agent_history.1", 7)
    assert refused.value.difference.startswith("content: ")
    assert written(store) == before
    assert take(store, other, diverged="rewind") == Imported("c", 2, 11, 6)
    assert given_back(store) == other
    assert take(store, other) == Imported("c", 0, 13)


def test_a_summary_that_a_tool_wrote_is_a_difference(store: Store) -> None:
    """A session that its tool has compacted differs where the summary stands, and `rewind` takes it."""
    take(store, session(chat_history=[SYSTEM, USER, REPLY, USER]))
    compacted = session(chat_history=[SYSTEM, SUMMARY, USER])
    with pytest.raises(Diverged) as refused:
        take(store, compacted)
    assert (refused.value.place, refused.value.version) == ("chat_history.1", 2)
    assert take(store, compacted, diverged="rewind") == Imported("c", 2, 1, 1)
    assert given_back(store) == compacted


# Summaries of our own.


def test_a_compaction_is_exported_with_meta(store: Store) -> None:
    """A compaction is exported as a summary of its count, and the session that was imported still compares."""
    document = session(chat_history=[SYSTEM, USER, REPLY, SUMMARY, USER, REPLY], agent_history=[USER])
    added = take(store, document).added
    compacted = compact(store, "c", "chat", DigestCompressor(), 1)
    assert compacted is not None
    shorter = given_back(store)
    meta = {"is_summary": True, "summary_of": 16, "mode": "chat"}
    assert shorter == document | {
        "chat_history": [SYSTEM, {"role": "user", "content": compacted.text, "meta": meta}, USER, REPLY]
    }
    assert take(store, document) == Imported("c", 0, added)
    assert take(store, document | {"coder_history": [USER]}) == Imported("c", 1, added)
    take(store, shorter, conversation="d")
    assert given_back(store, "d") == shorter
    with pytest.raises(Diverged) as refused:
        take(store, shorter)
    assert refused.value.place == "chat_history.1"


def test_a_redacted_compaction_is_no_difference(store: Store) -> None:
    """A compaction that was redacted is still none of the session's own messages."""
    document = session(chat_history=[USER, REPLY, USER])
    take(store, document)
    compact(store, "c", "chat", DigestCompressor(), 1)
    store.redact("c", [4], reason="asked for")
    assert given_back(store)["chat_history"][0]["content"] == "[redacted]"
    assert take(store, document) == Imported("c", 0, 3)
    assert take(store, session(chat_history=[USER, REPLY, USER, REPLY])) == Imported("c", 1, 3)


def test_a_summary_with_meta_of_its_own(store: Store) -> None:
    """A summary is exported as one whatever else its `meta` says: it is known by its type."""
    store.append("c", [Summary(text="They met.", summary_of=3, meta={"by": "Ada"})])
    (message,) = given_back(store)["chat_history"]
    assert message["meta"] == {"by": "Ada", "is_summary": True, "summary_of": 3, "mode": "chat"}


def test_shared_memory_is_written_under_its_own_key(store: Store) -> None:
    """What every scope sees of shared memory is written once."""
    document = session(chat_history=[USER], shared_memory=[REPLY, SUMMARY])
    take(store, document)
    assert len(history(store, "c")) == 3
    assert given_back(store) == document


# What is broken, and what it is.


def encode(document: Any) -> bytes:
    return json.dumps(document).encode()


def broken(**message: Any) -> bytes:
    """A document whose second message in the coder's history is this."""
    return encode(session(coder_history=[USER, message]))


BROKEN: dict[str, tuple[bytes, str, str, object]] = {
    "an empty object": (b"{}", "", "version", None),
    "no version": (encode({"chat_history": [USER]}), "", "version", None),
    "version 1": (encode(session() | {"version": 1}), "", "version", 1),
    "version 1 without a history": (b'{"version": 1}', "", "version", 1),
    "version 3": (encode(session(chat_history=[USER]) | {"version": 3}), "", "version", 3),
    "version 0": (encode(session() | {"version": 0}), "", "version", 0),
    "version true": (encode(session() | {"version": True}), "", "version", True),
    "version in words": (encode(session() | {"version": "2"}), "", "version", "2"),
    "version with a point": (encode(session(chat_history=[USER]) | {"version": 2.0}), "", "version", 2.0),
    "truncated": (b'{"version": 2,\n"chat_history": [', "line 2, column 18", "", ""),
    "a scope that is no list": (encode(session(agent_history={"0": USER})), "", "agent_history", {"0": USER}),
    "a scope that is a text": (encode(session(shared_memory="hi")), "", "shared_memory", "hi"),
    "a message that is none": (encode(session(chat_history=[USER, 5])), "", "chat_history.1", 5),
    "a message without role": (broken(content="x"), "", "coder_history.1.role", None),
    "an unknown role": (broken(role="bot", content="x"), "", "coder_history.1.role", "bot"),
    "a message that says nothing": (broken(role="user"), "", "coder_history.1", {"role": "user"}),
    "a result of no call": (broken(role="tool", content="x"), "coder_history.1", "tool_call_id", None),
    "a content that is a number": (broken(role="user", content=5), "", "coder_history.1.content", 5),
    "a meta that is a list": (broken(role="user", content="x", meta=[]), "", "coder_history.1.meta", []),
    "a legacy message without role": (encode([REPLY, {"content": "x"}]), "", "chat_history.1.role", None),
}


@pytest.mark.parametrize(("data", "place", "field", "value"), BROKEN.values(), ids=BROKEN)
def test_a_broken_session_says_where(store: Store, data: bytes, place: str, field: str, value: object) -> None:
    """A broken session document imports nothing and names the place in the file and what was found there."""
    with pytest.raises(BrokenFile) as refused:
        import_file(store, "s.json", data, "c")
    error = refused.value
    assert (error.file, error.place, error.field) == ("s.json", place, field)
    assert (type(error.value), error.value) == (type(value), value)
    assert store.conversations() == []


def test_a_session_cut_short_is_refused(store: Store) -> None:
    """Wherever a session file breaks off, nothing of it is imported, and the line is named."""
    data = (DATA / "session_v2.json").read_bytes()
    for size in range(1, len(data)):
        with pytest.raises(BrokenFile, match="is not JSON") as refused:
            import_file(store, "s.json", data[:size], "c")
        assert refused.value.place.startswith("line ")
    assert store.conversations() == []


@pytest.mark.parametrize(("version", "why"), [(3, "newer"), (1, "no version"), (None, "is missing")])
def test_a_version_is_refused_by_name(store: Store, version: int | None, why: str) -> None:
    """A version that this build does not read is refused as newer, as none, or as missing."""
    with pytest.raises(BrokenFile, match=why):
        take(store, session(chat_history=[USER]) | {"version": version})


RECOGNISED: dict[str, tuple[Any, str]] = {
    "a session": (V2, "chatcli"),
    "a session without lists": (session(), "chatcli"),
    "a session of a type": (session(chat_history=[USER], type="session"), "chatcli"),
    "a session with messages": (session(chat_history=[USER], messages=[]), "chatcli"),
    "a list with meta": ([USER, REPLY], "chatcli"),
    "a list of messages": ([USER, {"role": "assistant", "content": "Hello."}], "openai"),
    "a document of messages": ({"id": "c", "messages": [USER, REPLY]}, "openai"),
    "a document of messages and a version": ({"version": 2, "messages": [SYSTEM, USER, REPLY]}, "openai"),
    "an event": ({"type": "message", "scope": "agent", "meta": {}, **USER}, "events"),
    "an event with a version": ({"type": "message", "version": 1, "conversation": "c", **USER}, "events"),
    "a list of events": ([{"type": "message", "meta": {}, **USER}], "events"),
}


@pytest.mark.parametrize(("document", "format"), RECOGNISED.values(), ids=RECOGNISED)
def test_the_format_is_told_from_content(store: Store, document: Any, format: str) -> None:
    """Session documents, chat messages and events are told apart by what they hold."""
    take(store, document)
    with Store(":memory:") as told:
        take(told, document, format=format)
        assert [each.conversation for each in store.conversations()] == [
            each.conversation for each in told.conversations()
        ]
        if told.conversations():
            assert written(store) == written(told)


def test_an_export_of_events_is_no_session(store: Store) -> None:
    """A conversation exported as events is restored as events, though each has a version and some have meta."""
    take(store, V2)
    data = "\n".join(events_format.write(store, "c")).encode()
    with Store(":memory:") as other:
        import_file(other, "c.jsonl", data, "c")
        assert written(other) == written(store)
