"""The stored view `visible`: projected histories in SQL, for `turnlog query` and whatever else reads the file."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path

import pytest
from logs import SCOPES, random_log
from views import redact, user

from turnlog.projections import history, query, timeline
from turnlog.store import Store, StoreUnusable
from turnlog.store.spans import ORIGINS, ROLES, RULES_THAT_HIDE


def test_the_words_are_those_of_the_code() -> None:
    """The view names origins, roles and rules by the same numbers as the code."""
    with Store(":memory:") as store:
        (text,) = store.db.row("SELECT sql FROM sqlite_schema WHERE name = 'visible'") or ("",)
        lists = [json.loads(found) for found in re.findall(r"""'(\[\s*"[^']*)'""", text)]
        assert [tuple(words) for words in lists] == [ORIGINS, ROLES, RULES_THAT_HIDE]


@pytest.mark.parametrize("seed", range(20))
def test_it_has_the_spans(seed: int) -> None:
    """The view has every span of every scope, with what ended it."""
    log = random_log(random.Random(seed), 30)
    with Store(":memory:") as store:
        store.append("c", log)
        columns = "scope, version, origin, role, assistant, since, until, rule, by"
        rows = [row for row in query(store, f"SELECT {columns} FROM visible") if row[0] in SCOPES]
        expected = []
        for scope in {row[0] for row in rows}:
            line = timeline(store, "c", scope)
            spans = [span for version in range(1, len(log) + 1) for span in line.spans(version)]
            expected += [
                (scope, s.version, s.origin, s.role, s.assistant, s.since, s.until, s.rule, s.by)
                for s in spans
                if s.since != s.until
            ]
        assert sorted(rows, key=repr) == sorted(expected, key=repr)


def test_what_a_handoff_took() -> None:
    """`cause` is the transfer that ended a span; `lost` says that the message went and the transfer holds."""
    with Store(":memory:") as store:
        call = store.conversation("c")
        call.user("kept")
        call.reply("changed", [])
        call.transfer("b", context={"type": "lastNMessages", "maxMessages": 1})
        call.transfer("d", mode="delete-history")
        call.rewind(3)
        wanted = "version, until, cause, lost"
        rows = query(store, f"SELECT {wanted} FROM visible WHERE scope = 'chat' ORDER BY version, since")
        assert list(rows) == [(1, 3, 3, 1), (2, 4, 4, 0), (2, None, None, 0)]


def test_a_fork_shows_its_parents_texts() -> None:
    """What a fork shares is in the view under the fork's name too, with its text; what was redacted is not."""
    with Store(":memory:") as store:
        store.conversation("c").user("secret")
        store.fork("c", 1, "kid")
        assert list(query(store, "SELECT conversation, content FROM visible ORDER BY 1")) == [
            ("c", "secret"),
            ("kid", "secret"),
        ]
        store.redact("c", [1], reason="asked")
        assert {content for (content,) in query(store, "SELECT content FROM visible")} == {"[redacted]"}


def test_what_cannot_be_caught_up_is_refused(tmp_path: Path) -> None:
    """Of a file that cannot be written and whose timelines are behind, the view is refused, and the rest is not."""
    with Store(tmp_path / "s.db") as store:
        store.conversation("c").user("hi")
    with Store(tmp_path / "s.db", read_only=True) as store:
        with pytest.raises(StoreUnusable, match="its timelines are behind"):
            query(store, "SELECT * FROM visible")
        assert list(query(store, "SELECT content FROM messages")) == [("hi",)]


def test_a_replacement() -> None:
    """The views for SQL show what stands in place of a redacted text, as histories do, also once that is redacted."""
    log = [user("a"), user("b"), user("c"), redact(1, "x"), redact(1), redact(2), redact(3, "y"), redact(7)]
    with Store(":memory:") as store:
        store.append("c", log)
        expected = [message.content for message in history(store, "c")]
        assert expected == ["x", "[redacted]", "[redacted]"]
        for view in ("visible", "messages"):
            rows = query(store, f"SELECT content FROM {view} WHERE scope = 'chat' ORDER BY version")
            assert [content for (content,) in rows] == expected
