"""What a wire makes of parts, tools and arguments in the many shapes that logs have them in."""

from __future__ import annotations

from typing import Any

import pytest
from sending import both, called, changes, messages, parts, sent
from views import assistant, redact, reply, result, user, view
from wire_rules import ANTHROPIC, OPENAI

from turnlog.wires import Wire

PNG = "aGVsbG8="


@both
@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ('{"a": 1}', {"a": 1}),
        ("", {}),
        ("[1]", {"arguments": "[1]"}),
        ('{"a": ', {"arguments": '{"a": '}),
        ('{"a": NaN}', {"arguments": '{"a": NaN}'}),
        ("[" * 5000, {"arguments": "[" * 5000}),
    ],
)
def test_arguments(wire: Wire, written: str, expected: dict[str, Any]) -> None:
    """Arguments are a JSON object on every wire: as written if they are one, else their text inside one."""
    history = view(user("a"), called(arguments=written), result("t1"))
    message = sent(history, wire).request["messages"][1]
    if wire is OPENAI:
        text = message["tool_calls"][0]["function"]["arguments"]
        assert text == written or expected != {"a": 1}
    else:
        assert message["content"][0]["input"] == expected
    assert bool(changes(history, wire)) == (written != '{"a": 1}')


def test_redacted_call() -> None:
    """The arguments of a redacted call are told as such."""
    history = view(user("a"), called(arguments='{"card": "4111"}'), result("t1"), redact(2))
    call = sent(history, ANTHROPIC).request["messages"][1]["content"][-1]
    assert call["input"] == {"arguments": "[redacted]"}


TOOL_FORMS = [
    {"name": "f", "description": "d", "parameters": {"type": "object", "properties": {"a": {"type": "string"}}}},
    {"name": "f", "description": "d", "input_schema": {"type": "object", "properties": {"a": {"type": "string"}}}},
    {
        "type": "function",
        "function": {"name": "f", "description": "d", "parameters": {"properties": {"a": {"type": "string"}}}},
    },
]


@pytest.mark.parametrize("tool", TOOL_FORMS)
def test_tool_forms(tool: dict[str, Any]) -> None:
    """Tools given flat, as Anthropic's or as OpenAI's form are written as the wire's."""
    history = view(assistant("a", tools=[tool]), user("a"))
    schema = {"type": "object", "properties": {"a": {"type": "string"}}}
    written = {"name": "f", "description": "d"}
    assert sent(history, OPENAI).request["tools"] == [
        {"type": "function", "function": written | {"parameters": schema}}
    ]
    assert sent(history, ANTHROPIC).request["tools"] == [written | {"input_schema": schema}]


@both
def test_tools_that_are_none(wire: Wire) -> None:
    """A tool that is no function, or has no name, is dropped; a schema of no object counts as none."""
    tools = [{"type": "web_search", "name": "web"}, {}, {"name": "f", "parameters": {"type": "array"}}]
    history = view(assistant("a", tools=tools), user("a"))
    assert len(sent(history, wire).request["tools"]) == 1
    assert changes(history, wire) == [
        (1, "tool {'type': 'web_search', 'name': 'web'} dropped: it is no function"),
        (1, "tool {} dropped: it is no function"),
        (1, "parameters of tool f dropped: they are no object's"),
    ]


PARTS: list[tuple[dict[str, Any], Any, Any]] = [
    (
        {"type": "image_url", "image_url": {"url": "https://a/b.png", "detail": "low"}},
        {"type": "image_url", "image_url": {"url": "https://a/b.png", "detail": "low"}},
        {"type": "image", "source": {"type": "url", "url": "https://a/b.png"}},
    ),
    (
        {"type": "image", "url": f"data:image/png;base64,{PNG}"},
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}},
    ),
    (
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}},
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}},
    ),
    ({"type": "image", "url": "u"}, "[image u]", "[image u]"),
    ({"type": "image", "data": "no base64", "media_type": "image/png"}, "[image]", "[image]"),
    (
        {"type": "input_audio", "input_audio": {"data": PNG, "format": "wav"}},
        {"type": "input_audio", "input_audio": {"data": PNG, "format": "wav"}},
        "[audio]",
    ),
    (
        {"type": "file", "file": {"filename": "a.pdf", "file_data": f"data:application/pdf;base64,{PNG}"}},
        {"type": "file", "file": {"filename": "a.pdf", "file_data": f"data:application/pdf;base64,{PNG}"}},
        {
            "type": "document",
            "source": {"type": "base64", "media_type": "application/pdf", "data": PNG},
            "title": "a.pdf",
        },
    ),
    ({"type": "file", "file": {"file_id": "f1"}}, {"type": "file", "file": {"file_id": "f1"}}, "[file]"),
    (
        {"type": "document", "source": {"type": "url", "url": "https://a/b.pdf"}},
        "[file https://a/b.pdf]",
        {"type": "document", "source": {"type": "url", "url": "https://a/b.pdf"}},
    ),
    ({"type": "note", "text": "so"}, "so", "so"),
    ({"type": "sticker", "id": 7}, "[sticker]", "[sticker]"),
    ({"type": "reasoning", "text": "hm"}, None, None),
]


@pytest.mark.parametrize(("part", "on_openai", "on_anthropic"), PARTS)
def test_parts_of_a_user(part: dict[str, Any], on_openai: Any, on_anthropic: Any) -> None:
    """A part is shown in the wire's shape, or told as text or (reasoning) dropped, and that is listed."""
    content: Any = [*parts("a"), part]
    history = view(user(content))
    for wire, expected in ((OPENAI, on_openai), (ANTHROPIC, on_anthropic)):
        shown = isinstance(expected, dict)
        wanted = [expected] if shown else parts(expected) if expected else []
        assert sent(history, wire).request["messages"][0]["content"][1:] == wanted
        assert bool(changes(history, wire)) == (not shown)


def test_parts_of_others() -> None:
    """Only OpenAI's users have media there; on Anthropic's wire a result may have them too."""
    image: Any = [{"type": "image", "url": "https://a/b.png"}]
    history = view(user("a"), reply(image, "t1"), result("t1", image))
    assert [texts[-1] for _, texts in messages(history, OPENAI)] == ["a", "t1", "[image https://a/b.png]"]
    blocks = sent(history, ANTHROPIC).request["messages"]
    assert blocks[1]["content"][0] == {"type": "text", "text": "[image https://a/b.png]"}
    assert blocks[2]["content"][0]["content"] == [
        {"type": "image", "source": {"type": "url", "url": "https://a/b.png"}}
    ]


def test_thinking() -> None:
    """Thinking that was signed goes back to Anthropic, but never at the end of a message."""
    signed = {"type": "thinking", "thinking": "hm", "signature": "s"}
    redacted = {"type": "redacted_thinking", "data": "x"}
    history = view(user("a"), reply([signed, redacted, *parts("b"), signed]), user("c"), reply([signed]))
    content = sent(history, ANTHROPIC).request["messages"][1]["content"]
    assert content == [signed, redacted, *parts("b")]
    assert [what for _, what in changes(history, ANTHROPIC)] == [
        "thinking at the end dropped",
        "thinking at the end dropped",
        "blank assistant message dropped",
    ]
    assert [texts for _, texts in messages(history, OPENAI)] == [["a"], ["b"], ["c"]]


def test_white_space_at_an_assistants_end() -> None:
    """Anthropic refuses it in a final message: it goes from every one, so that the bytes stay when others follow."""
    history = view(user("a \n"), reply("b \n"))
    assert [texts for _, texts in messages(history, ANTHROPIC)] == [["a \n"], ["b"]]
    assert changes(history, ANTHROPIC) == [(2, "white space at the end of a text dropped")]
