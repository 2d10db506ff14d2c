"""Characters that cannot be seen, or that a terminal obeys: which they are, and how they are shown."""

from __future__ import annotations

import re
import unicodedata

# Control characters, the marks that turn the direction of writing, line and paragraph separators, lone surrogates.
_CONTROLS = "\x00-\x1f\x7f-\x9f\u2028\u2029"
_DIRECTIONS = "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
_OBEYED = re.compile(f"[{_CONTROLS}{_DIRECTIONS}\ud800-\udfff]")
_IN_JSON = re.compile(f"[\x7f-\x9f\u2028\u2029{_DIRECTIONS}]")  # The others are escaped in every JSON.
_CONTROL = re.compile(f"[{_CONTROLS}]")
_DIRECTION = re.compile(f"[{_DIRECTIONS}]")
# What Unicode calls default ignorable (but for variation selectors, which choose the form of what is before them), and
# the letters and symbols that are blank.
_INVISIBLE = re.compile(
    "[\xad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200d\u2060-\u2065\u206a-\u206f\u2800\u3164\ufeff\uffa0"
    "\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
_JOINERS = "\u200c\u200d"
_JOINED_BEFORE = frozenset(("Lo", "Mn", "Mc", "So", "Sk"))
_JOINED_AFTER = frozenset(("Lo", "So"))


def escaped(text: str, keep: str = "") -> str:
    """Return a text in which a terminal finds nothing to obey: what it would is shown by its number.

    Of the characters in `keep`, such as line feeds, nothing is changed.
    """
    return _OBEYED.sub(lambda found: found[0] if found[0] in keep else _number(found[0]), text)


def escaped_json(text: str) -> str:
    """Return the same JSON with what a terminal would obey in its texts escaped as JSON does it."""
    return _IN_JSON.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def why_not_a_name(text: str) -> str | None:
    """Return why people cannot tell what a name is by looking at it; None if they can.

    A name has no character that is invisible or turns the direction of writing, and one at least that is not blank. A
    joiner is allowed between letters that are written together, and between the parts of an emoji.
    """
    if text.isascii() and text.isprintable():
        return None if text.strip() else "is blank"
    if (found := _CONTROL.search(text)) is not None:
        return f"has a control character, {_number(found[0])}"
    if (found := _DIRECTION.search(text)) is not None:
        return f"has a character that turns the direction of writing, {_number(found[0])}"
    for found in _INVISIBLE.finditer(text):
        if found[0] not in _JOINERS or not _joins(text, found.start()):
            return f"has an invisible character, {_number(found[0])}"
    return None if text.strip() else "is blank"


def _joins(text: str, place: int) -> bool:
    before, after = text[place - 1 : place], text[place + 1 : place + 2]
    if not before or not after:
        return False
    return unicodedata.category(before) in _JOINED_BEFORE and unicodedata.category(after) in _JOINED_AFTER


def _number(character: str) -> str:
    number = ord(character)
    return f"\\x{number:02x}" if number < 256 else f"\\u{number:04x}" if number < 65536 else f"\\U{number:08x}"
