"""Replay: what each recorded request would be sent today, and what explains a difference (DESIGN section 7)."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from hypothesis import given, settings
from hypothesis import strategies as st
from logs import SCOPES, logs
from test_append import said
from views import REMOVE, assistant, clear, redact, reply, result, rewind, summary, to

from turnlog.cli import main
from turnlog.projections import RULES, Replayed, history, replay
from turnlog.store import NotFound, Store

TALK = [
    assistant("a", "A", tools=[{"name": "f"}], first_message="Hello."),
    said("one"),
    reply("two", "t1"),
    result("t1"),
    to("b", REMOVE, "B", tool_call_id="t1", message="over"),
    said("shared", scope="shared_memory"),
    said("elsewhere", scope="coder"),
]


def sent(store: Store, conversation: str = "c", scope: str = "chat", at: int | None = None, **fields: Any) -> int:
    """Record that a model was called with a history; the request's version."""
    return store.append(conversation, [history(store, conversation, scope, at).request(**fields)]).last


def outcomes(store: Store, conversation: str = "c") -> list[tuple[int, str, list[Any]]]:
    """Version, outcome and causes of each request; a cause of another conversation with its name."""
    return [
        (
            found.version,
            found.outcome,
            [
                cause.version if cause.conversation == found.conversation else (cause.conversation, cause.version)
                for cause in found.by
            ],
        )
        for found in replay(store, conversation)
    ]


@pytest.fixture
def store() -> Any:
    """Version 8 is a request with all that was said in `chat` before it."""
    with Store(":memory:") as store:
        store.append("c", TALK)
        assert sent(store) == 8
        yield store


class TestSame:
    def test_at_once(self, store: Store) -> None:
        """A request whose history is projected as it was sent is the same, told with its scope and version."""
        sent(store, scope="coder", at=7)
        sent(store, scope="chat", at=0)
        assert replay(store, "c") == [
            Replayed("c", 8, "chat", 7, "same", []),
            Replayed("c", 9, "coder", 7, "same", []),
            Replayed("c", 10, "chat", 0, "same", []),
        ]

    @pytest.mark.parametrize(
        "later",
        [
            [said("later")],
            [to("c", "delete-history", "C")],
            [clear(), clear(scope="shared_memory")],
            [rewind(2)],
            [summary("s", 2, 4)],
            [assistant("b", "new", tools=[])],
            [said("x"), redact(9)],
            [redact(7)],
        ],
        ids=lambda events: str(events[-1]["type"]),
    )
    def test_whatever_came_later(self, store: Store, later: list[dict[str, Any]]) -> None:
        """What is said, hidden or redacted later, but for what was shown, makes no request another."""
        store.append("c", later)
        assert outcomes(store) == [(8, "same", [])]

    def test_a_redaction_that_was_there(self, store: Store) -> None:
        """A request that was sent what was redacted already is the same."""
        store.redact("c", [2], reason="r", replacement="someone")
        version = sent(store)
        assert outcomes(store) == [(8, "redaction", [9]), (version, "same", [])]

    def test_a_redacted_request(self, store: Store) -> None:
        """A request that is itself redacted is compared all the same."""
        store.redact("c", [8], reason="r")
        assert outcomes(store) == [(8, "same", [])]

    def test_in_a_fork(self, store: Store) -> None:
        """A fork replays the requests that it shares, and its own."""
        store.fork("c", name="f")
        own = sent(store, "f")
        assert outcomes(store, "f") == [(8, "same", []), (own, "same", [])]
        assert outcomes(store) == [(8, "same", [])]


class TestRedaction:
    @pytest.mark.parametrize("target", [1, 2, 3, 5, 6])
    def test_of_what_was_shown(self, store: Store, target: int) -> None:
        """A redaction of anything that was shown explains the difference, and is named."""
        store.redact("c", [target], reason="r")
        assert outcomes(store) == [(8, "redaction", [9])]

    def test_of_the_tools(self) -> None:
        """A redaction of the event that gave the tools explains a difference, although no message shows it."""
        with Store(":memory:") as store:
            store.append("c", [assistant("a", tools=[{"name": "f", "about": "x"}]), said("one")])
            sent(store)
            store.redact("c", [1], reason="r")
            assert outcomes(store) == [(3, "redaction", [4])]

    def test_several(self, store: Store) -> None:
        """Every redaction that bears on what was shown is named, in order, and no other."""
        store.append("c", [redact(7), redact(6), said("x"), redact(2), redact(4), redact(2, "again")])
        assert outcomes(store) == [(8, "redaction", [10, 12, 14])]

    def test_of_what_a_summary_covers(self) -> None:
        """A redaction of what a summary stood for by then explains nothing: it was not shown."""
        with Store(":memory:") as store:
            store.append("c", [said("one"), said("two"), summary("s", 1, 1)])
            sent(store)
            store.redact("c", [1], reason="r")
            assert outcomes(store) == [(4, "same", [])]
            store.redact("c", [3], reason="r")
            assert outcomes(store) == [(4, "redaction", [6])]

    def test_on_one_side_of_a_fork(self, store: Store) -> None:
        """A redaction of what both share explains a difference on both sides, and one side's own on that alone."""
        store.fork("c", name="f")
        store.append("f", [said("mine")])
        own = sent(store, "f")
        store.redact("f", [10], reason="r")
        assert [outcome for _, outcome, _ in outcomes(store, "f")] == ["same", "redaction"]
        assert outcomes(store) == [(8, "same", [])]
        store.redact("c", [2], reason="r")
        assert [(version, outcome) for version, outcome, _ in outcomes(store, "f")] == [
            (8, "redaction"),
            (own, "redaction"),
        ]
        assert outcomes(store) == [(8, "redaction", [9])]

    def test_what_a_fork_does_not_show(self, store: Store) -> None:
        """A redaction that the parent had after the fork is named as the parent's: the fork has other events there."""
        store.append("c", [said("x")])
        store.fork("c", 8, name="f")
        own = sent(store, "f")
        store.redact("c", [2], reason="r")
        store.redact("f", [3], reason="r")
        assert outcomes(store, "f") == [
            (8, "redaction", [("c", 10), ("c", 11)]),
            (own, "redaction", [("c", 10), ("c", 11)]),
        ]
        for found in replay(store, "f"):
            for cause in found.by:
                assert store.event(cause.conversation, cause.version).type == "redaction"

    def test_what_a_fork_shows(self, store: Store) -> None:
        """A redaction before the fork, and one of the fork's own, is named as an event of the fork."""
        store.redact("c", [2], reason="r")
        store.fork("c", name="f")
        store.append("f", [said("mine")])
        own = sent(store, "f")
        store.redact("f", [11], reason="r")
        assert outcomes(store, "f") == [(8, "redaction", [9]), (own, "redaction", [13])]


class TestOtherwise:
    @pytest.mark.parametrize(
        ("fields", "outcome"),
        [
            ({"history": "0" * 64, "rules": RULES}, "unexplained"),
            ({"history": "0" * 64}, "unexplained"),
            ({"history": "0" * 64, "rules": RULES + 1}, "rules"),
            ({"history": "0" * 64, "rules": 0}, "rules"),
            ({"rules": RULES}, "not-recorded"),
            ({}, "not-recorded"),
        ],
        ids=str,
    )
    def test_what_was_recorded(self, store: Store, fields: dict[str, Any], outcome: str) -> None:
        """Another revision of the rules explains another digest; nothing explains one of the same, or of none."""
        store.append("c", [{"type": "request", "at": 7, **fields}])
        assert outcomes(store) == [(8, "same", []), (9, outcome, [])]
        store.redact("c", [2], reason="r")
        assert outcomes(store) == [(8, "redaction", [10]), (9, outcome, [])]

    def test_another_revision_that_changed_nothing(self, store: Store) -> None:
        """A request of another revision of the rules that is projected to the same history is the same."""
        digest = history(store, "c", at=7).digest
        store.append("c", [{"type": "request", "at": 7, "history": digest, "rules": RULES + 1}])
        assert outcomes(store)[1] == (9, "same", [])

    def test_nothing_to_replay(self) -> None:
        """A conversation without requests has nothing to replay; one that does not exist is named."""
        with Store(":memory:") as store:
            store.append("c", [said()])
            assert replay(store, "c") == []
            with pytest.raises(NotFound) as missing:
                replay(store, "d")
            assert (missing.value.kind, missing.value.value) == ("conversation", "d")


@settings(max_examples=40, deadline=None)
@given(log=logs(max_size=10), scope=st.sampled_from(SCOPES), targets=st.lists(st.integers(1, 21), max_size=4))
def test_any_log(log: list[dict[str, Any]], scope: str, targets: list[int]) -> None:
    """Requests recorded all along any log are the same, or explained by redactions that came later."""
    with Store(":memory:") as store:
        requests = {}
        for event in log:
            store.append("c", [event])
            view = history(store, "c", scope)
            contents = [message.content for message in view]
            requests[store.append("c", [view.request()]).last] = contents
        known = [target for target in targets if target <= store.version("c")]
        if known:
            store.redact("c", known, reason="r")
        for found in replay(store, "c"):
            if found.version not in requests:
                assert found.outcome == "not-recorded"
            elif found.outcome == "same":
                now = history(store, "c", scope, found.at)
                assert [message.content for message in now] == requests[found.version]
            else:
                assert found.outcome == "redaction"
                assert {store.event(by.conversation, by.version).type for by in found.by} == {"redaction"}
                assert min(by.version for by in found.by) > found.version


def test_the_digest_is_as_documented(store: Store) -> None:
    """The digest of a history is made of the lines that docs/format.md says, redactions included."""
    store.append("c", [reply("more", "t2", "t1"), result("t1"), redact(2), redact(2, "someone")])
    view = history(store, "c")
    redactions = {2: [event.digest.hex() for event in (store.event("c", 12), store.event("c", 11))]}
    assert [message.version for message in view] == [5, 1, 2, 3, 5, 6, 9, 10]
    shown: list[Any] = [["chat", "b"]]
    for message in view:
        places = list(range(len(message.tool_calls)))
        shown.append([message.version, message.origin, message.role, message.assistant, False, places])
    sources = [store.event("c", version) for version in (5, 1, 2, 3, 5, 6, 9, 10)]
    shown += [[event.digest.hex(), *redactions.get(event.version, [])] for event in sources]
    text = "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in shown)
    assert view.digest == sha256(text.encode()).hexdigest()


class TestCommand:
    @pytest.fixture
    def path(self, tmp_path: Path) -> Path:
        with Store(tmp_path / "s.db") as store:
            store.append("c", TALK)
            sent(store)
            store.append("d", [said()])
        return tmp_path / "s.db"

    @staticmethod
    def run(path: Path, *arguments: str) -> Result:
        return CliRunner().invoke(main, [f"--db={path}", "replay", *arguments], catch_exceptions=False)

    def test_for_people(self, path: Path) -> None:
        """`replay` tells each request's outcome in a line, and that there are none."""
        assert self.run(path, "c").stdout.split() == ["8", "chat", "at", "7:", "same"]
        assert self.run(path, "d").stdout == "no requests\n"
        with Store(path) as store:
            store.redact("c", [2], reason="r")
        done = self.run(path, "c")
        assert (done.exit_code, done.stdout.split()[-4:]) == (0, ["redaction", "by", "version", "9"])
        with Store(path) as store:
            store.fork("c", 8, "f")
            store.redact("c", [3], reason="r")
        assert self.run(path, "f").stdout == "    8 chat at 7: redaction by version 9, 10 of c\n"

    def test_for_programs(self, path: Path) -> None:
        """`replay --json` gives a list of objects."""
        told = {"conversation": "c", "version": 8, "scope": "chat", "at": 7, "outcome": "same", "by": []}
        assert json.loads(self.run(path, "c", "--json").stdout) == [told]

    @pytest.mark.parametrize("options", [[], ["--json"]], ids=["for people", "json"])
    def test_what_nothing_explains(self, path: Path, options: list[str]) -> None:
        """A difference that nothing explains ends with 1, `--json` or not."""
        with Store(path) as store:
            store.append("c", [{"type": "request", "at": 3, "history": "0" * 64}])
        done = self.run(path, "c", *options)
        assert "unexplained" in done.stdout
        assert done.exit_code == 1
