"""Words: what of an event full-text search finds, and how a query asks for it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

# Scripts written without spaces (or, Hangul, with particles attached): each character is a word of its own, and a
# word that is searched for is a phrase of them.
_UNSPACED = re.compile(
    "([\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff"
    "\uff66-\uff9f\U00020000-\U0003ffff])"
)
# A NUL would end the text for the tokenizer, and half of a surrogate pair cannot be stored.
_UNSTORED = re.compile("[\0\ud800-\udfff]")
SEPARATOR = "\u200b"

_FIELDS = ("title", "system", "first_message", "content", "response", "text", "message", "reason", "replacement")
# What is text in a part, in the kinds of parts that models and their providers write.
_OF_A_PART = ("text", "thinking", "reasoning", "refusal", "transcript", "title", "filename", "name", "toolName")
_INSIDE_A_PART = ("summary", "audio", "input_audio", "file", "input_file")
_JSON_OF_A_PART = ("arguments", "args", "input", "content")

LOOKS_LIKE_JSON = re.compile(r'\s*[\[{"]')
# Numbers stay as they were written, and of keys that come twice both are kept.
DECODER = json.JSONDecoder(strict=False, object_pairs_hook=tuple, parse_float=str, parse_int=str, parse_constant=str)


def words_of(body_text: str) -> str:
    """Return all that an event's body says as one text; empty if it says nothing."""
    try:
        body = msgspec.json.decode(body_text, type=dict[str, Any])
        return "\n".join(_said_by(body))
    except (msgspec.MsgspecError, UnicodeError):
        return ""
    except RecursionError:
        return body_text


def texts_in(content: Any, results: bool = False) -> Iterator[str]:
    """Give the texts of a content: a text, or a list of parts; `results` decodes those that are JSON."""
    if isinstance(content, str):
        if content:
            yield decoded(content) if results else content
    elif isinstance(content, list):
        for part in content:
            if isinstance(part, dict):
                yield from _texts_of_a_part(part, results)


def decoded(text: str) -> str:
    """Return JSON as a reader would say it, keys and values without escapes; any other text as it is."""
    if not LOOKS_LIKE_JSON.match(text):
        return text
    try:
        return _plain(DECODER.decode(text))
    except (ValueError, RecursionError):
        return text


def spaced(text: str) -> str:
    """Return a text as the index takes it, with the words of scripts without spaces set apart."""
    return _UNSPACED.sub(rf"{SEPARATOR}\1{SEPARATOR}", _UNSTORED.sub(" ", text))


def phrases_of(query: str) -> list[str]:
    """Return every word of a query as a quoted phrase of FTS5, so that nothing in it is an operator."""
    words = [word for word in query.split() if any(character.isalnum() for character in word)]
    return ['"' + spaced(word).replace('"', '""') + '"' for word in words]


def _said_by(body: Mapping[str, Any]) -> Iterator[str]:
    results = body.get("role") == "tool"
    for field in _FIELDS:
        yield from texts_in(body.get(field), results)
    calls = body.get("tool_calls")
    for call in calls if isinstance(calls, list) else ():
        if isinstance(call, dict):
            yield from texts_in(call.get("name"))
            yield from _json_in(call.get("arguments"))


def _texts_of_a_part(part: Mapping[str, Any], results: bool) -> Iterator[str]:
    for key in _OF_A_PART:
        yield from texts_in(part.get(key), results)
    for key in _INSIDE_A_PART:
        inner = part.get(key)
        yield from texts_in([inner] if isinstance(inner, dict) else inner, results)
    for key in _JSON_OF_A_PART:
        yield from _json_in(part.get(key))


def _json_in(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        yield _plain(value)
    else:
        yield from texts_in(value, results=True)


def _plain(value: Any, inside: bool = False) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        value = tuple(value.items())
    if isinstance(value, tuple):
        text = ", ".join(f"{key}: {_plain(each, True)}" for key, each in value)
        return f"{{{text}}}" if inside else text
    if isinstance(value, list):
        text = ", ".join(_plain(each, True) for each in value)
        return f"[{text}]" if inside else text
    return json.dumps(value)
