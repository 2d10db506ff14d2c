"""What is known of all types of events, derived from the modules that each define one.

A further type is a module of its own and its name in the import below.
"""

from __future__ import annotations

import re

import msgspec

from . import (  # noqa: F401
    assistant,
    clear,
    describe,
    fork,
    message,
    redaction,
    request,
    response,
    rewind,
    summary,
    transfer,
)
from .base import Frame, NewEvent

CUSTOM_TYPE = re.compile(r"x:[^\x00-\x20\x7f-\x9f]{1,100}\Z")
TYPES: dict[str, type[NewEvent]] = {
    str(cls.__struct_config__.tag): cls
    for cls in sorted(NewEvent.__subclasses__(), key=lambda cls: str(cls.__struct_config__.tag))
}
# Every field in which some type of event has text, in an order that does not change.
TEXTS: tuple[str, ...] = tuple(dict.fromkeys(field for cls in TYPES.values() for field in cls.texts))
# Those of them that may be a list of parts.
CONTENTS: frozenset[str] = frozenset(cls.parts_field for cls in TYPES.values() if cls.parts_field is not None)

_DECODERS: dict[tuple[str, int], msgspec.json.Decoder[Frame]] = {
    (name, 1): msgspec.json.Decoder(cls.frame_type) for name, cls in TYPES.items()
}


class Custom(NewEvent, kw_only=True):
    """An event of a type of one's own, `x:…`, which is kept and shown to nobody."""


def read_frame(type: str, v: int, version: int, scope: str | None, text: str) -> Frame | None:
    """Return the frame of a stored event, or None if this build does not know its type, version or a value in it."""
    decoder = _DECODERS.get((type, v))
    if decoder is None:
        return None
    try:
        frame = decoder.decode(text)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None
    return None if frame.misplaced(version, scope) else frame


def texts_of(type: str) -> tuple[str, ...]:
    """Return the fields in which an event of this type has text; of a type that is not known, all that any type has."""
    cls = TYPES.get(type)
    return TEXTS if cls is None else cls.texts


def references_of(type: str) -> tuple[str, ...]:
    """Return the fields in which an event of this type has the version of another event, or a list of versions."""
    cls = TYPES.get(type)
    return () if cls is None else cls.references
