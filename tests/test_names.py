"""Conversations have a uuid for ever and a name for people, which can be changed or dropped."""

from __future__ import annotations

import uuid
from datetime import datetime

import pytest
from test_append import recorded, said

from turnlog.store import Exported, InvalidArgument, NameTaken, NotFound, Store

COMPOSED, DECOMPOSED = "caf\u00e9 \u212b".replace("\u212b", "\u00c5"), "cafe\u0301 \u212b"


def test_names_are_nfc() -> None:
    """A name is looked up and shown in NFC, however it was written."""
    with Store(":memory:") as store:
        store.append(DECOMPOSED, [said()])
        store.append(COMPOSED, [said()])
        assert [(each.conversation, each.version) for each in store.conversations()] == [(COMPOSED, 2)]
        assert store.version(DECOMPOSED) == store.version(COMPOSED) == 2
        assert store.conversation(DECOMPOSED).name == COMPOSED
        store.rename(COMPOSED, "cafe\u0301")
        assert store.conversations()[0].conversation == "caf\u00e9"


def test_names_differ_by_case_and_space() -> None:
    """Beyond NFC a name is compared as it is."""
    with Store(":memory:") as store:
        for name in ("Call", "call", "call ", " call"):
            assert store.append(name, [said()]).first == 1
        assert len(store.conversations()) == 4


def test_the_identity_is_a_uuid() -> None:
    """A conversation's identity is a random uuid, made when it begins, by which it can be named everywhere."""
    with Store(":memory:") as store:
        receipt = store.append("c", [said()])
        assert str(uuid.UUID(receipt.conversation, version=4)) == receipt.conversation
        assert store.append(receipt.conversation, [said()]).conversation == receipt.conversation
        assert store.version(receipt.conversation) == store.version("c") == 2
        assert [event.version for event in store.events(receipt.conversation)] == [1, 2]
        assert store.stream(receipt.conversation) == store.stream("c")
        assert store.append("d", [said()]).conversation != receipt.conversation


def test_rename() -> None:
    """A renamed conversation is the same one; its old name is nobody's, and free for another."""
    with Store(":memory:") as store:
        identity = store.append("old", [said()]).conversation
        before = [line for line, *_ in recorded(store)]
        store.rename("old", "new")
        assert [line for line, *_ in recorded(store)] == before
        assert store.stream("new").uuid == identity
        with pytest.raises(NotFound) as missing:
            store.version("old")
        assert (missing.value.kind, missing.value.value) == ("conversation", "old")
        assert store.append("old", [said()]).conversation != identity


def test_dropping_a_name() -> None:
    """Without its name a conversation is found by its uuid alone, and can be named again."""
    with Store(":memory:") as store:
        identity = store.append("c", [said()]).conversation
        store.rename("c", None)
        with pytest.raises(NotFound):
            store.version("c")
        listed = store.conversations()[0]
        assert (listed.conversation, listed.uuid, listed.version) == (None, identity, 1)
        assert store.append(identity, [said()]).first == 2
        store.rename(identity, None)
        store.rename(identity, "d")
        assert store.version("d") == 2


def test_a_taken_name_is_refused() -> None:
    """Neither the name nor the uuid of another conversation can be taken; one's own can."""
    with Store(":memory:") as store:
        one = store.append("one", [said()]).conversation
        two = store.append("two", [said()]).conversation
        before = recorded(store)
        for name in ("two", two):
            with pytest.raises(NameTaken) as taken:
                store.rename("one", name)
            assert taken.value.name == name
        with pytest.raises(NameTaken):
            store.rename(one, "two")
        assert recorded(store) == before
        store.rename("one", "one")
        assert recorded(store) == before


def test_what_is_not_there_is_not_found() -> None:
    """Asking for a conversation that does not exist says so, and makes none."""
    with Store(":memory:") as store:
        for ask in (
            lambda: store.rename("nobody", "somebody"),
            lambda: store.version("nobody"),
            lambda: store.version_at("nobody", datetime.now().astimezone()),
            lambda: store.stream("nobody"),
            lambda: store.scopes("nobody"),
            lambda: list(store.events("nobody")),
            lambda: list(store.follow(conversation="nobody")),
            lambda: list(store.redactions("nobody")),
        ):
            with pytest.raises(NotFound) as missing:
                ask()
            assert (missing.value.kind, missing.value.value) == ("conversation", "nobody")
        assert store.conversations() == []


def test_a_bad_new_name_is_refused() -> None:
    """A new name obeys the same rules as a first one."""
    with Store(":memory:") as store:
        store.append("c", [said()])
        for name in ("", "n" * 201, "a\nb", "\ud800"):
            with pytest.raises(InvalidArgument) as refused:
                store.rename("c", name)
            assert (refused.value.field, refused.value.value) == ("conversation", name)
        assert store.conversations()[0].conversation == "c"


BLANK = ["", " ", "   ", "\u00a0", "\u2003 \u3000"]
UNSEEN = [
    *(
        "a\u200bb",
        "a\u200db",
        "bil\u200cling",
        "\u200d",
        "a\u200d",
        "\u2060a",
        "\ufeffa",
        "a\xad",
        "a\u180eb",
        "\u2800",
    ),
    *("\u3164", "\uffa0", "a\u115fb", "a\u2062b", "a\U000e0041", "\U0001d173x", "x\u034f"),
]
TURNED = ["a\u202eb", "\u200fa", "a\u2066b", "a\u061cb", "\u202aa"]
OBEYED = ["a\x1b[31m", "a\x9bb", "a\u2028b", "a\u2029", "a\x00", "a\nb", "a\x7f"]


@pytest.mark.parametrize("name", [*BLANK, *UNSEEN, *TURNED, *OBEYED], ids=ascii)
def test_a_name_that_people_cannot_see(name: str) -> None:
    """A name that is blank, or has a character that is invisible or obeyed, is refused wherever one is given."""
    with Store(":memory:") as store:
        store.append("c", [said()])
        for give in (
            lambda: store.append(name, [said()]),
            lambda: store.rename("c", name),
            lambda: store.fork("c", name=name),
            lambda: store.restore([Exported(store.event("c", 1), name)]),
            lambda: store.restore([Exported(store.event("c", 1), None)], name),
        ):
            with pytest.raises(InvalidArgument) as refused:
                give()
            assert (refused.value.field, refused.value.value) == ("conversation", name)
        assert [each.conversation for each in store.conversations()] == ["c"]


@pytest.mark.parametrize(
    "name",
    [
        *("a b", " a", "ärger", "注文 2217", "заказ", "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645"),
        *(
            "\u2764\ufe0f",
            "\U0001f469\u200d\U0001f4bb",
            "\U0001f469\U0001f3fd\u200d\U0001f4bb",
            "\u2764\ufe0f\u200d\U0001f525",
        ),
        *("\u0d28\u0d4d\u200d\u0d31", "שלום", "سلام"),
    ],
    ids=ascii,
)
def test_a_name_in_any_script(name: str) -> None:
    """A name may be written in any script, with the joiners that its letters need, and with emoji."""
    with Store(":memory:") as store:
        store.append(name, [said()])
        assert store.version(name) == 1
        assert store.conversations()[0].conversation == name


def test_a_rename_is_part_of_its_transaction() -> None:
    """A rename in a transaction that fails has not happened."""
    with Store(":memory:") as store:
        store.append("c", [said()])

        def half() -> None:
            with store.transaction():
                store.rename("c", "d")
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            half()
        assert store.conversations()[0].conversation == "c"
