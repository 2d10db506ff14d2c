"""Restoring forks: whatever file comes first, everything is there in the end, with its name."""

from __future__ import annotations

import itertools
import json

import pytest
from test_append import recorded, said
from test_restore import export, refused, restore

from turnlog.formats import log
from turnlog.store import NameTaken, Store, streams
from turnlog.store.append import insert
from turnlog.store.codec import prepare
from turnlog.store.events import Fork, ForkFrame


@pytest.fixture(scope="module")
def files() -> dict[str, list[str]]:
    """The exports of a conversation, a fork of it, forks of that at its own and at a shared version, and so on."""
    with Store(":memory:") as store:
        store.append("one", [said(str(number)) for number in range(4)])
        store.append("other", [said("of nobody else")])
        for name, parent, at in (
            ("two", "one", 2),
            ("three", "two", 1),
            ("four", "two", 4),
            ("five", "four", 2),
            ("six", "four", 5),
        ):
            store.fork(parent, at, name)
            store.append(name, [said(f"{name} {number}") for number in range(3)])
        store.append("one", [said("later")])
        store.redact("one", [3], reason="r")
        return {name: [*log.write(store, name)] for name in ("one", "two", "three", "four", "five", "six", "other")}


@pytest.fixture(scope="module")
def family() -> tuple[list[str], list[str]]:
    """A conversation, and a fork of it at its last version."""
    with Store(":memory:") as store:
        store.append("parent", [said("a"), said("b")])
        store.fork("parent", 2, "child")
        return [*log.write(store, "parent")], [*log.write(store, "child")]


class TestForks:
    """Forks of forks: whatever file comes first, everything is there in the end."""

    @pytest.mark.parametrize("name", ["one", "two", "three", "four", "five", "six", "other"])
    def test_each_alone(self, files: dict[str, list[str]], name: str) -> None:
        """The export of a fork of a fork has all that it shares, and needs nothing else to be restored."""
        with Store(":memory:") as store:
            restore(store, files[name])
            assert [*log.write(store, name)] == files[name]
            assert store.verify().faults == []

    def test_in_any_order(self, files: dict[str, list[str]]) -> None:
        """Whatever the order of the files, every conversation is there in the end, with its name and its bytes."""
        orders = [*itertools.permutations(files)]
        for order in [*orders[:: len(orders) // 150], orders[-1]]:
            with Store(":memory:") as store:
                for name in order:
                    restore(store, files[name])
                assert {each.conversation for each in store.conversations()} == set(files)
                assert {name: [*log.write(store, name)] for name in files} == files
                assert store.verify().faults == []

    def test_a_fork_names_the_owner(self) -> None:
        """A fork at a version that its parent shares is a fork of the conversation that owns the version."""
        with Store(":memory:") as store:
            one = store.append("one", [said("a"), said("b")]).conversation
            two = store.fork("one", 2, "two").conversation
            store.append("two", [said("c")])
            for at, owner in ((1, one), (2, one), (3, two), (4, two)):
                child = store.fork("two", at).conversation
                frame = store.event(child, at + 1).frame
                assert (store.event(child, at + 1).body, frame) == (
                    {"parent": owner, "at": at},
                    ForkFrame(parent=owner, at=at),
                )
                assert next(each for each in store.conversations() if each.uuid == child).parent == owner

    def test_another_than_the_owner_is_refused(self) -> None:
        """A fork that names a conversation which does not own the version is refused: it could not stand alone."""
        with Store(":memory:") as store:
            one = store.append("one", [said("a"), said("b")]).conversation
            two = store.fork("one", 2, "two").conversation
            store.fork("two", 1, "three")
            lines = export(store, "three")
            assert json.loads(lines[1])["parent"] == one
            before = recorded(store)
            stream = streams.find_uuid(store.db, two)
            assert stream is not None
            with store.db.transaction():
                child = streams.create(store.db, "four", fork_of=(stream, 1))
                insert(store.db, child, streams.head(store.db, child), [prepare(Fork(parent=two, at=1))])
            foreign = [*export(store, "two"), *export(store, "four")[1:]]
        assert before
        with Store(":memory:") as store:
            assert "another's" in str(refused(store, foreign))


class TestNamesOfParents:
    """A conversation that came with a fork of it has no name until an import brings it."""

    @pytest.mark.parametrize("count", [1, 2])
    def test_it_gets_its_name(self, family: tuple[list[str], list[str]], count: int) -> None:
        """An import that has the name gives it, whether it adds events or not; a given name goes before it."""
        parent, child = family
        for name in (None, "another"):
            with Store(":memory:") as store:
                restore(store, child)
                assert [each.conversation for each in store.conversations()] == [None, "child"]
                assert restore(store, parent[:count], name)[0].name == (name or "parent")
                assert [each.conversation for each in store.conversations()] == [name or "parent", "child"]

    @pytest.mark.parametrize("how", ["renamed", "dropped", "erased", "erased before it was named"])
    def test_no_name_comes_back(self, family: tuple[list[str], list[str]], how: str) -> None:
        """A name that was changed, dropped or erased is not brought back by an import."""
        parent, child = family
        with Store(":memory:") as store:
            restore(store, child)
            identity = store.conversations()[0].uuid
            if how != "erased before it was named":
                restore(store, parent)
            if how == "renamed":
                store.rename("parent", "better")
            elif how == "dropped":
                store.rename("parent", None)
            else:
                store.erase(identity)
            restore(store, parent)
            restore(store, parent[:1])
            assert store.conversations()[0].conversation == ("better" if how == "renamed" else None)

    def test_a_name_that_is_taken(self, family: tuple[list[str], list[str]]) -> None:
        """A name that another conversation has by now is refused, as for a conversation that is new."""
        parent, child = family
        with Store(":memory:") as store:
            restore(store, child)
            store.append("parent", [said("mine")])
            before = recorded(store)
            with pytest.raises(NameTaken):
                restore(store, parent)
            assert recorded(store) == before
            restore(store, parent, "theirs")
            assert store.conversations()[0].conversation == "theirs"

    def test_a_conversation_that_never_had_one(self) -> None:
        """A fork that was made without a name, and is exported with one later, gets it too."""
        with Store(":memory:") as store, Store(":memory:") as other:
            store.append("c", [said()])
            identity = store.fork("c").conversation
            restore(other, [*log.write(store, identity)])
            store.rename(identity, "later")
            restore(other, [*log.write(store, "later")])
            assert [each.conversation for each in other.conversations()] == [None, "later"]
