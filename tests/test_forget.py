"""Forgetting: what says certain words, in any field of any event of any conversation, is redacted in one go."""

from __future__ import annotations

import json
import unicodedata
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_append import recorded, said
from test_redaction import files_with
from views import summary

from turnlog.importing import import_file
from turnlog.projections import search
from turnlog.store import Forgotten, InvalidArgument, NotFound, Store, erasure
from turnlog.store.append import insert
from turnlog.store.terms import BETWEEN_TEXTS, Terms, texts_of

NAME = "José"
ESCAPED = json.dumps({"customer": {"name": NAME}})
# Also letters whose lower case, or whose form without accents, is not what one may think.
LETTERS = "aAéÉeßk1 .\u0301王ø\u0130\u0131\u212a"
CALL = {"id": "t1", "name": "f"}
# What an event says besides, by the place in which it says the name.
PLACES: dict[str, dict[str, Any]] = {
    "content": said(f"I am {NAME}, hello"),
    "content[1].text": said([{"type": "text", "text": "a"}, {"type": "text", "text": NAME}]),
    "content[0].thinking": said([{"type": "thinking", "thinking": NAME}]),
    "content[0].source.url": said([{"type": "image", "source": {"url": f"https://x/{NAME}.png"}}]),
    "content[0].input.who": said([{"type": "tool_use", "id": "t1", "name": "f", "input": {"who": NAME}}]),
    "tool_calls[0].arguments.customer.name": said("", tool_calls=[CALL | {"arguments": ESCAPED}]),
    "tool_calls[0].arguments.inner.customer.name": said(
        "", tool_calls=[CALL | {"arguments": json.dumps({"inner": ESCAPED})}]
    ),
    "tool_calls[0].arguments": said("", tool_calls=[CALL | {"arguments": '{"name": "Jos\\u00e9 Garc'}]),
    "content.rows[0].name": {"type": "message", "role": "tool", "tool_call_id": "t1"}
    | {"content": '{"rows": [{"name": "JOSE\\u0301"}]}'},
    "system": {"type": "assistant", "assistant": "a", "system": f"You help {NAME.upper()}."},
    "tools[0].description": {"type": "assistant", "assistant": "a", "tools": [{"name": "f", "description": NAME}]},
    "first_message": {"type": "transfer", "to": "b", "first_message": f"Hello {NAME}"},
    "reason": {"type": "transfer", "to": "b", "reason": f"({NAME})"},
    "text": {"type": "summary", "text": f"{NAME} asked", "summary_of": 1},
    "method": {"type": "summary", "text": "asked", "summary_of": 1, "method": NAME},
    "title": {"type": "describe", "title": unicodedata.normalize("NFD", NAME)},
    "metadata.José": {"type": "describe", "metadata": {NAME: 1}},
    "parameters.user": {"type": "request", "at": 1, "parameters": {"user": NAME}},
    "response": {"type": "response", "request": 2, "status": "completed", "response": NAME},
    "message": {"type": "response", "request": 2, "status": "error", "message": f"no {NAME}"},
    "note": {"type": "rewind", "to": 2, "note": NAME},
    "replacement": {"type": "redaction", "target": 1, "reason": "r", "replacement": NAME},
    "deep[0].deeper": {"type": "x:mark", "deep": [{"deeper": NAME}]},
    "meta.user": said("a", meta={"user": NAME}),
    "extra.found[2]": said("a", extra={"found": [1, None, NAME]}),
    "actor": said("a", actor=NAME),
}


def appended(store: Store, name: str, *events: dict[str, Any]) -> int:
    """Append events after a message and a request; the version of the first."""
    return store.append(name, [said("so far"), {"type": "request", "at": 1}, *events]).first + 2


def places(found: Forgotten) -> list[tuple[int, str]]:
    return [(mention.version, mention.where) for mention in found.mentions]


class TestWhere:
    """Where words are found."""

    @pytest.mark.parametrize("query", ["josé", "JOSE", "José"])
    def test_in_every_place(self, query: str) -> None:
        """Whatever field of whatever event says it, escaped or not, in any case, the event is found with the place."""
        with Store(":memory:") as store:
            for where, event in PLACES.items():
                appended(store, where.replace("José", "key"), event, said("Josefina, jo sé"))
            found = store.forget([query], reason="r", dry_run=True)
            assert places(found) == [(3, where) for where in PLACES]
            assert all("«" in mention.excerpt for mention in found.mentions)

    @pytest.mark.parametrize(
        ("query", "text", "is_found"),
        [
            ("garcía josé", "José (called Pepe) García", True),
            ("garcía josé", "José", False),
            ("+34 600-123", "tel: +34 600 123", True),
            ("600", "6001", False),
            ("60012", 60012, True),
            ("4.50", 4.50, False),
            ("jose@example.com", "write to JOSE@example.com.", True),
            ("jose@example.com", "jose, example: com", True),
            ("jose@example.com", "jose at example.com", False),
            ("小明", "我叫王小明。", True),
            ("小红", "我叫王小明,红的", False),
            ("ünal", "Unal", True),
            ("o'hara", "Scarlett O'Hara", True),
            ('a "quoted" AND (b*)', "b and QUOTED a", True),
            ("ab*", "abc", False),
        ],
    )
    def test_words(self, query: str, text: object, is_found: bool) -> None:
        """All words have to be in the event, whole, as full-text search has them, and none of them is an operator."""
        with Store(":memory:") as store:
            store.append("c", [said("a", extra={"x": text})])
            assert bool(store.forget([query], reason="r", dry_run=True).mentions) is is_found

    def test_words_in_different_places(self) -> None:
        """The words of one match may be in different places of one event, not in two events; all places are named."""
        event = said("", tool_calls=[CALL | {"arguments": '{"first": "Mia", "last": "Li"}'}])
        with Store(":memory:") as store:
            store.append("c", [event, said("Mia"), said("Li"), said("Li, Mia")])
            found = store.forget(["mia li"], reason="r", dry_run=True)
            names = [(1, f"tool_calls[0].arguments.{name}") for name in ("first", "last")]
            assert places(found) == [*names, (4, "content")]
            assert places(store.forget(["mia", "li"], reason="r", dry_run=True)) == [
                *names,
                *((version, "content") for version in (2, 3, 4)),
            ]

    def test_by_actor(self) -> None:
        """The events of an actor are found by the whole name, in whatever case, also beside words."""
        with Store(":memory:") as store:
            store.append("c", [said("a", actor="Ärzte 1"), said("b", actor="Ärzte 12"), said("ärzte 1"), said("c")])
            (mention,) = store.forget(actor="ÄRZTE 1", reason="r", dry_run=True).mentions
            assert (mention.version, mention.where, mention.excerpt) == (1, "actor", "a")
            found = store.forget(["c"], actor="ärzte 12", reason="r", dry_run=True)
            assert places(found) == [(2, "actor"), (4, "content")]

    @pytest.mark.parametrize("query", ["invoice", "refund", "mia li", "JFK economy", "2217", "human", "user_id"])
    def test_all_that_search_finds(self, query: str) -> None:
        """What full-text search finds in real conversations is found, too, and what is redacted is found no more."""
        with Store(":memory:") as store:
            for file in [Path("docs/squad.jsonl"), Path("tests/data/airline.jsonl")]:
                path = Path(__file__).parent.parent / file
                import_file(store, str(path), path.read_bytes(), path.stem)
            names = {each.conversation: each.uuid for each in store.conversations()}
            hits = {(names[hit.conversation], hit.version) for hit in search(store, query, limit=10_000)}
            done = store.forget([query], reason="r")
            assert hits
            assert hits <= {(target.conversation, target.version) for target in done.redacted.erased}
            assert search(store, query) == []
            assert store.forget([query], reason="r", dry_run=True).mentions == []
            assert store.verify().faults == []

    @given(
        st.lists(
            st.text(st.sampled_from("aAéÉeß\u0130\u0131k\u212a1 .\u0301王ø"), min_size=1, max_size=5),
            min_size=1,
            max_size=2,
        ),
        st.text(st.sampled_from('aAéÉeß\u0130\u0131k\u212a1 ._"\\\n\u0301王ø'), max_size=30),
        st.booleans(),
    )
    def test_the_quick_look_misses_nothing(self, words: list[str], text: str, ascii_only: bool) -> None:
        """What lets most events be passed over without being decoded never passes over one that says it."""
        body = json.dumps({"content": text, "inner": json.dumps({"x": text})}, ensure_ascii=ascii_only)
        try:
            terms = Terms(words)
        except InvalidArgument:
            return
        with closing(terms):
            said_there = terms.said_in([BETWEEN_TEXTS.join(each for _, each in texts_of(body))])
            assert terms.may_be_in(body) or not said_there


class TestForget:
    """What forgetting does with what it finds."""

    @pytest.fixture
    def path(self, tmp_path: Path) -> Path:
        path = tmp_path / "s.db"
        with Store(path, durability="normal") as store:
            for number, event in enumerate(PLACES.values()):
                appended(store, f"c{number}", event, said("and on"))
        return path

    @pytest.mark.parametrize("indexed", [False, True], ids=["", "indexed"])
    def test_in_one_go(self, path: Path, indexed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
        """The file is written anew once, no file has the name in any form, and nothing else is redacted."""
        written, write = [], erasure._write_anew

        def write_anew(connection: Any) -> None:
            written.append(1)
            write(connection)

        monkeypatch.setattr(erasure, "_write_anew", write_anew)
        with Store(path) as store:
            if indexed:
                assert search(store, NAME)
            done = store.forget([NAME], reason="the law", replacement="someone")
            assert len(written) == 1
            assert len(done.redacted.receipts) == len(PLACES)
            assert {mention.excerpt for mention in done.mentions} == {""}
            assert files_with(path, NAME, "Jos\\u00e9", "JOSE\\u0301", unicodedata.normalize("NFD", NAME)) == []
            assert store.verify().faults == []
            assert all(store.event(f"c{number}", 3).redacted for number in range(len(PLACES)))
            assert not any(store.event(f"c{number}", 4).redacted for number in range(len(PLACES)))

    def test_all_or_nothing(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """If one redaction cannot be appended, none is."""
        with Store(path) as store:
            before = recorded(store)
            calls = iter(range(5))
            monkeypatch.setattr("turnlog.store.redact.insert", lambda *given: (next(calls), insert(*given))[1])
            with pytest.raises(StopIteration):
                store.forget([NAME], reason="r")
            assert recorded(store) == before
            assert store.erasure_due() is None

    def test_a_dry_run(self, path: Path) -> None:
        """A dry run says what the redaction then does, and not a byte of the store changes."""
        with Store(path) as store:
            bytes_before = path.read_bytes()
            planned = store.forget([NAME], reason="r", dry_run=True)
            assert path.read_bytes() == bytes_before
            done = store.forget([NAME], reason="r")
            assert planned.redacted.erased == done.redacted.erased
            assert places(planned) == places(done)
            again = store.forget([NAME], reason="r")
            assert (again.mentions, again.redacted.erased, again.redacted.receipts) == ([], [], [])

    def test_forks(self) -> None:
        """Shared events are redacted where they are owned, once; a limit to a fork includes what it shares."""
        with Store(":memory:") as store:
            root = store.append("root", [said(NAME), said("b"), said(NAME)]).conversation
            fork = store.fork("root", 2, "fork").conversation
            store.append("fork", [said(NAME)])
            store.append("other", [said(NAME)])
            found = store.forget([NAME], conversations=["fork"], reason="r", dry_run=True)
            assert {(target.conversation, target.version) for target in found.redacted.erased} == {(root, 1), (fork, 4)}
            assert len(store.forget([NAME], reason="r").redacted.erased) == 4
            assert store.event("fork", 1).redacted

    def test_a_limit_to_many(self) -> None:
        """Thousands of conversations can be given, and none."""
        with Store(":memory:") as store:
            names = [f"c{number}" for number in range(3000)]
            with store.transaction():
                for name in [*names, "other"]:
                    store.append(name, [said(NAME)])
            assert store.forget([NAME], conversations=[], reason="r").mentions == []
            assert len(store.forget([NAME], conversations=names, reason="r").redacted.erased) == len(names)
            assert not store.event("other", 1).redacted

    def test_summaries(self) -> None:
        """Summaries that cover what goes are named, and go with it on request; a redacted one is named no more."""
        with Store(":memory:") as store:
            store.append("c", [said(NAME), said("b"), summary("they said hello", 1, 2)])
            found = store.forget([NAME], reason="r", dry_run=True)
            assert [target.version for target in found.redacted.summaries] == [3]
            done = store.forget([NAME], reason="r", summaries=True)
            assert ([t.version for t in done.redacted.erased], done.redacted.summaries) == ([1, 3], [])
            assert store.redact("c", [1], reason="again").summaries == []

    def test_what_is_left(self) -> None:
        """Names of conversations and assistants, ids, scopes and types are no redaction's to take, and are named."""
        events: list[dict[str, Any]] = [
            {"type": "describe", "scopes": ["jose"]},
            {"type": "assistant", "assistant": NAME, "system": "p"},
            said("a", assistant=NAME, id="mail-jose"),
            said("b", assistant=NAME, scope="jose"),
            {"type": "x:jose", "a": 1},
        ]
        with Store(":memory:") as store:
            owner = store.append("José's call", events).conversation
            left = [
                ("name", "José's call", None, 0),
                ("frame.scopes", "jose", 1, 1),
                ("frame.assistant", NAME, 2, 3),
                ("id", "mail-jose", 3, 1),
                ("scope", "jose", 4, 1),
                ("type", "x:jose", 5, 1),
            ]
            for dry_run in (True, False, False):
                found = store.forget([NAME], reason="r", dry_run=dry_run)
                assert [(each.where, each.text, each.first, each.events) for each in found.left] == left
                assert {each.conversation for each in found.left} == {owner}
            assert store.forget(["nobody"], reason="r").left == []

    def test_what_happens_meanwhile(self, path: Path) -> None:
        """What others append while the log is searched is redacted, too, and what they redact is not redacted again."""
        with Store(path) as store, Store(path) as other:
            seen: list[tuple[int, int]] = []

            def meanwhile(done: int, total: int) -> None:
                if not seen:
                    other.append("late", [said(NAME)])
                    other.redact("c0", [3], reason="r")
                seen.append((done, total))

            done = store.forget([NAME], reason="r", progress=meanwhile)
            assert seen[0][0] == seen[0][1]
            owners = {target.conversation for target in done.redacted.erased}
            assert store.stream("late").uuid in owners
            assert store.stream("c0").uuid not in owners
            assert {mention.conversation for mention in done.mentions} == owners
            assert store.version("c0") == 5

    def test_inside_a_transaction(self, path: Path) -> None:
        """Inside a transaction it sees what that has appended, and is undone with it."""
        with Store(path) as store:
            before = recorded(store)
            with suppress(KeyError), store.transaction():
                store.append("late", [said(NAME)])
                assert len(store.forget([NAME], reason="r").redacted.erased) == len(PLACES) + 1
                raise KeyError
            assert recorded(store) == before

    def test_a_damaged_index(self, path: Path) -> None:
        """What the search index has, or has lost, is of no account."""
        with Store(path) as store:
            store.index.catch_up()
            with store.transaction():
                store.db.write("DELETE FROM search_data")
            assert len(store.forget([NAME], reason="r").redacted.erased) == len(PLACES)

    @pytest.mark.parametrize(
        ("field", "how"),
        [
            ("match", {"match": []}),
            ("match", {"match": [""]}),
            ("match", {"match": ["a", "- &"]}),
            ("match", {"match": NAME}),
            ("match", {"match": [1]}),
            ("actor", {"actor": ""}),
            ("actor", {"actor": 1}),
            ("conversations", {"match": ["a"], "conversations": "c0"}),
            ("reason", {"match": ["a"], "reason": None}),
            ("reason", {"match": [NAME], "reason": "asked by jose"}),
            ("replacement", {"match": ["x", NAME], "replacement": "(josé)"}),
        ],
    )
    def test_what_makes_no_sense(self, path: Path, field: str, how: dict[str, Any]) -> None:
        """What cannot be looked for, and a reason that says it again, are refused by field, and nothing is done."""
        with Store(path) as store:
            before = recorded(store)
            for dry_run in (True, False):
                with pytest.raises(InvalidArgument, match=f"^{field}"):
                    store.forget(**{"reason": "r", "dry_run": dry_run} | how)
            with pytest.raises(NotFound):
                store.forget(["a"], reason="r", conversations=["nowhere"])
            assert recorded(store) == before
