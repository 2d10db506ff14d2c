"""Erasing a whole conversation: what goes, what stays, and what a writer that knew its name meets."""

from __future__ import annotations

import json

import pytest
from test_append import recorded, said
from test_redaction_views import SECRET, TALK, contents
from views import redact, seen

from turnlog.store import MUST_EXIST, InvalidArgument, InvalidEvent, NameTaken, NotFound, Store, VersionConflict


class TestErase:
    """`Store.erase`."""

    def test_everything_but_the_chain(self) -> None:
        """Erasing a conversation erases all that its events say and its name, and leaves its frames and chain."""
        with Store(":memory:") as store:
            owner = store.append("c", [*TALK, redact(2), {"type": "rewind", "to": 8}]).conversation
            frames = [(event.frame_text, event.digest) for event in store.events("c")]
            done = store.erase("c", reason="the law")
            assert {target.version for target in done.erased} == set(range(1, 9)) - {2}
            assert [(event.frame_text, event.digest) for event in store.events(owner, last=9)] == frames
            assert SECRET not in json.dumps([event.body for event in store.events(owner)])
            assert {event.body["reason"] for event in store.events(owner, 10)} == {"the law"}
            assert contents(store, owner) == ["[redacted]"] * len(seen(store, owner))
            assert store.verify().faults == []

    def test_the_name_is_free(self) -> None:
        """An erased conversation has no name and is found by its uuid; another may take the name."""
        with Store(":memory:") as store:
            owner = store.append("c", [said(SECRET)]).conversation
            store.erase("c")
            with pytest.raises(NotFound):
                store.stream("c")
            assert store.stream(owner).name is None
            assert store.append("c", [said("new")]).conversation != owner
            with pytest.raises(NameTaken):
                store.rename(owner, "c")

    def test_twice(self) -> None:
        """Erasing what is erased changes nothing at all, whatever the reason, and what was said since goes."""
        with Store(":memory:") as store:
            owner = store.append("c", [*TALK, redact(2)]).conversation
            store.erase("c", reason="the law")
            before = recorded(store)
            for reason in ("the law", "another"):
                again = store.erase(owner, reason=reason)
                assert (again.erased, again.summaries, again.receipts, again.left_every_file) == ([], [], [], True)
            assert recorded(store) == before
            version = store.append(owner, [said(SECRET)]).last
            assert [target.version for target in store.erase(owner).erased] == [version]
            assert {event.body["reason"] for event in store.events(owner, len(TALK) + 2, version - 1)} == {"the law"}
            assert store.verify().faults == []

    def test_only_a_name(self) -> None:
        """A conversation that was redacted bit by bit is erased all the same: its name and the reasons go."""
        with Store(":memory:") as store:
            owner = store.append("c", [said(SECRET)]).conversation
            store.redact("c", [1], reason=SECRET)
            assert [target.type for target in store.erase("c").erased] == ["redaction"]
            assert (store.stream(owner).name, store.erase(owner).erased) == (None, [])

    def test_only_an_erasure_says_so(self) -> None:
        """A redaction that is appended cannot say that it belongs to an erasure, so that its reason would stay."""
        with Store(":memory:") as store:
            store.append("c", [said(SECRET)])
            with pytest.raises(InvalidEvent, match="whole: True is said by the erasure"):
                store.append("c", [redact(1) | {"whole": True}])
            store.append("c", [redact(1) | {"whole": False}])

    def test_a_writer_that_knows_the_name(self) -> None:
        """Who appends by an erased name begins a new conversation, unless he expects the one that was there."""
        with Store(":memory:") as store:
            owner = store.append("c", [said(SECRET)]).conversation
            handle = store.conversation("c")
            store.erase("c")
            for expected in (MUST_EXIST, 1, 2):
                with pytest.raises(VersionConflict):
                    handle.append(said("goes on"), expected=expected)
            assert [each.uuid for each in store.conversations()] == [owner]
            assert store.append(owner, [said("goes on")]).first == 3
            new = handle.append(said("begins"))
            assert (new.first, new.conversation == owner) == (1, False)
            assert contents(store, owner) == ["[redacted]", "goes on"]

    @pytest.mark.parametrize("dry_run", [False, True])
    def test_a_reason_that_is_none(self, dry_run: bool) -> None:
        """A reason that is no text is refused by its field, whether or not there is anything to erase."""
        with Store(":memory:") as store:
            store.append("c", [{"type": "clear"}])
            with pytest.raises(InvalidArgument, match="reason"):
                store.erase("c", reason=None, dry_run=dry_run)  # type: ignore[arg-type]

    def test_a_fork_erases_its_own(self) -> None:
        """Erasing a fork leaves what it shares to its parent; erasing the parent shows in the fork."""
        with Store(":memory:") as store:
            store.append("root", [said("shared")])
            child = store.fork("root", name="child").conversation
            store.append("child", [said(SECRET)])
            store.erase("child")
            assert contents(store, child) == ["shared", "[redacted]"]
            assert contents(store, "root") == ["shared"]
            store.erase("root")
            assert contents(store, child) == ["[redacted]", "[redacted]"]
