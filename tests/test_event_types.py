"""What is known of the types of events: derived from one module a type, and the same in docs/format.md."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest

from turnlog.store import events
from turnlog.store.events import CONTENTS, HEADER, KINDS, TEXTS, TYPES, NewEvent, references_of, texts_of

PAGE = (Path(__file__).parent.parent / "docs" / "format.md").read_text(encoding="utf-8")
WRITTEN, FRAMES = PAGE.split("## Parts and calls")[0], PAGE.split("### Frames")[1].split("##")[0]
PARTS = PAGE.split("## Parts and calls")[1].split("##")[0]


def rows(table: str) -> dict[str, str]:
    """The rows of one of the page's tables by type; a row may be that of several types."""
    found = re.findall(r"^\| ((?:`\w+`(?:, )?)+)[^|]* \|(.*)\|$", table, re.MULTILINE)
    return {type: text for types, text in found[1:] for type in re.findall(r"`(\w+)`", types)}


def own_fields(struct: type[msgspec.Struct]) -> dict[str, bool]:
    """The fields of a struct under the names that they have in JSON, each with whether it is required."""
    common = {field.encode_name for field in msgspec.structs.fields(NewEvent)} | HEADER
    fields = msgspec.structs.fields(struct)
    return {field.encode_name: field.required for field in fields if field.encode_name not in common}


def top_level(row: str) -> str:
    """A row of a table without what it says in brackets."""
    return re.sub(r"\([^()]*\)", "", row)


def test_every_type_is_written_down() -> None:
    """The two tables of docs/format.md have a row for each type that the registry has, and for no other."""
    assert set(rows(WRITTEN)) == set(TYPES)
    assert set(rows(FRAMES)) == set(TYPES)


@pytest.mark.parametrize("type", TYPES)
def test_the_fields_that_are_written_down(type: str) -> None:
    """The table of types lists the fields of each struct, those that are required in bold."""
    row = top_level(rows(WRITTEN)[type])
    listed = {name: bool(bold) for bold, name in re.findall(r"(\*\*)?`(\w+)`", row)}
    assert listed == own_fields(TYPES[type])


@pytest.mark.parametrize("type", [type for type in TYPES if type not in ("rewind", "fork")])
def test_the_frames_that_are_written_down(type: str) -> None:
    """The table of frames lists the fields of each frame."""
    assert re.findall(r"`(\w+)`", top_level(rows(FRAMES)[type])) == list(own_fields(TYPES[type].frame_type))


def test_the_kinds_of_parts_that_are_written_down() -> None:
    """The table of parts lists the kinds in their order, and the names under which the parts of each are written."""
    table = dict(re.findall(r"^\| `(\w+)` \| ([^|]*) \|$", PARTS, re.MULTILINE))
    assert table.pop("other") == "every other"
    assert {kind: tuple(re.findall(r"`(\w+)`", names)) for kind, names in table.items()} == KINDS
    assert list(table) == list(KINDS)


@pytest.mark.parametrize("type", TYPES)
def test_declarations(type: str) -> None:
    """What a type declares about its fields names fields that it has, and its frame is a struct of its own."""
    cls = TYPES[type]
    assert {*texts_of(type), *references_of(type)} <= set(own_fields(cls))
    assert cls.parts_field is None or cls.parts_field in cls.texts
    assert cls.frame_type.__name__ == f"{cls.__name__}Frame"
    assert (cls.frame_type.__module__, cls.__module__) == (f"turnlog.store.events.{type}",) * 2


@pytest.mark.parametrize("type", TYPES)
def test_exports(type: str) -> None:
    """The package exports the struct and the frame of every type."""
    names = (TYPES[type].__name__, TYPES[type].frame_type.__name__)
    assert set(names) <= set(events.__all__)
    assert [getattr(events, name) for name in names] == [TYPES[type], TYPES[type].frame_type]


def test_texts_and_references() -> None:
    """An event of a type that is not known may have text in every field of a known one, and refers to nothing."""
    assert texts_of("x:mark") == TEXTS
    assert set(TEXTS) == {field for type in TYPES for field in texts_of(type)}
    assert {"content", "response"} == CONTENTS
    assert references_of("x:mark") == ()
    assert references_of("summary") == ("first", "last", "keep")
