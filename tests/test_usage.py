"""Usage: the tokens that models took, per conversation, scope, assistant and model (DESIGN section 7)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from hypothesis import given, settings
from hypothesis import strategies as st
from test_append import said
from views import Event, assistant, event, rewind, summary, to

from turnlog.cli import main
from turnlog.projections import UsageRow, usage
from turnlog.store import NotFound, Store

COUNTS = ("prompt_tokens", "completion_tokens", "total_tokens", "cached_tokens", "reasoning_tokens")


def spent(prompt: int, completion: int, cached: int | None = None, reasoning: int | None = None) -> dict[str, Any]:
    found = {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}
    more = {"cached_tokens": cached, "reasoning_tokens": reasoning}
    return found | {name: count for name, count in more.items() if count is not None}


def request(model: str | None = None, scope: str = "chat") -> Event:
    return event("request", at=0, scope=scope, model=model)


def response(to: int, prompt: int, completion: int = 0, status: str = "completed", **fields: Any) -> Event:
    usage = spent(prompt, completion, fields.pop("cached", None), fields.pop("reasoning", None))
    return event("response", request=to, status=status, usage=usage, **fields)


def told(rows: list[UsageRow]) -> list[tuple[str, str | None, str | None, int, int]]:
    return [(row.scope, row.assistant, row.model, row.calls, row.total_tokens) for row in rows]


def used(*events: Event) -> list[tuple[str, str | None, str | None, int, int]]:
    """Each row's scope, assistant, model, calls and tokens in all."""
    with Store(":memory:") as store:
        store.append("c", events)
        return told(usage(store, "c"))


def test_every_count() -> None:
    """A row adds up all counts of its calls; what a call does not tell counts as none."""
    with Store(":memory:") as store:
        store.append("c", [request("m"), response(1, 10, 5, cached=4), response(1, 20, 7, cached=1, reasoning=3)])
        store.append("c", [response(1, 1)])
        (row,) = usage(store, "c")
        assert (row.conversation, row.calls) == ("c", 3)
        assert [getattr(row, count) for count in COUNTS] == [31, 12, 43, 5, 3]


def test_per_model() -> None:
    """A response's model is the one that its request names, whatever was requested since; none if it names none."""
    events = [
        request("x"),
        request("y"),
        request(),
        response(1, 1),
        response(2, 10),
        response(3, 100),
        response(1, 1000),
    ]
    assert used(*events) == [("chat", None, "x", 2, 1001), ("chat", None, "y", 1, 10), ("chat", None, None, 1, 100)]


def test_per_assistant() -> None:
    """Tokens count for the assistant that is active when the response comes, after transfers and rewinds too."""
    events = [request("m"), response(1, 1), assistant("a"), response(1, 10), to("b"), response(1, 100)]
    events += [
        to("a"),
        response(1, 1000),
        rewind(5),
        response(1, 10_000),
        rewind(2, scope="chat"),
        response(1, 100_000),
    ]
    assert used(*events) == [
        ("chat", None, "m", 2, 100_001),
        ("chat", "a", "m", 2, 1010),
        ("chat", "b", "m", 2, 10_100),
    ]


def test_per_scope() -> None:
    """Each scope has rows and an active assistant of its own."""
    events = [assistant("a"), assistant("k", scope="coder"), request("m"), request("m", scope="coder")]
    events += [response(3, 1), response(4, 10, scope="coder"), to("l", scope="coder"), response(4, 100, scope="coder")]
    assert used(*events) == [("chat", "a", "m", 1, 1), ("coder", "k", "m", 1, 10), ("coder", "l", "m", 1, 100)]


@pytest.mark.parametrize("status", ["processing", "completed", "error"])
def test_whatever_came_of_it(status: str) -> None:
    """A response that failed or is not complete took what it says it took."""
    assert used(request("m"), response(1, 7, status=status)) == [("chat", None, "m", 1, 7)]


def test_rewound_is_spent() -> None:
    """What a rewind abandoned was spent all the same."""
    assert used(request("m"), response(1, 7), rewind(1), response(1, 5)) == [("chat", None, "m", 2, 12)]


def test_summaries() -> None:
    """A summary's tokens count for its method, in the place of a model."""
    found = used(assistant("a"), said(), summary("s", 2, 2, method="digest", usage=spent(3, 4)), summary("s", 2, 2))
    assert found == [("chat", "a", "digest", 1, 7)]


def test_what_tells_no_usage() -> None:
    """A response without usage, and a conversation without responses, have no row."""
    assert used(request("m"), event("response", request=1, status="completed", response="x"), said()) == []


def test_redacted() -> None:
    """Counts survive a redaction, of the response and of the request; what the model was called does not."""
    with Store(":memory:") as store:
        store.append(
            "c", [request("m"), response(1, 7), said(), summary("s", 3, 3, method="digest", usage=spent(1, 1))]
        )
        store.redact("c", [2], reason="r")
        assert told(usage(store, "c")) == [("chat", None, "m", 1, 7), ("chat", None, "digest", 1, 2)]
        store.redact("c", [1, 4], reason="r")
        assert told(usage(store, "c")) == [("chat", None, None, 2, 9)]


def test_forks() -> None:
    """A fork counts its own tokens and not again what it shares, with the assistants and requests that it shares."""
    with Store(":memory:") as store:
        store.append("c", [assistant("a"), request("m"), response(2, 7)])
        store.fork("c", name="f")
        assert usage(store, "f") == []
        store.append("f", [response(2, 5), to("b"), response(2, 50)])
        store.append("c", [response(2, 500)])
        assert told(usage(store, "f")) == [("chat", "a", "m", 1, 5), ("chat", "b", "m", 1, 50)]
        assert told(usage(store, "c")) == [("chat", "a", "m", 2, 507)]
        assert sum(row.total_tokens for row in usage(store)) == 562


def test_the_whole_store() -> None:
    """Without a conversation there are the rows of all, in the order in which they began, by name or uuid."""
    with Store(":memory:") as store:
        for name, tokens in (("one", 1), ("two", 2), ("three", 3)):
            store.append(name, [request("m"), response(1, tokens)])
        store.append("none", [said()])
        store.rename("two", None)
        nameless = store.conversations()[1].uuid
        assert [(row.conversation, row.total_tokens) for row in usage(store)] == [
            ("one", 1),
            (nameless, 2),
            ("three", 3),
        ]
        with pytest.raises(NotFound) as missing:
            usage(store, "two")
        assert (missing.value.kind, missing.value.value) == ("conversation", "two")


EVENTS = st.one_of(
    st.builds(response, st.just(1), st.integers(0, 9), st.integers(0, 9), scope=st.sampled_from(("chat", "coder"))),
    st.builds(to, st.sampled_from("ab"), scope=st.sampled_from(("chat", "coder"))),
    st.builds(assistant, st.sampled_from("ab"), scope=st.sampled_from(("chat", "coder"))),
    st.builds(rewind, st.just(1)),
)


@settings(max_examples=60, deadline=None)
@given(st.lists(EVENTS, max_size=20))
def test_nothing_is_lost(events: list[Event]) -> None:
    """Whatever happens meanwhile, the rows add up to what the responses say, and none is there twice."""
    with Store(":memory:") as store:
        store.append("c", [request("m"), *events])
        rows = usage(store, "c")
        counted = [each["usage"] for each in events if each["type"] == "response"]
        assert sum(row.calls for row in rows) == len(counted)
        for count in COUNTS[:3]:
            assert sum(getattr(row, count) for row in rows) == sum(each[count] for each in counted)
        assert len({(row.scope, row.assistant, row.model) for row in rows}) == len(rows)


class TestCommand:
    @pytest.fixture
    def path(self, tmp_path: Path) -> Path:
        with Store(tmp_path / "s.db") as store:
            store.append("c", [assistant("a"), request("m"), response(2, 1200, 34, cached=1000)])
            store.append("d", [said()])
        return tmp_path / "s.db"

    @staticmethod
    def run(path: Path, *arguments: str) -> Result:
        return CliRunner().invoke(main, [f"--db={path}", "usage", *arguments], catch_exceptions=False)

    def test_for_people(self, path: Path) -> None:
        """`usage` prints a table with a row for each, and says that there is none."""
        heading, row = self.run(path).stdout.splitlines()
        assert heading.split()[:4] == ["conversation", "scope", "assistant", "model"]
        assert row.split() == ["c", "chat", "a", "m", "1", "1,200", "34", "1,234", "1,000"]
        assert self.run(path, "d").stdout == "no usage\n"

    def test_for_programs(self, path: Path) -> None:
        """`usage --json` gives a list of objects with every count."""
        (row,) = json.loads(self.run(path, "c", "--json").stdout)
        assert row == {"conversation": "c", "scope": "chat", "assistant": "a", "model": "m", "calls": 1} | dict(
            zip(COUNTS, (1200, 34, 1234, 1000, 0), strict=True)
        )

    def test_a_refusal(self, path: Path) -> None:
        """A conversation that does not exist is refused in one line."""
        done = self.run(path, "x")
        assert (done.exit_code, done.stdout, len(done.stderr.splitlines())) == (1, "", 1)
