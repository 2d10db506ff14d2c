"""Random logs with what is odd for wires: texts, parts, ids, names, arguments and tools."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

from hypothesis import strategies as st
from logs import logs

Events = list[dict[str, Any]]
PNG = "aGVsbG8="
ODD_TEXTS = ("x", "x ", " ", "\n\t", "{}")
ODD_IDS = ("t1", "t 1", "t_1", "t_1_2", "ü" * 60)
ODD_NAMES = ("f", "f.g", "f_g", "n" * 90)
ODD_ARGUMENTS = ("{}", '{"a": 1}', "", "null", "[1]", '{"a": NaN}', "{")
ODD_PARTS: tuple[dict[str, Any], ...] = (
    {"type": "image_url", "image_url": {"url": "https://a/b.png"}},
    {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}},
    {"type": "image", "url": "u"},
    {"type": "input_audio", "input_audio": {"data": PNG, "format": "mp3"}},
    {"type": "file", "file": {"filename": "a.pdf", "file_data": f"data:application/pdf;base64,{PNG}"}},
    {"type": "file", "file": {"file_id": "f"}},
    {"type": "document", "source": {"type": "url", "url": "https://a/b.pdf"}},
    {"type": "reasoning", "text": "hm"},
    {"type": "thinking", "thinking": "hm", "signature": "s"},
    {"type": "redacted_thinking", "data": "d"},
    {"type": "note", "text": "so"},
    {"type": "sticker"},
)
ODD_TOOLS: tuple[dict[str, Any], ...] = (
    {"name": "f"},
    {"name": "f.g", "parameters": {"properties": {}}},
    {"type": "function", "function": {"name": "f_g", "parameters": {"type": "object"}, "strict": True}},
    {"name": "s", "description": "d", "input_schema": {"type": "string"}},
    {"type": "web_search"},
)


@st.composite
def conversations(draw: st.DrawFn) -> Events:
    """Random logs with odd texts, parts, ids, names, arguments and tools; whatever is said has a tag of its own."""
    tags = count()

    def said(text: str) -> str:
        if not text or draw(st.integers(0, 5)) == 0:
            return text and " "
        return f"{draw(st.sampled_from(ODD_TEXTS))}§{next(tags)}§"

    def content(value: Any) -> Any:
        return [part(each) for each in value] if isinstance(value, list) else said(value)

    def part(value: dict[str, Any]) -> dict[str, Any]:
        text = value["type"] == "text"
        return value | {"text": said(value["text"])} if text else dict(draw(st.sampled_from(ODD_PARTS)))

    def call(value: dict[str, Any]) -> dict[str, Any]:
        arguments = draw(st.sampled_from((*ODD_ARGUMENTS, f'{{"a": "§{next(tags)}§"}}')))
        name, id = draw(st.sampled_from(ODD_NAMES)), draw(st.sampled_from(ODD_IDS))
        return value | {"name": name, "arguments": arguments, "id": id}

    write: dict[str, Callable[[Any], Any]] = {
        "content": content,
        "response": content,
        "text": said,
        "system": said,
        "first_message": said,
        "tool_calls": lambda calls: [call(each) for each in calls],
        "tool_call_id": lambda _: draw(st.sampled_from(ODD_IDS)),
        "tools": lambda _: draw(st.lists(st.sampled_from(ODD_TOOLS), max_size=4)),
    }
    events = draw(logs(max_size=20))
    for event in events:
        for key in write.keys() & event.keys():
            event[key] = write[key](event[key])
        if event["type"] == "transfer" and event.get("message"):
            event["message"] = said(event["message"])
        if event["type"] == "transfer" and draw(st.integers(0, 2)) == 0:
            event["tools"] = draw(st.lists(st.sampled_from(ODD_TOOLS), max_size=4))
        if event["type"] == "message" and draw(st.integers(0, 5)) == 0:
            event["name"] = draw(st.sampled_from(ODD_NAMES))
    return events
