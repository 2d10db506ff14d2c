"""Restoring an export: verbatim, safe to repeat, and refused if a byte of it was changed."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from logs import logs
from test_append import recorded, said
from test_chain import EVENTS, members

from turnlog.store import (
    InvalidArgument,
    InvalidEvent,
    NameTaken,
    Restored,
    RestoreRefused,
    Store,
    TurnlogError,
    line_of,
    read_line,
)

LOG = [
    *EVENTS,
    said("secret", id="s", occurred_at="2026-01-01T00:00:00Z"),
    {"type": "redaction", "target": 8, "reason": "asked for", "replacement": "gone"},
]
REDACTED, WHOLE = 8, 3


def export(store: Store, conversation: str = "c") -> list[str]:
    return [line_of(event) for event in store.events(conversation)]


@pytest.fixture(scope="module")
def lines() -> list[str]:
    """The export of a conversation with everything in it."""
    with Store(":memory:") as store:
        for event in LOG:
            store.append("c", [event])
        return export(store)


def restore(store: Store, lines: list[str], name: str | None = None) -> list[Restored]:
    return store.restore(map(read_line, lines), name)


def refused(store: Store, lines: list[str]) -> TurnlogError:
    """The refusal of lines by a store, which stays as it is."""
    before = recorded(store)
    with pytest.raises((RestoreRefused, InvalidEvent)) as error:
        restore(store, lines)
    assert recorded(store) == before
    return error.value


class TestVerbatim:
    def test_everything_is_as_it_was(self, lines: list[str]) -> None:
        """A restored event is equal to the byte: uuid, version, times, ids, body, salt, digests, redaction."""
        with Store(":memory:") as store, Store(":memory:") as other:
            for event in LOG:
                store.append("c", [event])
            other.append("before", [said()])
            identity = store.stream("c").uuid
            assert restore(other, export(store), "c") == [Restored(identity, "c", added=len(LOG), present=0)]
            for one, two in zip(store.events("c"), other.events("c"), strict=True):
                assert msgspec.structs.asdict(two) | {"position": 0} == msgspec.structs.asdict(one) | {"position": 0}
            assert export(other) == export(store)
            assert other.append("c", [said()]).first == len(LOG) + 1

    @settings(max_examples=50, deadline=None)
    @given(logs())
    def test_any_log(self, events: list[dict[str, Any]]) -> None:
        """Every log, exported and restored, is exported again to the same lines."""
        with Store(":memory:") as store, Store(":memory:") as other:
            store.append("c", events)
            exported = export(store)
            identity = store.stream("c").uuid
            assert [each.added for each in restore(other, exported)] == [len(events)]
            assert export(other, identity) == exported

    def test_lines_that_another_program_wrote_anew(self, lines: list[str]) -> None:
        """Escapes and the order of header fields are another program's affair as long as the bytes can be had again."""
        with Store(":memory:") as store:
            for line in lines[:4]:
                body_last = sorted(json.loads(line).items(), key=lambda member: member[0] == "digest", reverse=True)
                assert restore(store, [json.dumps(dict(body_last), separators=(",", ":"))])[0].added == 1
            assert export(store, json.loads(lines[0])["conversation"]) == lines[:4]

    def test_names(self, lines: list[str]) -> None:
        """A name that is given goes before the export's, which goes before none."""
        identity = json.loads(lines[0])["conversation"]
        event = read_line(lines[0]).event
        named = [line_of(event, "naïve"), *lines[1:]]
        for given_lines, name, expected in (
            (lines, None, None),
            (named, None, "naïve"),
            (named, "own", "own"),
            (lines, "own", "own"),
        ):
            with Store(":memory:") as store:
                assert restore(store, given_lines, name)[0].name == expected
                assert store.conversations()[0].conversation == expected
                assert store.stream(identity).name == expected

    def test_a_taken_name(self, lines: list[str]) -> None:
        """A name that another conversation has is refused, and nothing is restored."""
        with Store(":memory:") as store:
            store.append("own", [said()])
            before = recorded(store)
            with pytest.raises(NameTaken) as taken:
                restore(store, lines, "own")
            assert taken.value.name == "own"
            assert recorded(store) == before

    def test_a_bad_name(self, lines: list[str]) -> None:
        """A name obeys its rules in a restore, too."""
        with Store(":memory:") as store:
            for name in ("", "a\nb", "n" * 201):
                with pytest.raises(InvalidArgument) as error:
                    restore(store, lines, name)
                assert (error.value.field, error.value.value) == ("conversation", name)
            assert store.conversations() == []

    def test_an_identity_that_is_anothers_name(self, lines: list[str]) -> None:
        """A conversation that was named by the uuid of the one to restore stands in its way as a taken name does."""
        identity = json.loads(lines[0])["conversation"]
        with Store(":memory:") as store:
            store.append(identity, [said()])
            before = recorded(store)
            with pytest.raises(NameTaken) as taken:
                restore(store, lines)
            assert taken.value.name == identity
            assert recorded(store) == before

    def test_several_conversations(self) -> None:
        """An export of several conversations, interleaved or not, restores each."""
        with Store(":memory:") as store, Store(":memory:") as other:
            for turn in range(3):
                for name in ("one", "two"):
                    store.append(name, [said(f"{name} {turn}")])
            restore(other, [line_of(event) for event in store.follow()])
            for name in ("one", "two"):
                assert export(other, store.stream(name).uuid) == export(store, name)

    def test_forks(self) -> None:
        """A fork's export begins with what it shares; its parent may be there already, or have gone on since."""
        with Store(":memory:") as store, Store(":memory:") as other, Store(":memory:") as third:
            store.append("parent", LOG)
            parent, child = store.stream("parent").uuid, store.fork("parent", 3, "child").conversation
            store.append("child", [said("its own", id="own")])
            lines = export(store, "child")
            refused(other, lines[3:])
            assert [(each.conversation, each.added) for each in restore(other, lines)] == [(parent, 3), (child, 2)]
            assert [(each.added, each.present) for each in restore(other, lines)] == [(0, 3), (0, 2)]
            restore(other, export(store, "parent"))
            assert (export(other, parent), export(other, child)) == (export(store, "parent"), lines)
            restore(third, export(store, "parent"))
            assert restore(third, lines[3:], "named")[0].added == 2
            assert export(third, "named") == lines
            refused(third, [changed(lines[3], "at", 2)])
            assert third.conversations()[1].forked_at == 3

    def test_a_retry_after_a_restore(self, lines: list[str]) -> None:
        """A restored log knows its ids: a writer's retry gives the first receipt."""
        with Store(":memory:") as store:
            restore(store, lines, "c")
            receipt = store.append("c", [EVENTS[2]])
            assert (receipt.first, receipt.digest) == (3, json.loads(lines[2])["digest"])


class TestRepeating:
    def test_twice_adds_nothing(self, lines: list[str]) -> None:
        """The same export again adds nothing, whatever was appended or renamed since."""
        with Store(":memory:") as store:
            restore(store, lines, "c")
            before = recorded(store)
            assert restore(store, lines)[0] == Restored(json.loads(lines[0])["conversation"], "c", 0, len(lines))
            assert recorded(store) == before
            store.append("c", [said("later")])
            store.rename("c", "d")
            assert restore(store, lines)[0].present == restore(store, lines, "d")[0].present == len(lines)
            assert store.version("d") == len(lines) + 1

    @pytest.mark.parametrize("had", [1, REDACTED - 1, REDACTED, len(LOG) - 1])
    def test_a_grown_export_adds_what_is_new(self, lines: list[str], had: int) -> None:
        """An export that has grown adds what is new, and a redaction in it erases what was there before."""
        with Store(":memory:") as store, Store(":memory:") as source:
            for event in LOG[:had]:
                source.append("c", [event])
            earlier = export(source)
            for event in LOG[had:]:
                source.append("c", [event])
            assert restore(store, earlier, "c")[0].added == had
            assert restore(store, export(source))[0] == Restored(source.stream("c").uuid, "c", len(LOG) - had, had)
            assert export(store) == export(source)
            assert store.event("c", REDACTED).redacted

    def test_an_export_from_before_a_redaction(self) -> None:
        """An older export brings nothing back that was erased since."""
        with Store(":memory:") as store:
            store.append("c", LOG[:REDACTED])
            earlier = export(store)
            store.append("c", LOG[REDACTED:])
            before = recorded(store)
            assert restore(store, earlier)[0].added == 0
            assert recorded(store) == before

    def test_two_exports_that_went_apart(self) -> None:
        """Where the store's own events are others than the export's, it is refused and the first is named."""
        with Store(":memory:") as store, Store(":memory:") as other:
            identity = store.append("c", [said("shared")]).conversation
            restore(other, export(store), "c")
            store.append("c", [said("here")])
            other.append("c", [said("there"), said("more")])
            error = refused(store, export(other))
            assert isinstance(error, RestoreRefused)
            assert (error.conversation, error.version) == (identity, 2)


def changed(line: str, field: str, value: Any) -> str:
    """A line with one member set to another value, added or, for None, removed; the rest of it byte for byte."""
    parts = members(line)
    parts[field] = f'"{field}":{msgspec.json.encode(value).decode()}'
    return "{" + ",".join(part for key, part in parts.items() if key != field or value is not None) + "}"


CHANGES: list[tuple[int, str, Any]] = [
    (3, "conversation", "00000000-0000-4000-8000-000000000000"),
    (3, "conversation", "no uuid"),
    (3, "version", 4),
    (3, "version", 0),
    (3, "version", 3.5),
    (3, "type", "x:message"),
    (3, "type", "clear"),
    (3, "v", 2),
    (3, "scope", "coder"),
    (3, "scope", None),
    (1, "scope", "chat"),
    (3, "id", "other"),
    (3, "id", None),
    (2, "id", "new"),
    (3, "recorded_at", "2026-01-01T00:00:00.000000Z"),
    (3, "recorded_at", "2199-01-01T00:00:00.000000Z"),
    (3, "recorded_at", "0001-01-01T00:00:00.000000+14:00"),
    (3, "recorded_at", "then"),
    (6, "occurred_at", "2026-03-01T10:00:00.500001Z"),
    (6, "occurred_at", None),
    (3, "occurred_at", "2026-03-01T10:00:00.500000Z"),
    (3, "frame", {"role": "assistant", "parts": ["text"]}),
    (3, "frame", {"parts": ["text"], "role": "user"}),
    (3, "frame", None),
    (3, "salt", "00" * 16),
    (3, "salt", "00"),
    (3, "salt", None),
    (3, "digest", "00" * 32),
    (3, "digest", "00"),
    (3, "digest", None),
    (3, "body_digest", "00" * 32),
    (3, "role", "assistant"),
    (3, "content", "another"),
    (3, "meta", {"added": True}),
    (REDACTED, "body_digest", "00" * 32),
    (REDACTED, "body_digest", None),
    (REDACTED, "salt", "00" * 16),
    (REDACTED, "content", "put back"),
    (REDACTED, "frame", {"role": "user"}),
    (9, "target", 7),
    (9, "frame", {"target": 7, "replacement": True}),
]


class TestChanged:
    @pytest.mark.parametrize("there", [0, 1, len(LOG)], ids=["new", "begun", "all-there"])
    @pytest.mark.parametrize(("version", "field", "value"), CHANGES, ids=str)
    def test_any_field(self, lines: list[str], version: int, field: str, value: Any, there: int) -> None:
        """A line that says something else than what was exported is refused, and nothing at all is written."""
        with Store(":memory:") as store:
            restore(store, lines[:there])
            line = changed(lines[version - 1], field, value)
            error = refused(store, [*lines[: version - 1], line, *lines[version:]])
            if isinstance(error, RestoreRefused) and field not in ("conversation", "version"):
                assert (error.conversation, error.version) == (json.loads(lines[0])["conversation"], version)

    @pytest.mark.parametrize("there", [0, 1], ids=["new", "begun"])
    @pytest.mark.parametrize("number", range(1, len(LOG)))
    def test_swapped_dropped_and_doubled_lines(self, lines: list[str], number: int, there: int) -> None:
        """Two lines in each other's place, a line that is missing before others, and one too many are refused."""
        before, one, two, after = lines[: number - 1], lines[number - 1], lines[number], lines[number + 1 :]
        with Store(":memory:") as store:
            restore(store, lines[:there])
            if number > there:
                refused(store, [*before, two, one, *after])
                refused(store, [*before, two, *after])
                refused(store, [*before, one, one, two, *after])
            refused(store, [*before, one, two, two, *after])

    def test_bytes(self, lines: list[str]) -> None:
        """Any letter or digit of a line that becomes another refuses it."""
        line = lines[WHOLE - 1]
        identity = json.loads(line)["conversation"]
        with Store(":memory:") as store:
            restore(store, lines[: WHOLE - 1])
            for at, letter in enumerate(line):
                if letter.isalnum():
                    refused(store, [line[:at] + ("1" if letter != "1" else "2") + line[at + 1 :]])
            assert restore(store, [line])[0].added == 1
            assert store.version(identity) == WHOLE

    def test_one_bad_conversation_refuses_all(self, lines: list[str]) -> None:
        """A restore is all or nothing, over all the conversations in it."""
        with Store(":memory:") as source, Store(":memory:") as store:
            source.append("other", [said()])
            refused(store, [*export(source, "other"), *lines[:2], changed(lines[2], "content", "another")])
            assert store.conversations() == []

    @pytest.mark.parametrize(
        "line",
        ["", "{}", "[]", "null", "nonsense", '{"type":"clear"}', "[" * 10_000, '{"a":' * 10_000, "\ud800"],
        ids=lambda line: ascii(line)[:12],
    )
    def test_what_is_no_exported_event(self, line: str) -> None:
        """A line that is no exported event is an `InvalidEvent`."""
        with pytest.raises(InvalidEvent) as error:
            read_line(line)
        assert (error.value.field, error.value.value) == ("line", line)
