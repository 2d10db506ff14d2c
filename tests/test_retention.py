"""Retention: conversations in which nothing has happened for long are erased, all in one go."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from test_append import recorded, said
from test_redaction import SECRET, files_with

from turnlog.cli import main
from turnlog.store import InvalidArgument, Retention, Store
from turnlog.store.redact import erase_conversation

NOW = datetime.now(UTC)
LIMIT = NOW - timedelta(days=90)
AGES = ("90", "-1d", "1y", "d", "99999999999d", "9999999999999999999999h", "yesterday", "")


def ago(days: float, content: str = SECRET, **fields: Any) -> dict[str, Any]:
    """A message that was said so many days ago."""
    return said(content, occurred_at=(NOW - timedelta(days=days)).isoformat(), **fields)


def names(found: Retention) -> tuple[set[str | None], set[str | None]]:
    """What was erased, and what was kept."""
    return {each.name for each in found.erased}, {each.name for each in found.kept}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where a store is made with conversations of different ages."""
    path = tmp_path / "s.db"
    with Store(path, durability="normal") as store:
        store.append("old", [ago(200), ago(91)])
        store.append("new", [ago(200, "kept"), ago(89, "kept")])
        store.append("just", [said("kept")])
    return path


class TestOlderThan:
    """`Store.erase_older_than`."""

    def test_by_the_last_event(self, path: Path) -> None:
        """What goes by is the last event's time, by the clock that `list` shows; what goes leaves every file."""
        with Store(path) as store:
            owner = store.stream("old").uuid
            changed = {each.conversation: each.changed for each in store.conversations()}
            done = store.erase_older_than(LIMIT)
            assert [(each.conversation, each.name, each.changed, each.events) for each in done.erased] == [
                (owner, "old", changed["old"], 2)
            ]
            assert (done.kept, done.held_up_by) == ([], None)
            assert [each.conversation for each in store.conversations()] == [None, "new", "just"]
            assert files_with(path, SECRET) == []
            assert {event.body["reason"] for event in store.events(owner, 3)} == {"retention"}
            assert store.verify().faults == []

    def test_at_the_very_time(self, path: Path) -> None:
        """A conversation is older than a time if its last event is before it, to the microsecond."""
        with Store(path) as store:
            last = store.event("old", 2).time
            assert store.erase_older_than(last, dry_run=True).erased == []
            later = last + timedelta(microseconds=1)
            assert names(store.erase_older_than(later, dry_run=True)) == ({"old"}, set())

    def test_again(self, path: Path) -> None:
        """What was erased is not erased again, and what was said in it since makes it young."""
        with Store(path) as store:
            owner = store.erase_older_than(LIMIT).erased[0].conversation
            before = recorded(store)
            assert store.erase_older_than(NOW + timedelta(days=1), dry_run=True).erased != []
            assert store.erase_older_than(LIMIT).erased == []
            assert recorded(store) == before
            store.append(owner, [said("goes on")])
            assert store.erase_older_than(LIMIT).erased == []

    def test_a_redaction_is_no_sign_of_life(self, path: Path) -> None:
        """Who redacts in an old conversation does not put its erasure off."""
        with Store(path) as store:
            store.redact("old", [1], reason="asked for")
            assert names(store.erase_older_than(LIMIT)) == ({"old"}, set())
            assert files_with(path, SECRET, "asked for") == []

    def test_forks(self) -> None:
        """What a younger fork goes on from is kept, and named, if they share any of it; with an old fork both go."""
        with Store(":memory:") as store:
            store.append("root", [ago(300), ago(299), ago(298)])
            store.fork("root", 2, "middle")
            store.append("middle", [ago(250)])
            leaf = store.fork("middle", 1, "leaf").conversation
            # A fork begins now: its own last event says when something was said in it.
            store.append("middle", [ago(250)])
            store.append("leaf", [ago(240)])
            assert names(store.erase_older_than(LIMIT, dry_run=True)) == ({"root", "middle", "leaf"}, set())
            store.append("leaf", [said("young")])
            done = store.erase_older_than(LIMIT)
            # The leaf shares version 1, which is the root's, and nothing of the middle's own.
            assert names(done) == ({"middle"}, {"root"})
            assert done.kept[0].kept_for == leaf
            assert store.event("leaf", 1).body["content"] == SECRET

    def test_many_in_one_go(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """All is erased or nothing."""
        with Store(tmp_path / "s.db", durability="normal") as store:
            for number in range(5):
                store.append(f"c{number}", [ago(100)])
            before = recorded(store)
            calls = iter(range(3))
            monkeypatch.setattr(
                "turnlog.store.retention.erase_conversation",
                lambda *given, **named: (next(calls), erase_conversation(*given, **named))[1],
            )
            with pytest.raises(StopIteration):
                store.erase_older_than(LIMIT)
            assert recorded(store) == before
            monkeypatch.undo()
            assert len(store.erase_older_than(LIMIT).erased) == 5
            assert files_with(tmp_path / "s.db", SECRET) == []

    @pytest.mark.parametrize("dry_run", [False, True])
    def test_what_makes_no_sense(self, path: Path, dry_run: bool) -> None:
        """A time without a time zone, or none, and a reason that is no text, are refused by field."""
        with Store(path) as store:
            for time in (datetime(2026, 1, 1), "90d", None):
                with pytest.raises(InvalidArgument, match=r"^time"):
                    store.erase_older_than(time, dry_run=dry_run)  # type: ignore[arg-type]
            with pytest.raises(InvalidArgument, match=r"^reason"):
                store.erase_older_than(LIMIT, reason=None, dry_run=dry_run)  # type: ignore[arg-type]


def run(path: Path, *arguments: str) -> Result:
    return CliRunner().invoke(main, [f"--db={path}", *arguments], catch_exceptions=False)


class TestCommand:
    """`turnlog erase --older-than`."""

    def test_it_tells(self, path: Path) -> None:
        """A dry run lists what would go and changes nothing; then the same is listed as gone."""
        with Store(path) as store:
            store.append("rootlike", [ago(300)])
            store.fork("rootlike", 1, "goes on")
            last = f"{store.event('old', 2).time:%Y-%m-%d %H:%M:%S}"
        before = path.read_bytes()
        told = run(path, "erase", "--older-than=90d", "--dry-run").stdout.splitlines()
        assert told[0] == f"would go: old, 2 events, the last of {last}"
        assert told[1].startswith("kept: rootlike, 1 event, the last of ")
        assert told[1].endswith(": its fork goes on goes on")
        assert path.read_bytes() == before
        found = json.loads(run(path, "erase", "--older-than=90d", "--json").stdout)
        assert [each["name"] for each in found["erased"]] == ["old"]
        assert files_with(path, "filler") == []
        assert run(path, "erase", "--older-than=90d").stdout.splitlines()[-1] == "nothing to erase"

    @pytest.mark.parametrize(("age", "is_old"), [("12h", True), ("12w", True), ("14w", False), ("2020-01-01", False)])
    def test_ages(self, path: Path, age: str, is_old: bool) -> None:
        """An age is a number of hours, days or weeks; a time is taken as such, in UTC unless it says otherwise."""
        told = run(path, "erase", f"--older-than={age}", "--dry-run").stdout
        assert ("would go: old" in told) is is_old
        time = (NOW - timedelta(days=90)).isoformat()
        assert "would go: old" in run(path, "erase", f"--older-than={time}", "--dry-run").stdout

    @pytest.mark.parametrize("arguments", [[], ["old", "--older-than=90d"], *([f"--older-than={age}"] for age in AGES)])
    def test_misuse(self, path: Path, arguments: list[str]) -> None:
        """No age, one that is none, and a conversation beside an age are refused, and nothing is erased."""
        before = path.read_bytes()
        assert run(path, "erase", *arguments).exit_code == 2
        assert path.read_bytes() == before
