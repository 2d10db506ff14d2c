"""How long, how deep and how large: the limits of what an append takes (DESIGN section 3)."""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType
from typing import Any

import pytest
from test_append import recorded, said
from test_refusals import GROUND, calls, refused, response, transfer

from turnlog.store import InvalidArgument, InvalidEvent, Message, Store

CONTROLS = [chr(code) for code in (*range(0x20), *range(0x7F, 0xA0))]


@pytest.mark.parametrize(
    ("make", "field"),
    [
        (lambda name: said(id=name), "id"),
        (lambda name: said(name=name), "name"),
        (lambda name: said(assistant=name), "assistant"),
        (lambda name: said(tool_call_id=name), "tool_call_id"),
        (lambda name: {"type": "assistant", "assistant": name}, "assistant"),
        (lambda name: transfer(to=name), "to"),
        (lambda name: {"type": "transfer", "to": "b", "from": name}, "from"),
        (lambda name: transfer(tool_call_id=name), "tool_call_id"),
        (lambda name: calls(id=name), "tool_calls[0].id"),
        (lambda name: calls(name=name), "tool_calls[0].name"),
        (lambda name: response(response_id=name), "response_id"),
    ],
)
def test_names_and_ids_in_events(make: Callable[[str], dict[str, Any]], field: str) -> None:
    """A name or id is not empty, has at most 200 characters and no control characters (C0, DEL, C1)."""
    with Store(":memory:") as store:
        store.append("c", GROUND)
        for name in ("", "n" * 201, "\U0001f600" * 201, *(f"a{control}b" for control in CONTROLS), "end\n", "\n"):
            with pytest.raises(InvalidEvent) as error:
                store.append("c", [make(name)])
            assert (error.value.field, error.value.value) == (field, name)
        assert store.version("c") == 3
        assert store.append("c", [make("\U0001f600" * 200)]).last == 4
        assert store.append("c", [make("an id: é/#\u2028")]).last == 5


@pytest.mark.parametrize(
    "name", ["", "n" * 201, *(f"a{control}" for control in CONTROLS), "\ud800", 5, None], ids=ascii
)
def test_names_of_conversations(name: Any) -> None:
    """A conversation's name obeys the rules of names wherever it is given."""
    with Store(":memory:") as store:
        for ask in (
            lambda: store.append(name, [said()]),
            lambda: store.conversation(name),
            lambda: store.version(name),
            lambda: list(store.events(name)),
        ):
            with pytest.raises(InvalidArgument) as error:
                ask()
            assert (error.value.field, error.value.value) == ("conversation", name)
        assert recorded(store) == []
        store.append("n" * 200, [said()])


def nested(levels: int) -> list[Any]:
    """Lists in lists, so many levels deep."""
    inner: list[Any] = []
    for _ in range(levels - 1):
        inner = [inner]
    return inner


@pytest.mark.parametrize("make", [lambda deep: said(deep=deep), lambda deep: {"type": "x:mark", "deep": deep}])
def test_nesting(make: Callable[[Any], dict[str, Any]]) -> None:
    """An event nests at most 64 levels, its own object counted."""
    with Store(":memory:") as store:
        store.append("c", [make(nested(63))])
        assert store.event("c", 1).body["deep"] == nested(63)
    for levels in (64, 1000, 100_000):
        assert refused([make(nested(levels))]).field == "deep"


def test_nesting_of_typed_events_and_of_cycles() -> None:
    """Nesting without end is refused like any that is too deep."""
    cycle: dict[str, Any] = {}
    cycle["again"] = cycle
    assert refused([said(meta=cycle)]).field == "meta"
    assert refused([Message(role="user", meta={"deep": nested(64)})]).field == "meta"
    assert refused([Message(role="user", meta=cycle)]).field == "event"


@pytest.mark.parametrize("character", ["x", "é", "\U0001f600"])
def test_size(character: str) -> None:
    """An event has at most 16 MiB of JSON in UTF-8."""
    room = 16 * 1024 * 1024 - len('{"role":"user","content":""}')
    count, pad = divmod(room, len(character.encode()))
    fits = character * count + "." * pad
    with Store(":memory:") as store:
        store.append("c", [said(fits)])
        with pytest.raises(InvalidEvent) as error:
            store.append("c", [said(fits + ".")])
        assert (error.value.field, error.value.value) == ("event", "message")
        assert store.version("c") == 1


def test_numbers_beyond_all_use() -> None:
    """Whole numbers are exact up to 4096 bits; one that is longer is refused."""
    with Store(":memory:") as store:
        store.append("c", [said(n=2**4096 - 1, m=-(2**4096) + 1)])
        assert store.event("c", 1).body["n"] == 2**4096 - 1
    assert refused([said(n=2**4096)]).field == "n"


class _Text(str):
    pass


class _Number(int):
    pass


class _Object(dict[str, Any]):
    pass


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (_Text("x"), "x"),
        (_Number(5), 5),
        (_Object(a=1), {"a": 1}),
        (MappingProxyType({"a": 1}), {"a": 1}),
        ({"b": MappingProxyType({"a": _Text("x")})}, {"b": {"a": "x"}}),
        ((1, 2), [1, 2]),
    ],
    ids=lambda value: type(value).__name__,
)
def test_values_that_are_nearly_json(value: Any, plain: Any) -> None:
    """A value of a type near a JSON one is kept as what it stands for or refused as `InvalidEvent`, never else."""
    with Store(":memory:") as store:
        try:
            store.append("c", [said(near=value)])
        except InvalidEvent as error:
            assert error.field.startswith("near")  # noqa: PT017
            assert recorded(store) == []
        else:
            assert store.event("c", 1).body["near"] == plain
