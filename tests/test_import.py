"""Import is lossless and safe to repeat: what is new, what differs, what is broken (DESIGN section 8)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from turnlog.cli import main
from turnlog.formats.document import BrokenFile
from turnlog.importing import Diverged, Imported, import_file
from turnlog.projections import History, describe, history
from turnlog.store import InvalidArgument, Request, Rewind, Store, Summary

AIRLINE = Path(__file__).parent / "data" / "airline.jsonl"


def encode(*values: Any) -> bytes:
    """One value a line, as files have them."""
    return "\n".join(map(json.dumps, values)).encode()


def chat(*texts: str, id: str = "c", **more: Any) -> dict[str, Any]:
    """A document of a user and an assistant who speak in turn."""
    speakers = ("user", "assistant")
    messages = [{"role": speakers[number % 2], "content": text} for number, text in enumerate(texts)]
    return {"id": id, "messages": messages, **more}


def call(id: str = "t1", arguments: str = "{}") -> dict[str, Any]:
    return {"id": id, "type": "function", "function": {"name": "f", "arguments": arguments}}


def take(store: Store, *values: Any, **options: Any) -> list[tuple[int, int, int | None]]:
    """Import values as one file: added, present and where it was rewound to, for each conversation."""
    imported = import_file(store, "f.jsonl", encode(*values), "stem", **options)
    return [(each.added, each.present, each.rewound_to) for each in imported]


def texts(view: History) -> list[Any]:
    return [message.content for message in view.messages]


def heads(store: Store) -> dict[str | None, bytes]:
    """Every conversation's last digest: equal heads are equal logs."""
    return {each.conversation: store.event(each.uuid, each.version).digest for each in store.conversations()}


# What is new.


def test_the_airline_file_twice_adds_nothing(store: Store) -> None:
    """The same file twice adds nothing: every event of 20 real conversations is there already."""
    data = AIRLINE.read_bytes()
    first = import_file(store, "airline.jsonl", data, "airline")
    before = heads(store)
    again = import_file(store, "airline.jsonl", data, "airline")
    assert [each.conversation for each in first] == [f"airline-{number}" for number in range(20)]
    assert again == [Imported(each.conversation, 0, each.added) for each in first]
    assert heads(store) == before


@pytest.mark.parametrize(
    ("then", "outcome", "length"),
    [
        (chat("1", "2", "3", "4"), (2, 2, None), 4),
        (chat("1", "2"), (0, 2, None), 2),
        (chat("1"), (0, 1, None), 2),
        (chat(), (0, 0, None), 2),
        (chat("1", "2", topic="flights"), (1, 2, None), 2),
    ],
    ids=["grown", "same", "shorter", "empty", "metadata"],
)
def test_only_what_is_new_is_added(store: Store, then: Any, outcome: tuple[int, int, int | None], length: int) -> None:
    """A file that has grown adds what is new; the same one, or a shorter one, adds nothing."""
    take(store, chat("1", "2"))
    assert take(store, then) == [outcome]
    assert take(store, then) == [(0, sum(outcome[:2]), None)]
    assert len(history(store, "c")) == length


@pytest.mark.parametrize("value", [None, "", 0, [], {}, {"deep": None}], ids=repr)
def test_metadata_is_described_once(store: Store, value: Any) -> None:
    """Whatever a document's own key holds, null too, the same file again adds nothing."""
    take(store, chat("1", topic=value))
    assert take(store, chat("1", topic=value)) == [(0, 2, None)]


def test_metadata_is_described_key_by_key(store: Store) -> None:
    """A key of the document that changed is described anew, and the latest wins."""
    take(store, chat("1", topic="flights", lang="en"))
    assert take(store, chat("1", topic="hotels", lang="en")) == [(1, 1, None)]
    assert describe(store, "c").metadata == {"topic": "hotels", "lang": "en"}


# What differs.

MESSAGE = {"role": "assistant", "content": "2", "tool_calls": [call()]}
RESULT = {"role": "tool", "tool_call_id": "t1", "content": "ok"}


@pytest.mark.parametrize(
    ("place", "changed", "version", "field"),
    [
        (0, {"role": "system", "content": "You fly."}, 1, "system"),
        (1, {"role": "user", "content": "9"}, 2, "content"),
        (1, {"role": "assistant", "content": "1"}, 2, "role"),
        (1, {"role": "user", "content": "1", "name": "Ada"}, 2, "name"),
        (2, MESSAGE | {"tool_calls": [call(arguments="[]")]}, 3, "tool_calls"),
        (2, MESSAGE | {"mood": "glad"}, 3, "extra"),
        (3, RESULT | {"tool_call_id": "t2"}, 4, "tool_call_id"),
        (0, {"role": "user", "content": "0"}, 1, "type"),
    ],
)
def test_a_difference_is_refused_and_named(store: Store, place: int, changed: Any, version: int, field: str) -> None:
    """A file whose earlier part differs is refused: file, place, version and field of the first difference."""
    messages = [{"role": "system", "content": "You help."}, {"role": "user", "content": "1"}, MESSAGE, RESULT]
    take(store, {"id": "c", "messages": messages})
    before = heads(store)
    other = [*messages[:place], changed, *messages[place + 1 :]]
    with pytest.raises(Diverged) as refused:
        take(store, chat("new", id="d"), {"id": "c", "messages": other}, chat("newer", id="e"))
    error = refused.value
    assert (error.file, error.place, error.conversation) == ("f.jsonl", f"line 2, messages.{place}", "c")
    assert error.version == version
    assert error.difference.startswith(f"{field}: ")
    assert heads(store) == before


def test_diverged_rewind_goes_on(store: Store) -> None:
    """`diverged="rewind"` goes back to the last agreement and on from there, as often as a file diverges."""
    take(store, chat("1", "2", "3"))
    for document, outcome in (
        (chat("1", "X", "3"), (2, 1, 1)),
        (chat("1", "X", "Y", "Z"), (2, 2, 5)),
        (chat("other"), (1, 0, 0)),
    ):
        assert take(store, document, diverged="rewind") == [outcome]
        assert texts(history(store, "c")) == [message["content"] for message in document["messages"]]
        assert take(store, document, diverged="rewind") == [(0, len(document["messages"]), None)]
        assert take(store, document) == [(0, len(document["messages"]), None)]


def test_diverged_rewind_keeps_the_past(store: Store) -> None:
    """What a rewind leaves behind stays in the log and can still be seen at its version."""
    take(store, chat("1", "2", "3"))
    take(store, chat("1", "X"), diverged="rewind")
    assert texts(history(store, "c", at=3)) == ["1", "2", "3"]
    assert [event.type for event in store.events("c")] == ["message", "message", "message", "rewind", "message"]


def test_diverged_rewind_of_events(store: Store) -> None:
    """A file of events that diverged goes on from the last agreement too."""
    take(store, *({"type": "message", "role": "user", "content": text} for text in ("1", "2", "3")))
    diverged = [{"type": "message", "role": "user", "content": text} for text in ("1", "X")]
    assert take(store, *diverged, diverged="rewind") == [(1, 1, 1)]
    assert texts(history(store, "stem")) == ["1", "X"]


@pytest.mark.parametrize(
    "extended",
    [
        [Summary(text="so far", summary_of=2, first=1, last=2)],
        [Request(at=2)],
        [{"type": "x:mark"}],
        [Rewind(to=2)],
        [Rewind(to=0), Rewind(to=2)],
        [{"type": "describe", "title": "a title"}],
        [{"type": "message", "role": "user", "content": "elsewhere", "scope": "agent"}],
    ],
    ids=["summary", "request", "custom", "rewind", "rewinds", "described", "scope"],
)
def test_what_a_file_cannot_hold_is_no_difference(store: Store, extended: list[Any]) -> None:
    """A conversation that went on by other means still compares, and takes what is new in the file."""
    take(store, chat("1", "2"))
    store.append("c", extended)
    assert take(store, chat("1", "2")) == [(0, 2, None)]
    assert take(store, chat("1", "2", "3")) == [(1, 2, None)]
    assert texts(history(store, "c"))[-1] == "3"


def test_what_a_rewind_abandoned_comes_back(store: Store) -> None:
    """The path is compared, not the log: what was abandoned is new to it, once."""
    take(store, chat("1", "2", "3"))
    store.append("c", [Rewind(to=1)])
    assert take(store, chat("1", "2", "3")) == [(2, 1, None)]
    assert take(store, chat("1", "2", "3")) == [(0, 3, None)]


# What is broken.


def said(**message: Any) -> bytes:
    return encode(chat("fine", id="b"), {"id": "c", "messages": [{"role": "user", "content": "1"}, message]})


def event(**fields: Any) -> bytes:
    return encode({"type": "message", "role": "user", "content": "1"}, {"type": "message", "role": "user", **fields})


NESTED: Any = "deep"
for _ in range(70):
    NESTED = [NESTED]

BROKEN: dict[str, tuple[bytes, str, str]] = {
    "bad JSON": (encode(chat("1"), chat("1", id="d")) + b"\n{oops", "line 3, column 2", ""),
    "truncated line": (encode(chat("1")) + b'\n{"id": "d", "messages": [', "line 2, column 26", ""),
    "truncated document": (b'{\n"id": "d",\n"messages": [', "line 3, column 14", ""),
    "not UTF-8": (encode(chat("1")) + b"\n\xff", f"byte {len(encode(chat('1'))) + 1}", ""),
    "UTF-16": (json.dumps(chat("1")).encode("utf-16"), "byte 0", ""),
    "not UTF-8 after a BOM": (b"\xef\xbb\xbf{}\xff", "byte 5", ""),
    "empty": (b"", "", ""),
    "blank": (b" \n\t\n", "", ""),
    "only a BOM": (b"\xef\xbb\xbf", "", ""),
    "NaN": (encode(chat("1")) + b'\n{"messages": [{"role": "user", "content": "1", "n": NaN}]}', "line 2", ""),
    "lone surrogate": (encode(chat("1")) + b'\n{"messages": [{"role": "user", "content": "\\ud800"}]}', "line 2", ""),
    "endless nesting": (b"[" * 100_000, "line 1", ""),
    "deep nesting": (said(role="user", content="1", more=NESTED), "line 2, messages.1", "extra"),
    "role": (said(role="bot", content="1"), "line 2", "messages.1.role"),
    "no role": (encode(chat("1"), {"messages": [{"content": "1"}]}), "line 2", "messages.0.role"),
    "content": (said(role="user", content=5), "line 2", "messages.1.content"),
    "part without a kind": (said(role="user", content=[{"text": "1"}]), "line 2", "messages.1.content.0.type"),
    "part without its text": (said(role="user", content=[{"type": "text"}]), "line 2, messages.1", "content[0].text"),
    "nothing said": (said(role="user"), "line 2", "messages.1"),
    "no calls": (said(role="assistant", tool_calls=[]), "line 2", "messages.1"),
    "call without an id": (
        said(role="assistant", tool_calls=[{"function": call()["function"]}]),
        "line 2",
        "messages.1.tool_calls.0.id",
    ),
    "call with an empty id": (said(role="assistant", tool_calls=[call("")]), "line 2, messages.1", "tool_calls[0].id"),
    "call of nothing": (said(role="assistant", tool_calls=[{"id": "t1"}]), "line 2", "messages.1.tool_calls.0"),
    "result of no call": (said(role="tool", content="1"), "line 2, messages.1", "tool_call_id"),
    "no messages": (encode(chat("1"), {"id": "d"}), "line 2", "messages"),
    "id": (encode(chat("1"), chat("1", id=5)), "line 2", "id"),  # type: ignore[arg-type]
    "of no format": (encode({"id": "d"}), "", ""),
    "event that is none": (event(content="1") + b"\n5", "line 3", ""),
    "event of no type": (event(type="massage", content="1"), "line 2", "type"),
    "event of no scope": (event(scope="kitchen", content="1"), "line 2", "scope"),
    "event with two ids": (encode(*[{"type": "clear", "id": "i"}] * 2), "line 2", "id"),
    "event out of place": (event(version=3, content="1"), "line 2", "version"),
    "event of no time": (event(recorded_at="noon", content="1"), "line 2", "occurred_at"),
    "key twice in a document": (
        b'{"messages": [{"role": "user", "content": "1", "content": "2"}]}',
        "line 1",
        "content",
    ),
    "key twice in a line": (encode(chat("1")) + b'\n{"id": "d", "messages": [], "id": "e"}', "line 2", "id"),
    "key twice in an event": (event(content="1") + b'\n{"type":"x:m","a":{"b":1,"b":2}}', "line 3", "b"),
    "key twice in a session": (b'{"version": 2, "chat_history": [], "chat_history": []}', "line 1", "chat_history"),
    "event that points nowhere": (encode({"type": "clear"}, {"type": "rewind", "to": 7}), "line 2", "to"),
}


@pytest.mark.parametrize(("data", "place", "field"), BROKEN.values(), ids=BROKEN)
def test_a_broken_file_says_where(store: Store, data: bytes, place: str, field: str) -> None:
    """A broken file imports nothing of itself and names the place and the field."""
    with pytest.raises(BrokenFile) as refused:
        import_file(store, "f.jsonl", data, "stem")
    assert (refused.value.file, refused.value.place, refused.value.field) == ("f.jsonl", place, field)
    assert "\n" not in str(refused.value)
    assert store.conversations() == []


@pytest.mark.parametrize(
    ("data", "value"),
    [
        (encode(chat("1"), chat("1", id="a\tb")), "a\tb"),
        (encode(chat("1"), chat("1", id="x" * 201)), "x" * 201),
        (encode({"type": "clear", "conversation": "c"}, {"type": "clear", "conversation": 5}), 5),
        (encode({"type": "clear", "conversation": "c"}, {"type": "clear", "conversation": ["c"]}), ["c"]),
    ],
    ids=["control character", "long", "number", "list"],
)
def test_a_name_that_cannot_be(store: Store, data: bytes, value: object) -> None:
    """A name that no conversation may have breaks its file, which is named like any other broken one."""
    with pytest.raises(BrokenFile) as refused:
        import_file(store, "f.jsonl", data, "stem")
    assert (refused.value.file, refused.value.value) == ("f.jsonl", value)
    assert refused.value.place.startswith("line 2")
    assert store.conversations() == []


def test_a_byte_order_mark_is_no_content(store: Store) -> None:
    """A byte order mark before the document is not part of it."""
    data = encode(chat("1", "2"))
    import_file(store, "f", b"\xef\xbb\xbf" + data, None)
    assert import_file(store, "f", data, None) == [Imported("c", 0, 2)]


def invoke(tmp_path: Path, *arguments: str, **options: Any) -> Result:
    return CliRunner().invoke(main, [f"--db={tmp_path / 'turnlog.db'}", "import", *arguments], **options)


def test_other_files_are_imported(tmp_path: Path) -> None:
    """Files on one command line stand for themselves: what is broken or not there is told, in one line each."""
    broken = {"bad": b"{oops", "void": b"", "bytes": b"\xff", "roles": encode(chat("1", id="r") | {"messages": [{}]})}
    for name, data in {"one": encode(chat("1")), **broken, "two": encode(chat("2", id="d"))}.items():
        (tmp_path / name).write_bytes(data)
    files = [str(tmp_path / name) for name in ("one", *broken, "gone", "two")]
    result = invoke(tmp_path, "--json", *files)
    assert result.exit_code == 1
    assert [each["conversation"] for each in json.loads(result.stdout)] == ["c", "d"]
    told = result.stderr.splitlines()
    assert len(told) == 5
    for line, file in zip(told, files[1:-1], strict=True):
        assert line.startswith("Error: ")
        assert file in line
    with Store(tmp_path / "turnlog.db") as store:
        assert [each.conversation for each in store.conversations()] == ["c", "d"]


def test_the_command_refuses_and_rewinds(tmp_path: Path) -> None:
    """`import` exits 1 on a difference and says how to go on; `--diverged rewind` goes on."""
    file = tmp_path / "c.json"
    for document, options, code in (
        (chat("1", "2"), [], 0),
        (chat("1", "X"), [], 1),
        (chat("1", "X"), ["--diverged=rewind"], 0),
        (chat("1", "X"), [], 0),
    ):
        file.write_bytes(encode(document))
        result = invoke(tmp_path, str(file), *options)
        assert result.exit_code == code, result.output
        assert ("--diverged rewind" in result.stderr) == (code == 1)
        assert ("rewind to 1" in result.stdout) == bool(options)


# Names.


@pytest.mark.parametrize(
    ("value", "options", "name"),
    [
        (chat("1"), {}, "c"),
        (chat("1"), {"conversation": "mine"}, "mine"),
        (chat("1")["messages"], {}, "stem"),
        ({"messages": chat("1")["messages"]}, {}, "stem"),
        ({"type": "clear", "conversation": "c"}, {}, "c"),
        ({"type": "clear"}, {}, "stem"),
        ([{"type": "clear"}], {"conversation": "mine"}, "mine"),
    ],
)
def test_names(store: Store, value: Any, options: dict[str, str], name: str) -> None:
    """A conversation is named by the caller, else by its file, else by its file's stem."""
    take(store, value, **options)
    assert [each.conversation for each in store.conversations()] == [name]


@pytest.mark.parametrize(
    ("data", "options"),
    [
        (encode(chat("1")["messages"], chat("2")["messages"]), []),
        (encode(chat("1"), chat("2", id="d")), ["--conversation=mine"]),
        (encode({"type": "clear"}), []),
    ],
    ids=["two of one stem", "two of one name", "standard input without a stem"],
)
def test_names_that_are_not_given(tmp_path: Path, data: bytes, options: list[str]) -> None:
    """Documents that no name tells apart, or that have none, are refused."""
    result = invoke(tmp_path, "-", *options, input=data)
    assert (result.exit_code, result.stdout) == (1, "")
    assert len(result.stderr.splitlines()) == 1
    with Store(tmp_path / "turnlog.db") as store:
        assert store.conversations() == []


def test_one_name_for_many_names_the_field(store: Store) -> None:
    """One name for a file of several conversations is the caller's mistake and says so."""
    with pytest.raises(InvalidArgument) as refused:
        take(store, chat("1"), chat("2", id="d"), conversation="mine")
    assert (refused.value.field, refused.value.value) == ("conversation", "mine")
    assert store.conversations() == []


def test_standard_input(tmp_path: Path) -> None:
    """`-` reads standard input, whose conversation may be named on the command line."""
    result = invoke(tmp_path, "-", "--conversation=mine", input=encode({"type": "clear"}))
    assert result.exit_code == 0, result.output
    with Store(tmp_path / "turnlog.db") as store:
        assert [each.conversation for each in store.conversations()] == ["mine"]
