"""What views show of redacted events, what a redaction names, and where it is recorded (DESIGN sections 4 and 7)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from hypothesis import given, settings
from hypothesis import strategies as st
from logs import SCOPES, logs
from test_append import recorded, said
from views import Seen, assistant, note, reply, result, seen, summary, to, user

from turnlog.cli import main
from turnlog.projections import describe
from turnlog.store import InvalidArgument, NotFound, Redacted, Store, Target

SECRET = "Quecksilberzauber"
TALK = [
    assistant("a", SECRET, first_message=SECRET),
    user(SECRET),
    reply(SECRET, "t1"),
    result("t1", SECRET),
    note(SECRET),
    to("b", system=SECRET, message=SECRET, first_message=SECRET),
    summary(SECRET, scope="shared_memory"),
]


def contents(store: Store, conversation: str, at: int | None = None) -> list[Any]:
    return [message.content for message in seen(store, conversation, at=at)]


def shape(view: Seen) -> Any:
    """All that a view tells, what was said aside."""
    messages = [
        (
            *(message.version, message.origin, message.role, message.assistant, message.tool_call_id),
            [(call.id, call.name) for call in message.tool_calls],
            message.summary_of,
        )
        for message in view
    ]
    problems = [problem for problem in view.problems if problem.rule != "redacted-since-request"]
    return view.assistant, [tool.get("name") for tool in view.tools], messages, view.hidden, problems


@st.composite
def redactions(draw: st.DrawFn) -> tuple[list[dict[str, Any]], list[int], int]:
    """A log, versions of it to redact, and one to fork at."""
    log = draw(logs(max_size=14))
    versions = st.integers(1, len(log))
    return log, draw(st.lists(versions, min_size=1, max_size=5)), draw(versions)


@settings(max_examples=35, deadline=None)
@given(found=redactions(), replacement=st.sampled_from((None, "", "someone")))
def test_every_view_keeps_its_shape(
    found: tuple[list[dict[str, Any]], list[int], int], replacement: str | None
) -> None:
    """Whatever is redacted, no view of any scope changes at any point, in a fork either, but for what was said."""
    log, versions, at = found
    with Store(":memory:") as store:
        store.append("c", log)
        store.fork("c", at, "f")
        points = [(name, scope, at) for name in "cf" for scope in SCOPES for at in range(store.version(name) + 1)]
        before = {point: shape(seen(store, *point)) for point in points}
        said_before = {point: contents(store, "c", point) for point in range(len(log) + 1)}
        store.redact("c", versions, reason="asked for", replacement=replacement)
        assert {point: shape(seen(store, *point)) for point in points} == before
        shown = {"[redacted]" if replacement is None else replacement, ""}
        for point, texts in said_before.items():
            for old, message in zip(texts, seen(store, "c", at=point), strict=True):
                assert message.content == old or (message.redacted and message.content in shown)
        assert store.verify().faults == []


@pytest.mark.parametrize(("replacement", "shown"), [(None, "[redacted]"), ("someone", "someone"), ("", "")])
def test_every_view_at_every_version(replacement: str | None, shown: str) -> None:
    """At every point, in forks made before and after and in forks of forks, the replacement stands there."""
    with Store(":memory:") as store:
        store.append("c", TALK)
        lengths = [len(seen(store, "c", at=at)) for at in range(len(TALK) + 1)]
        store.fork("c", name="before")
        store.fork("before", name="of the fork")
        store.redact("c", range(1, len(TALK) + 1), reason="asked for", replacement=replacement)
        store.fork("c", len(TALK), name="after")
        store.fork("before", len(TALK), name="fork after")
        for name in ("c", "before", "of the fork", "after", "fork after"):
            for at, length in enumerate(lengths):
                assert contents(store, name, at) == [shown] * length
            for message in seen(store, name):
                assert message.redacted
                assert [call.arguments for call in message.tool_calls] in ([], ["[redacted]"])


def test_a_redacted_description() -> None:
    """A title and metadata that are redacted are described no more, and scopes that were listed stay."""
    with Store(":memory:") as store:
        store.append("c", [{"type": "describe", "title": SECRET, "metadata": {"k": SECRET}, "scopes": ["lab"]}])
        store.append("c", [said(scope="lab")])
        store.redact("c", [1], reason="asked for")
        assert (describe(store, "c").title, describe(store, "c").metadata) == (None, {})
        assert store.conversations()[0].title is None
        assert "lab" in store.scopes("c")
        assert len(seen(store, "c", "lab")) == 1


class TestWhereItIsRecorded:
    def test_in_the_parent_that_owns_it(self) -> None:
        """A version that a fork's parent owns is redacted in the parent, one of its own in the fork, all at once."""
        with Store(":memory:") as store:
            root = store.append("root", [said(SECRET), said("b"), said("c")]).conversation
            middle = store.fork("root", 2, "middle").conversation
            store.append("middle", [said(SECRET)])
            leaf = store.fork("middle", 4, "leaf").conversation
            store.append("leaf", [said(SECRET)])
            done = store.redact("leaf", [6, 1, 4], reason="asked for")
            owners = [(target.conversation, target.version) for target in done.erased]
            assert owners == [(root, 1), (middle, 4), (leaf, 6)]
            receipts = {receipt.conversation: (receipt.first, receipt.last) for receipt in done.receipts}
            assert receipts == {root: (4, 4), middle: (5, 5), leaf: (7, 7)}
            assert contents(store, "leaf") == ["[redacted]", "b", "[redacted]", "[redacted]"]
            assert contents(store, "root") == ["[redacted]", "b", "c"]

    def test_the_fork_s_own_beginning(self) -> None:
        """The event that a fork begins with can be redacted, too, and the fork goes on reading its parent."""
        with Store(":memory:") as store:
            store.append("root", [said("a")])
            store.fork("root", name="child")
            store.redact("child", [2], reason="asked for")
            assert contents(store, "child") == ["a"]
            assert store.verify().faults == []

    def test_each_version_once(self) -> None:
        """A version that is named twice is redacted once, and versions come in order whatever theirs was."""
        with Store(":memory:") as store:
            store.append("c", [said("a"), said("b"), said("c")])
            done = store.redact("c", [3, 1, 3, 1], reason="asked for")
            assert [target.version for target in done.erased] == [1, 3]
            assert [event.frame_text for event in store.events("c", 4)] == ['{"target":1}', '{"target":3}']

    @pytest.mark.parametrize("versions", [[1, 9], [9, 1], [0], [-1], [1, 4]])
    def test_all_or_nothing(self, versions: list[int]) -> None:
        """If one of several versions does not exist, nothing is redacted and the version is named."""
        with Store(":memory:") as store:
            store.append("c", [said(SECRET), said("b"), said("c")])
            store.fork("c", 1, "f")
            before = recorded(store)
            with pytest.raises(NotFound) as missing:
                store.redact("c", versions, reason="asked for")
            assert (missing.value.kind, missing.value.value) == ("version", next(v for v in versions if v != 1))
            assert recorded(store) == before

    @pytest.mark.parametrize(
        ("field", "how"),
        [
            ("versions", {"versions": []}),
            ("reason", {"reason": "\ud800"}),
            ("reason", {"reason": 5}),
            ("replacement", {"replacement": "\ud800"}),
            ("replacement", {"replacement": 5}),
        ],
    )
    def test_what_makes_no_sense(self, field: str, how: dict[str, Any]) -> None:
        """No versions, or a reason or replacement that is no text, are refused by field, in a dry run too."""
        with Store(":memory:") as store:
            store.append("c", [said(SECRET)])
            before = recorded(store)
            for dry_run in (True, False):
                with pytest.raises(InvalidArgument) as refused:
                    store.redact("c", **({"versions": [1], "reason": "r", "dry_run": dry_run} | how))
                assert refused.value.field == field
            assert recorded(store) == before

    def test_what_does_not_exist(self) -> None:
        """A conversation that does not exist is named."""
        with Store(":memory:") as store:
            with pytest.raises(NotFound) as missing:
                store.redact("c", [1], reason="r")
            assert (missing.value.kind, missing.value.value) == ("conversation", "c")
            with pytest.raises(NotFound) as missing:
                store.erase("c")
            assert (missing.value.kind, missing.value.value) == ("conversation", "c")


class TestSummaries:
    @pytest.fixture
    def store(self) -> Any:
        """Version 2 is covered by 5 and 6 of `root`, by 8 of the fork `child`, and by nothing else."""
        with Store(":memory:") as store:
            store.append("root", [said("a"), said(SECRET), said("c"), said("d")])
            store.append("root", [summary(SECRET, 1, 3), summary(SECRET, 2, 2), summary("no range")])
            store.append("root", [summary("other scope", 1, 4, scope="agent"), summary("others", 3, 4)])
            store.fork("root", 4, "child")
            store.append("child", [said("e"), said("f"), summary(SECRET, 1, 6)])
            store.fork("root", 1, "too early")
            store.append("too early", [said("own 3"), summary("of its own 3", 1, 3)])
            yield store

    @staticmethod
    def told(store: Store, targets: list[Target]) -> list[tuple[str | None, int]]:
        assert {(target.type, target.scope) for target in targets} <= {("summary", "chat"), ("message", "chat")}
        return [(store.stream(target.conversation).name, target.version) for target in targets]

    def test_named(self, store: Store) -> None:
        """The summaries whose range covers a redacted message are named, in forks that share it too, and stay."""
        done = store.redact("child", [2], reason="asked for")
        assert self.told(store, done.erased) == [("root", 2)]
        assert self.told(store, done.summaries) == [("root", 5), ("root", 6), ("child", 8)]
        assert SECRET in contents(store, "child")

    def test_redacted_on_request(self, store: Store) -> None:
        """With `summaries`, those are redacted too, each where it is owned, and none is left to be named."""
        done = store.redact("root", [2], reason="asked for", summaries=True)
        assert self.told(store, done.erased) == [("root", 2), ("root", 5), ("root", 6), ("child", 8)]
        assert done.summaries == []
        assert SECRET not in json.dumps([event.body for event in store.follow()])
        assert contents(store, "too early") == ["of its own 3"]
        assert store.verify().faults == []

    def test_one_that_is_redacted_itself(self, store: Store) -> None:
        """A summary among the versions to redact is not named beside itself."""
        done = store.redact("root", [2, 5], reason="asked for")
        assert self.told(store, done.summaries) == [("root", 6), ("child", 8)]

    def test_erasing_a_whole_conversation(self, store: Store) -> None:
        """`erase` names the summaries of forks that cover what it erases, as redaction does."""
        done = store.erase("root")
        assert [(target.conversation, target.version) for target in done.summaries] == [
            (store.stream("child").uuid, 8),
            (store.stream("too early").uuid, 4),
        ]


class TestDryRun:
    @pytest.mark.parametrize("summaries", [False, True])
    def test_it_lists_and_changes_nothing(self, tmp_path: Path, summaries: bool) -> None:
        """A dry run says what the redaction then does, and not a byte of the store changes."""
        path = tmp_path / "s.db"
        with Store(path) as store:
            store.append("c", [*TALK, summary(SECRET, 1, 3)])
            store.fork("c", name="f")
        data = path.read_bytes()
        with Store(path) as store:
            planned = store.redact("f", [2, 3], reason="r", summaries=summaries, dry_run=True)
            erasing = store.erase("c", dry_run=True)
        assert path.read_bytes() == data
        assert (planned.receipts, erasing.receipts) == ([], [])
        with Store(path) as store:
            done = store.redact("f", [2, 3], reason="r", summaries=summaries)
            assert (planned.erased, planned.summaries) == (done.erased, done.summaries)
            gone = {target.version for target in done.erased}
            left = [target for target in erasing.erased if target.version not in gone]
            assert [target for target in store.erase("c").erased if target.type != "redaction"] == left


def run(path: Path, *arguments: str) -> Result:
    return CliRunner().invoke(main, [f"--db={path}", *arguments], catch_exceptions=False)


class TestCommands:
    @pytest.fixture
    def path(self, tmp_path: Path) -> Path:
        with Store(tmp_path / "s.db") as store:
            store.append("c", [said(SECRET), said("b"), summary(SECRET, 1, 2)])
        return tmp_path / "s.db"

    def test_redact(self, path: Path) -> None:
        """`redact` tells what would go, what went and what still tells of it; `--json` gives the same as an object."""
        assert run(path, "redact", "c", "1", "--reason=r", "--dry-run").stdout.startswith("would go: ")
        with Store(path) as store:
            planned = store.redact("c", [1], reason="r", dry_run=True)
        told = json.loads(run(path, "redact", "c", "1", "--reason=r", "--dry-run", "--json").stdout)
        assert [target["version"] for target in told["erased"]] == [target.version for target in planned.erased] == [1]
        done = run(path, "redact", "c", "1", "2", "--reason=r", "--replacement=gone")
        assert done.exit_code == 0
        assert [line.split(":")[0] for line in done.stdout.splitlines()] == ["erased", "erased", "still tells of it"]
        with Store(path) as store:
            assert [message.content for message in seen(store, "c")] == [SECRET]
            assert contents(store, "c", 2) == ["gone", "gone"]

    def test_with_summaries(self, path: Path) -> None:
        """`redact --summaries` redacts the summaries too."""
        told = json.loads(run(path, "redact", "c", "1", "--reason=r", "--summaries", "--json").stdout)
        assert ([target["version"] for target in told["erased"]], told["summaries"]) == ([1, 3], [])

    def test_erase(self, path: Path) -> None:
        """`erase` tells what it erased, and the conversation has no name any more."""
        assert len(run(path, "erase", "c", "--dry-run").stdout.splitlines()) == 3
        assert len(json.loads(run(path, "erase", "c", "--json").stdout)["erased"]) == 3
        assert run(path, "history", "c").exit_code == 1

    @pytest.mark.parametrize(
        "arguments", [["redact", "c", "9", "--reason=r"], ["redact", "x", "1", "--reason=r"], ["erase", "x"]]
    )
    def test_refusals(self, path: Path, arguments: list[str]) -> None:
        """What does not exist is refused in one line, and nothing is erased."""
        before = path.read_bytes()
        done = run(path, *arguments)
        assert (done.exit_code, done.stdout, len(done.stderr.splitlines())) == (1, "", 1)
        assert path.read_bytes() == before


def test_nothing_to_redact_is_told_as_such() -> None:
    """Redacting what is redacted already names it, and appends the redaction: its replacement is the one shown."""
    with Store(":memory:") as store:
        store.append("c", [said(SECRET)])
        store.redact("c", [1], reason="r")
        done: Redacted = store.redact("c", [1], reason="r", replacement="someone")
        assert [target.version for target in done.erased] == [1]
        assert contents(store, "c") == ["someone"]
