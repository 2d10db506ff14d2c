"""docs/format.md, held to its word from the page alone: hashlib and json, and nothing of turnlog."""

from __future__ import annotations

import json
import re
import shlex
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

PAGE = (Path(__file__).parent.parent / "docs" / "format.md").read_text(encoding="utf-8")
LINES = [line for block in re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL) for line in block.splitlines()]
EVENTS = [line for line in LINES if '"digest"' in line]
# As the page says under Digests and under In an export.
HEADER = ("conversation", "version", "type", "v", "scope", "id", "recorded_at", "occurred_at")
OF_THE_LINE = (*HEADER, "conversation_name", "frame", "salt", "body_digest", "digest")


def told(value: Any) -> str:
    """JSON as it is stored: no white space outside of texts, UTF-8, keys in their order."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def part(event: dict[str, Any], *names: str) -> str:
    return told({name: event[name] for name in names if name in event})


def hexdigest(text: str) -> str:
    return sha256(text.encode()).hexdigest()


@pytest.fixture(scope="module")
def commands() -> list[tuple[str, list[str]]]:
    """The commands of the page, each as the digest that the comment before it promises and the words of its printf."""
    (script,) = re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)
    found = re.findall(r"^# .*?: ([0-9a-f]{8})…\n((?:[^#].*\n)+)", script, re.MULTILINE)
    parsed = [(promised, shlex.split(command.replace("\\\n", " "))) for promised, command in found]
    assert all((words[0], words[-2:]) == ("printf", ["|", "sha256sum"]) for _, words in parsed)
    return [(promised, words[1:-2]) for promised, words in parsed]


def printed(words: list[str]) -> str:
    """What printf prints: its format again and again until its arguments are used up."""
    pattern, arguments = words[0].replace("\\n", "\n"), words[1:]
    size = pattern.count("%s")
    if not size:
        return pattern
    groups = [arguments[at : at + size] for at in range(0, len(arguments), size)]
    return "".join(pattern.replace("%s", "{}").format(*group) for group in groups)


def test_the_events_of_the_example() -> None:
    """Every digest of the example's lines is that of the lines themselves, by the rules that the page gives."""
    assert len(EVENTS) >= 2
    before = hexdigest(json.loads(EVENTS[0])["conversation"])
    for number, line in enumerate(EVENTS, 1):
        event = json.loads(line)
        assert told(event) == line
        assert list(event) == sorted(event, key=lambda name: OF_THE_LINE.index(name) if name in OF_THE_LINE else 99)
        assert event["version"] == number
        body = part(event, *(name for name in event if name not in OF_THE_LINE))
        body_digest = hexdigest(f"{event['salt']}\n{body}")
        before = hexdigest(f"{before}\n{part(event, *HEADER)}\n{told(event['frame'])}\n{body_digest}\n")
        assert before == event["digest"]


def test_the_commands_of_the_example(commands: list[tuple[str, list[str]]]) -> None:
    """Every command of the page prints the digest that the page promises."""
    assert len(commands) == 4
    for promised, words in commands:
        assert hexdigest(printed(words)).startswith(promised), words


def test_the_commands_are_those_of_the_first_event(commands: list[tuple[str, list[str]]]) -> None:
    """What the commands hash is the example's first event: its uuid, its salt and body, and its four lines."""
    event = json.loads(EVENTS[0])
    body = part(event, *(name for name in event if name not in OF_THE_LINE))
    genesis, of_body, of_event, of_name = (words for _, words in commands)
    assert genesis == [event["conversation"]]
    assert of_body[1:] == [event["salt"], body]
    lines = [hexdigest(printed(genesis)), part(event, *HEADER), told(event["frame"]), hexdigest(printed(of_body))]
    assert of_event[1:] == lines
    assert hexdigest(printed(of_event)) == event["digest"]
    assert (len(of_name[1]), of_name[2]) == (32, event["conversation"])


@pytest.mark.parametrize("name", [*HEADER[1:5], "recorded_at", "frame", "salt", "digest", "assistant", "system"])
def test_a_byte_of_the_example_that_is_another(name: str) -> None:
    """The example does check something: with another value in any field its digest is another."""
    event = json.loads(EVENTS[0])
    other = {str: lambda value: value[:-1] + "x", int: lambda value: value + 1, dict: lambda value: value | {"x": 1}}
    event[name] = other[type(event[name])](event[name])
    body = part(event, *(key for key in event if key not in OF_THE_LINE))
    body_digest = hexdigest(f"{event['salt']}\n{body}")
    genesis = hexdigest(event["conversation"])
    digest = hexdigest(f"{genesis}\n{part(event, *HEADER)}\n{told(event['frame'])}\n{body_digest}\n")
    assert digest != event["digest"]


def test_the_frames_of_the_example() -> None:
    """The example's frames say what the page's table says that frames of their types have."""
    rows = dict(re.findall(r"^\| `(\w+)` \| (.*) \|$", PAGE.split("### Frames")[1].split("##")[0], re.MULTILINE))
    for line in EVENTS:
        event = json.loads(line)
        assert set(event["frame"]) <= set(re.findall(r"`(\w+)`", rows[event["type"]]))
        for name, value in event["frame"].items():
            expected = ["text"] if name == "parts" else bool(event[name]) if value in (True, False) else event[name]
            assert value == expected


def test_the_example_as_people_write_it() -> None:
    """The events that the page shows as people write them are JSON, each with a type of its table."""
    types = set(re.findall(r"^\| `(\w+)` \|", PAGE.split("## Parts and calls")[0], re.MULTILINE))
    written = [json.loads(line) for line in LINES if line not in EVENTS]
    assert written
    assert {event["type"] for event in written} <= types


def test_the_tables_of_timelines() -> None:
    """docs/timelines.md names every table of timelines, and every column of spans."""
    page = (Path(__file__).parent.parent / "docs" / "timelines.md").read_text(encoding="utf-8")
    schema = (Path(__file__).parent.parent / "schema.sql").read_text(encoding="utf-8")
    tables = re.findall(r"CREATE TABLE IF NOT EXISTS (\w+) \(\n(.*?)\n\)", schema, re.DOTALL)
    columns = {name: re.findall(r"^    ([a-z_]+) ", body, re.MULTILINE) for name, body in tables}
    derived = {name for name, found in columns.items() if "line" in found}
    assert len(derived) > 8
    assert derived <= set(re.findall(r"\*\*`(\w+)`\*\*", page))
    assert set(columns["spans"]) <= set(re.findall(r"`(\w+)`", page))
