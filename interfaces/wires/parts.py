"""Content parts and tools in the shapes that logs have them in, read into one."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

KINDS = {"image": "image", "image_url": "image", "audio": "audio", "input_audio": "audio", "file": "file"}
KINDS |= {"document": "file"}
REASONING = frozenset(("reasoning", "thinking", "redacted_thinking"))

_DATA_URL = re.compile(r"data:(?P<type>[^;,]+)(?:;[^;,]+)*;base64,(?P<data>.*)", re.DOTALL)
_BASE64 = re.compile(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?")


@dataclass(frozen=True)
class Media:
    """An image, a sound or a file: its address, its base64 data and their type, or its id with OpenAI."""

    kind: str
    url: str | None = None
    data: str | None = None
    type: str | None = None
    name: str | None = None
    file_id: str | None = None


def media(part: dict[str, Any]) -> Media | None:
    """What a part shows, in OpenAI's shapes (`image_url`, `input_audio`, `file`), Anthropic's (`source`) or flat
    (`url`, or `data` with `media_type`); None if it is no medium."""
    kind = KINDS.get(str(part.get("type")))
    if kind is None:
        return None
    fields = dict(part)
    for key in ("image_url", "input_audio", "audio", "file", "source"):
        fields |= _object(part, key)
    url, data = _text(fields, "url", "image_url"), _text(fields, "data", "file_data")
    type = _text(fields, "media_type", "mime_type", "format")
    inline = _DATA_URL.fullmatch(data or url or "")
    if inline is not None:
        url, data, type = None, inline["data"], inline["type"]
    if data is not None and (fields["type"] == "text" or not _BASE64.fullmatch(data)):
        data = None
    name = _text(fields, "filename", "name", "title")
    return Media(kind, url, data, type, name, _text(_object(part, "file"), "file_id"))


def told(part: dict[str, Any]) -> str:
    """A part in words, for a model that cannot be shown it."""
    shown = media(part)
    if shown is not None:
        about = shown.name or shown.url
        return f"[{shown.kind} {about}]" if about else f"[{shown.kind}]"
    text = part.get("text")
    return text if isinstance(text, str) and text.strip() else f"[{part.get('type')}]"


@dataclass(frozen=True)
class Tool:
    """A function that a model may call. `schema` is a JSON schema of an object, None if none was given or, as
    `refused` says, one of something else."""

    name: str
    description: str | None
    schema: dict[str, Any] | None
    refused: bool
    strict: bool | None


def tool_of(tool: dict[str, Any]) -> Tool | None:
    """A tool given flat or as OpenAI's `{"type": "function", "function": {…}}`; None if it is no function."""
    if tool.get("type", "function") not in ("function", "custom"):
        return None
    inner = _object(tool, "function") or tool
    name = _text(inner, "name")
    if name is None:
        return None
    schema = _object(inner, "parameters") or _object(inner, "input_schema")
    fits = bool(schema) and schema.get("type", "object") == "object"
    return Tool(
        name=name,
        description=_text(inner, "description"),
        schema={"type": "object"} | schema if fits else None,
        refused=bool(schema) and not fits,
        strict=inner["strict"] if isinstance(inner.get("strict"), bool) else None,
    )


def _text(fields: dict[str, Any], *keys: str) -> str | None:
    """The first of some fields that is a text with something in it."""
    return next((fields[key] for key in keys if isinstance(fields.get(key), str) and fields[key].strip()), None)


def _object(fields: dict[str, Any], key: str) -> dict[str, Any]:
    """A field that is an object, else an empty one."""
    value = fields.get(key)
    return value if isinstance(value, dict) else {}
