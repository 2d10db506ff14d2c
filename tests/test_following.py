"""A view kept open: after catching up it is the view that is read anew, whoever has written meanwhile."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from logs import SCOPES, logs, what_ifs
from test_paging import counted
from views import assistant, reply, rewind, to, told, user

from turnlog.projections import Following, follow, history
from turnlog.store import InvalidEvent, NotFound, Store, StoreBusy

Log = list[dict[str, Any]]


def same(view: Following, store: Store, conversation: str, scope: str = "chat", **what_if: Any) -> None:
    """Compare a view kept open with one that is read anew."""
    anew = history(store, conversation, scope, **what_if)
    assert view.version == anew.version
    assert told(view) == told(anew)
    assert (list(view), len(view), view[-3:], view.unpaired) == (
        anew.messages,
        len(anew.messages),
        anew.messages[-3:],
        anew.unpaired,
    )
    assert (view.tools, view.model, view.digest) == (anew.tools, anew.model, anew.digest)


@settings(max_examples=40, deadline=None)
@given(log=logs(), scope=st.sampled_from(SCOPES), what_if=what_ifs, data=st.data())
def test_it_is_the_view_read_anew(log: Log, scope: str, what_if: dict[str, Any], data: st.DataObject) -> None:
    """At any point of any log, whatever came in between, redactions and rewinds included."""
    with Store(":memory:") as store:
        at = data.draw(st.integers(1, len(log)))
        store.append("c", log[:at])
        view = follow(store, "c", scope, **what_if)
        same(view, store, "c", scope, **what_if)
        while at < len(log):
            then = data.draw(st.integers(at + 1, len(log)))
            store.append("other", [user("not here")])
            store.append("c", log[at:then])
            assert view.catch_up() == then - at
            assert view.catch_up() == 0
            same(view, store, "c", scope, **what_if)
            at = then


def test_it_sees_what_another_process_writes(tmp_path: Path) -> None:
    """What counts is the file: another store's appends are taken in, in order, and nothing is read again."""
    with Store(tmp_path / "s.db") as store, Store(tmp_path / "s.db") as other:
        store.append("c", [assistant("a", "You greet."), user("hi")])
        view = follow(store, "c")
        assert [message.content for message in view] == ["You greet.", "hi"]
        before = view.messages
        other.append("c", [reply("hello"), to("b", system="You bill.")])
        assert view.catch_up() == 2
        with counted(store) as read:
            assert [message.content for message in view] == ["You greet.", "hi", "hello", "You bill."]
        assert (view.assistant, view.version, read.rows) == ("b", 4, 0)
        assert [message.content for message in before] == ["You greet.", "hi"]
        other.append("c", [rewind(2)])
        assert view.catch_up() == 1
        assert view.messages == before


def test_a_fork_follows_the_redactions_of_its_parent() -> None:
    """What both share is redacted in the parent; the parent's later messages are not the fork's."""
    with Store(":memory:") as store:
        store.append("c", [user("a secret"), user("kept")])
        store.fork("c", 2, "kid")
        view = follow(store, "kid")
        assert [message.content for message in view] == ["a secret", "kept"]
        store.append("c", [user("later")])
        store.redact("c", [1], reason="asked for", replacement="a name")
        assert view.catch_up() == 1
        same(view, store, "kid")
        assert [message.content for message in view] == ["a name", "kept"]
        store.redact("c", [4], reason="the replacement told too much")
        assert view.catch_up() == 1
        same(view, store, "kid")
        assert [message.content for message in view] == ["[redacted]", "kept"]


def test_what_is_appended_while_it_is_opened_is_there_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """An event that lands between the position and the log that are read is neither missed nor met twice."""
    with Store(":memory:") as store:
        store.append("c", [user("one")])
        position = store.position()
        store.append("c", [user("two")])
        monkeypatch.setattr(store, "position", lambda: position)
        view = follow(store, "c")
        monkeypatch.undo()
        assert view.catch_up() == 0
        same(view, store, "c")


def test_what_a_transaction_took_back_is_gone() -> None:
    """A view that has caught up inside of a transaction shows nothing that was undone with it, and misses nothing."""
    with Store(":memory:") as store:
        store.append("c", [user("one")])
        view = follow(store, "c")
        with suppress(KeyError), store.transaction():
            store.append("c", [user("never said")])
            assert view.catch_up() == 1
            assert view[-1].content == "never said"
            raise KeyError
        store.append("c", [user("real")])
        store.append("c", [user("real too")])
        assert view.catch_up() == 1
        same(view, store, "c")


def test_it_has_the_name_that_the_conversation_has() -> None:
    """A new name is told once caught up, and a name that was erased no more."""
    with Store(":memory:") as store:
        store.append("c", [user("one")])
        view = follow(store, "c")
        store.rename("c", "d")
        assert (view.catch_up(), view.conversation) == (0, "d")
        store.erase("d")
        assert view.catch_up() == 1
        assert view.to_dict()["conversation"] == store.conversations()[0].uuid


def test_an_error_leaves_it_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    """If the log cannot be read to its end, nothing is taken in, and all of it the next time."""
    with Store(":memory:") as store:
        store.append("c", [user("one")])
        view = follow(store, "c")
        store.append("c", [user(str(number)) for number in range(1500)])
        rows, reads = store.db.rows, iter(range(9))

        def failing(sql: str, parameters: Any = ()) -> Any:
            if "events.position >" in sql and next(reads):
                raise StoreBusy("c", 0)
            return rows(sql, parameters)

        monkeypatch.setattr(store.db, "rows", failing)
        with pytest.raises(StoreBusy):
            view.catch_up()
        monkeypatch.undo()
        assert (view.version, len(view)) == (1, 1)
        assert view.catch_up() == 1500
        same(view, store, "c")


def test_an_error_while_it_reads_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """A view that has to be read anew stays as it was until that has been done."""
    with Store(":memory:") as store:
        store.append("c", [user("one")])
        view = follow(store, "c")
        with store.transaction():
            store.append("c", [user("two")])
            assert view.catch_up() == 1
        store.append("c", [user("three")])

        def failing(*_: Any) -> Any:
            raise StoreBusy("c", 0)

        monkeypatch.setattr(store, "shapes", failing)
        with pytest.raises(StoreBusy):
            view.catch_up()
        monkeypatch.undo()
        assert (view.version, len(view)) == (2, 2)
        assert view.catch_up() == 1
        same(view, store, "c")


def test_refusals() -> None:
    """A conversation, scope or mode that is none is refused as `history` refuses it."""
    with Store(":memory:") as store:
        with pytest.raises(NotFound):
            follow(store, "nobody")
        store.append("c", [user("one")])
        with pytest.raises(NotFound):
            follow(store, "c", "lab")
        with pytest.raises(InvalidEvent):
            follow(store, "c", mode="sideways")  # type: ignore[arg-type]
