"""Findings: each by the smallest log that causes it, and by one that nearly does (DESIGN section 7)."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from test_newer_logs import NEWER, chained
from views import (
    DELETE,
    REMOVE,
    SHARED,
    SWAP,
    Event,
    assistant,
    clear,
    event,
    note,
    redact,
    reply,
    result,
    rewind,
    summary,
    to,
    user,
    view,
)

from turnlog.cli import main
from turnlog.projections import ADVICE, Finding, Problem, check, handoffs
from turnlog.store import NotFound, Store, read_line

F, G = [{"name": "f"}], [{"name": "g"}]
WAITS = "assistant-waits-for-user"
Where = tuple[int, str | None]  # An event's version, and a call's id.


def a(system: str | None = "A", **fields: Any) -> Event:
    return assistant("a", system, **fields)


EARLIER, LATER = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"
CAUSES: list[tuple[str, list[Event], list[Where]]] = [
    ("several-prompts", [a(), to("b", system="B")], [(2, None)]),
    ("several-prompts", [a(), to("b", system="B"), to("c", SWAP, "C"), to("a")], [(4, None)]),
    ("no-prompt", [a(None)], [(1, None)]),
    ("no-prompt", [a(""), user("x")], [(1, None)]),
    ("no-prompt", [a(), to("b", SWAP)], [(2, None)]),
    ("no-prompt", [a(), to("b", DELETE, ""), user("x")], [(2, None)]),
    ("no-prompt", [a(), a("")], [(1, None)]),
    ("foreign-tool-calls", [a(tools=F), reply("", "t1"), result("t1"), to("b", SWAP, "B", tools=G)], [(2, "t1")]),
    ("foreign-tool-calls", [a(tools=[]), reply("", "t1", "t2"), result("t1"), result("t2")], [(2, "t1"), (2, "t2")]),
    ("foreign-tool-calls", [a(tools=G), reply("", "t1", **SHARED), result("t1", **SHARED)], [(2, "t1")]),
    ("unanswered-call", [reply("", "t1")], [(1, "t1")]),
    ("unanswered-call", [reply("", "t1", "t2"), result("t2"), user("x")], [(1, "t1")]),
    ("unanswered-call", [reply("", "t1"), result("t1"), reply("", "t1")], [(3, "t1")]),
    ("orphan-result", [result("t1")], [(1, None)]),
    ("duplicate-result", [reply("", "t1"), result("t1"), result("t1")], [(3, None)]),
    ("nothing-removed", [a(), to("b", REMOVE)], [(2, None)]),
    ("nothing-removed", [a(), reply("", "t1"), to("b", REMOVE, tool_call_id="t2")], [(3, None)]),
    ("summary-cuts-pair", [reply("", "t1"), result("t1"), summary("s", 1, 1)], [(3, None)]),
    ("summary-cuts-pair", [reply("", "t1"), result("t1"), summary("s", 2, 2)], [(3, None)]),
    ("times-not-in-order", [user("x", occurred_at=LATER), user("y", occurred_at=EARLIER)], [(2, None)]),
    ("self-transfer", [a(), to("a")], [(2, None)]),
    ("self-transfer", [to("b"), to("b"), to("b", SWAP)], [(2, None), (3, None)]),
    ("unknown-from", [a(), to("c", **{"from": "b"})], [(2, None)]),
    ("unknown-from", [to("c", **{"from": "b"})], [(1, None)]),
    ("unknown-from", [a(), to("b", **{"from": "a"}), to("c", **{"from": "a"})], [(3, None)]),
    ("repeated-first-message", [a(first_message="Hi."), to("b"), to("a")], [(3, None)]),
    ("repeated-first-message", [a(first_message="Hi."), to("b"), to("a", first_message="Again.")], [(3, None)]),
    ("summary-covers-nothing-visible", [note("n"), summary("s", 1, 1)], [(2, None)]),
    ("summary-covers-nothing-visible", [user("x"), clear(), summary("s", 1, 1)], [(3, None)]),
    ("summary-tells-hidden", [user("x"), to("b", DELETE), user("y"), summary("s", 1, 3)], [(4, None)]),
    (
        "summary-tells-hidden",
        [user("x"), to("b", context={"type": "none"}), user("y"), summary("s", 1, 3)],
        [(4, None)],
    ),
    ("redacted-since-request", [user("x"), event("request", at=1), redact(1)], [(2, None)]),
    (
        "redacted-since-request",
        [a(), event("request", at=1), event("request", at=1), redact(1)],
        [(2, None), (3, None)],
    ),
    ("redacted-since-request", [user("x"), event("request", at=1), redact(1), redact(1, "new")], [(2, None)]),
    ("redacted-since-request", [user("x", **SHARED), event("request", at=1), redact(1)], [(2, None)]),
]
NEARLY: list[tuple[str, list[Event]]] = [
    ("several-prompts", [a(), to("b", SWAP, "B")]),
    ("several-prompts", [a(), to("b")]),
    ("several-prompts", [a(), to("b", system="")]),
    ("several-prompts", [a(), to("a", system="A again")]),
    ("several-prompts", [a(), assistant("b", "B")]),
    ("several-prompts", [a(), assistant("k", "K", scope="coder")]),
    ("several-prompts", [a(), to("b", system="B"), rewind(1)]),
    ("no-prompt", [user("x")]),
    ("no-prompt", [a()]),
    ("no-prompt", [a(), to("b")]),
    ("no-prompt", [a(), assistant("b", "B"), to("b", SWAP)]),
    ("foreign-tool-calls", [a(tools=F), reply("", "t1"), result("t1"), to("b", SWAP, "B", tools=[*G, *F])]),
    ("foreign-tool-calls", [a(tools=F), reply("", "t1"), result("t1"), to("b", SWAP, "B")]),
    (
        "foreign-tool-calls",
        [a(tools=F), reply("", "t1"), result("t1"), to("b", REMOVE, "B", tools=G, tool_call_id="t1")],
    ),
    ("foreign-tool-calls", [a(tools=F), reply("", "t1"), result("t1"), clear(), to("b", SWAP, "B", tools=G)]),
    ("unanswered-call", [reply("", "t1"), result("t1")]),
    ("unanswered-call", [reply("", "t1"), clear()]),
    ("unanswered-call", [reply("", "t1"), user("x"), result("t1")]),
    ("orphan-result", [reply("", "t1"), result("t1")]),
    ("orphan-result", [reply("", "t1"), clear(), result("t1")]),
    ("nothing-removed", [a(), reply("", "t1"), to("b", REMOVE, tool_call_id="t1")]),
    ("nothing-removed", [a(), to("b", SWAP)]),
    ("nothing-removed", [a(), to("b", REMOVE), rewind(1)]),
    ("summary-cuts-pair", [reply("", "t1"), result("t1"), summary("s", 1, 2)]),
    ("summary-cuts-pair", [reply("", "t1"), summary("s", 1, 1)]),
    ("times-not-in-order", [user("x", occurred_at=EARLIER), user("y", occurred_at=LATER)]),
    ("orphan-result", [reply("", "t1"), result("t1"), clear()]),
    ("orphan-result", [reply("", "t1"), to("b", DELETE), result("t1")]),
    ("duplicate-result", [reply("", "t1"), result("t1"), reply("", "t1"), result("t1")]),
    ("duplicate-result", [reply("", "t1"), result("t1"), result("t1"), rewind(2)]),
    ("self-transfer", [a(), to("b"), to("a")]),
    ("self-transfer", [a(), to("a"), rewind(1)]),
    ("self-transfer", [a(), to("a", scope="coder")]),
    ("unknown-from", [a(), to("b", **{"from": "a"})]),
    ("unknown-from", [a(), to("b")]),
    ("unknown-from", [a(), to("c", **{"from": "b"}), rewind(1)]),
    ("repeated-first-message", [a(first_message="Hi."), to("b"), to("a", first_message_mode=WAITS)]),
    ("repeated-first-message", [a(first_message="Hi."), to("b", first_message="Hi.")]),
    ("repeated-first-message", [a(first_message="Hi."), clear(), to("b"), to("a")]),
    ("repeated-first-message", [a(first_message="Hi."), to("b"), to("a", first_message="")]),
    ("summary-covers-nothing-visible", [user("x"), summary("s", 1, 1)]),
    ("summary-covers-nothing-visible", [user("x"), clear(), summary("s")]),
    ("summary-tells-hidden", [user("x"), to("b", DELETE), user("y"), summary("s", 3, 3)]),
    ("summary-tells-hidden", [user("x"), clear(), user("y"), summary("s", 1, 3)]),
    ("summary-tells-hidden", [user("x"), summary("s", 1, 1), to("b", DELETE)]),
    ("summary-tells-hidden", [user("x"), to("b", DELETE), user("y"), summary("s", 1, 3), clear()]),
    ("summary-tells-hidden", [a(), to("b", SWAP), user("y"), summary("s", 1, 3)]),
    ("unknown-event", [event("x:mark", anything=True)]),
    ("redacted-since-request", [user("x"), redact(1), event("request", at=2)]),
    ("redacted-since-request", [user("x"), user("y"), event("request", at=1), redact(2)]),
    ("redacted-since-request", [user("x"), clear(), event("request", at=2), redact(1)]),
    ("redacted-since-request", [user("x"), event("request", at=1, scope="coder"), redact(1)]),
    ("redacted-since-request", [user("x"), event("request", at=1)]),
]


def found(rule: str, problems: list[Problem]) -> list[Where]:
    return [(problem.version, problem.call) for problem in problems if problem.rule == rule]


def shortly(value: object) -> str:
    """A log by its events' types, as the name of a test."""
    return "-".join(event["type"] for event in value) if isinstance(value, list) and "type" in value[0] else str(value)


@pytest.mark.parametrize(("rule", "log", "where"), CAUSES, ids=shortly)
def test_what_causes_it(rule: str, log: list[Event], where: list[Where]) -> None:
    """A finding is told with its event and, of a call, the call, and with its line of advice."""
    problems = view(*log).problems
    assert found(rule, problems) == where
    assert {problem.advice for problem in problems if problem.rule == rule} == {ADVICE[rule]}


@pytest.mark.parametrize(("rule", "log"), NEARLY, ids=shortly)
def test_what_nearly_does(rule: str, log: list[Event]) -> None:
    """A log that comes close to causing a finding does not."""
    assert found(rule, view(*log).problems) == []


def test_an_unknown_event() -> None:
    """An event of a newer build is found in the scopes that would have read it."""
    with Store(":memory:") as store:
        store.restore(map(read_line, chained({}, NEWER[0])))
        assert [(each.scope, each.version, each.rule) for each in check(store, store.conversations()[0].uuid)] == [
            ("chat", 2, "unknown-event")
        ]


def test_every_finding_is_tried() -> None:
    """Every rule that there is has a log that causes it here and one that nearly does, and is in the documentation."""
    assert {rule for rule, *_ in CAUSES} | {"unknown-event"} == set(ADVICE)
    assert {rule for rule, _ in NEARLY} == set(ADVICE)
    page = (Path(__file__).parent.parent / "docs" / "findings.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^\| `([a-z-]+)` \|", page, re.MULTILINE)) == set(ADVICE)
    assert all("\n" not in advice for advice in ADVICE.values())


def test_a_clean_log() -> None:
    """A handoff that swaps the prompt, with its calls answered and removed, has nothing to look at."""
    log = [a(tools=F), user("x"), reply("one moment", "t1"), result("t1")]
    assert view(*log, to("b", REMOVE, "B", tools=G, tool_call_id="t1"), user("y"), reply("z")).problems == []


class TestHandoffs:
    def test_what_a_transfer_caused(self) -> None:
        """A handoff tells the findings that it caused, and not those that were there before."""
        with Store(":memory:") as store:
            store.append("c", [a(tools=F), reply("", "t1"), to("b", system="B", tools=G), to("c", SWAP, "C", tools=G)])
            one, two = ({problem.rule for problem in handoff.problems} for handoff in handoffs(store, "c"))
        assert one == {"several-prompts", "foreign-tool-calls"}
        assert two == set()

    @pytest.mark.parametrize("options", [[], ["--json"]], ids=["for people", "json"])
    def test_on_the_command_line(self, tmp_path: Path, options: list[str]) -> None:
        """`handoffs` and `history` show the findings, to people and to programs."""
        with Store(tmp_path / "s.db") as store:
            store.append("c", [a(), to("b", system="B")])
        for command in ("handoffs", "history"):
            done = CliRunner().invoke(main, [f"--db={tmp_path / 's.db'}", command, "c", *options])
            assert "several-prompts" in done.stdout
            assert ADVICE["several-prompts"][:40] in done.stdout


class TestCheck:
    @pytest.fixture
    def path(self, tmp_path: Path) -> Path:
        """Three conversations: one with findings in two scopes, one with another, one with none."""
        with Store(tmp_path / "s.db") as store:
            store.append("both", [reply("", "t1"), a(), result("t9", scope="coder"), to("a")])
            store.append("other", [a(None), to("a")])
            store.append("none", [user("x")])
        return tmp_path / "s.db"

    @staticmethod
    def run(path: Path, *arguments: str) -> Result:
        return CliRunner().invoke(main, [f"--db={path}", "check", *arguments], catch_exceptions=False)

    def test_each_scope(self, path: Path) -> None:
        """The findings of a conversation are those of each scope that it uses, as it is now."""
        with Store(path) as store:
            assert list(check(store, "both")) == [
                Finding("both", "chat", "unanswered-call", 1, ADVICE["unanswered-call"], "t1"),
                Finding("both", "chat", "self-transfer", 4, ADVICE["self-transfer"]),
                Finding("both", "coder", "orphan-result", 3, ADVICE["orphan-result"]),
            ]
            assert list(check(store, "none")) == []
            with pytest.raises(NotFound) as missing:
                list(check(store, "x"))
            assert (missing.value.kind, missing.value.value) == ("conversation", "x")

    @pytest.mark.parametrize(
        ("arguments", "rules"),
        [
            ([], ["unanswered-call", "self-transfer", "orphan-result", "no-prompt", "self-transfer"]),
            (["both"], ["unanswered-call", "self-transfer", "orphan-result"]),
            (["none"], []),
            (["none", "other"], ["no-prompt", "self-transfer"]),
            (["--only=self-transfer"], ["self-transfer", "self-transfer"]),
            (["--only=no-prompt", "both"], []),
            (["--only=no-prompt", "other", "both"], ["no-prompt"]),
            (["--only=duplicate-result"], []),
        ],
        ids=str,
    )
    def test_what_it_looks_for(self, path: Path, arguments: list[str], rules: list[str]) -> None:
        """`check` looks at the conversations named, or all, for one rule or all, and ends with 1 if it found any."""
        told = self.run(path, *arguments, "--json")
        assert [finding["rule"] for finding in json.loads(told.stdout)] == rules
        people = self.run(path, *arguments)
        assert [people.stdout.count(f" {rule}") for rule in set(rules)] == [rules.count(rule) for rule in set(rules)]
        found = "1 finding" if len(rules) == 1 else f"{len(rules)} findings"
        assert people.stdout.splitlines()[-1].endswith(f", {found}")
        assert (told.exit_code, people.exit_code) == (bool(rules), bool(rules))

    def test_a_finding_s_object(self, path: Path) -> None:
        """`check --json` gives for each finding whose it is, the event, the call and the advice."""
        (told,) = json.loads(self.run(path, "both", "--only=unanswered-call", "--json").stdout)
        assert told == {
            "conversation": "both",
            "scope": "chat",
            "rule": "unanswered-call",
            "version": 1,
            "advice": ADVICE["unanswered-call"],
            "call": "t1",
        }

    @pytest.mark.parametrize(("arguments", "code"), [(["x"], 1), (["both", "x"], 1), (["--only=novel"], 2)], ids=str)
    def test_refusals(self, path: Path, arguments: list[str], code: int) -> None:
        """A conversation that does not exist is refused, and an unknown rule is wrong usage; nothing is printed."""
        done = self.run(path, *arguments)
        assert (done.exit_code, done.stdout) == (code, "")
        assert done.stderr
