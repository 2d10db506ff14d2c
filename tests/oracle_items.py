"""Read events, contents and redactions as plain dicts, and keep what the oracle knows of one scope and its items."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

Json = dict[str, Any]
Reason = tuple[str, int]  # a rule, and the version of the event whose rule it was
Key = tuple[int, str]  # the version that placed a message, and as what (its origin)

SHARED = "shared_memory"
REDACTED = "[redacted]"
SCOPED = ("assistant", "message", "transfer", "summary", "request", "response", "clear")
SCOPELESS = ("rewind", "describe", "fork", "redaction")
CALL_PARTS = ("tool_call", "tool_use", "function_call", "toolCall")
TEXT_PARTS = ("text", "input_text", "output_text", "summary_text")
AUDIO_PARTS = ("audio", "input_audio", "output_audio")


def read(events: list[Json]) -> list[Json]:
    """Return the events with their versions and scopes, without fields that are None: those are absent."""
    found = []
    for version, raw in enumerate(events, 1):
        event = {key: value for key, value in raw.items() if value is not None}
        scope = event.get("scope") if event["type"] in SCOPELESS else event.get("scope", "chat")
        found.append(event | {"version": version, "scope": scope})
    return found


def known(event: Json) -> bool:
    """Tell whether this build knows the type of an event; one that it does not know changes no view."""
    if event["type"] in ("assistant", "transfer") and event["scope"] == SHARED:
        return False
    kinds = (*SCOPED, *SCOPELESS)
    return event["type"].startswith("x:") or (event["type"] in kinds and event.get("v", 1) == 1)


def text_of(part: Json) -> str | None:
    """Return the text of a part, or None if it is a part of another kind."""
    if part["type"] in TEXT_PARTS:
        return str(part.get("text", ""))
    if part["type"] == "refusal":
        return str(part.get("refusal", ""))
    if part["type"] in AUDIO_PARTS:
        return part.get("transcript") or None
    return None


def texts(content: str | list[Json]) -> str | list[Json]:
    """Return what of a content is text."""
    if isinstance(content, str):
        return content
    texts = [part for part in content if text_of(part)]
    return [{"type": "text", "text": text_of(part)} if part["type"] in AUDIO_PARTS else part for part in texts]


def others(content: str | list[Json]) -> list[Json]:
    """Return the parts of a content that are more than text and no call; a part of empty text is no part.

    An audio with a transcript is text and a part: where only the text is left, the transcript is.
    """
    parts = [] if isinstance(content, str) else content
    return [
        part
        for part in parts
        if part["type"] not in CALL_PARTS and (part["type"] in AUDIO_PARTS or text_of(part) is None)
    ]


def calls_of(event: Json, content: str | list[Json]) -> tuple[Json, ...]:
    """Return the calls of a message: those among its parts in order, or those of `tool_calls`."""
    among = [] if isinstance(content, str) else [part for part in content if part["type"] in CALL_PARTS]
    made = among or event.get("tool_calls", [])
    return tuple({key: call[key] for key in ("id", "name", "arguments")} for call in made)


def redactions(events: list[Json]) -> dict[int, str]:
    """Return what is shown in place of the content of each redacted version (rule 8), whenever it was redacted."""
    plain: dict[int, str] = {}
    replaced: dict[int, str] = {}
    for event in reversed([event for event in events if event["type"] == "redaction"]):
        target, replacement = event["target"], event.get("replacement")
        plain[target] = REDACTED
        if replacement:  # The redaction, and so its replacement, may have been redacted too.
            replacement = (plain | replaced).get(event["version"], replacement)
        if replacement is not None:
            replaced.setdefault(target, replacement)
    return plain | replaced


@dataclass(frozen=True)
class Item:
    """A message as some event placed it, and what has become of it since."""

    version: int
    origin: str
    role: str
    content: str | list[Json]
    assistant: str | None
    source: int  # the version of the event whose text it shows
    place: tuple[int, int]  # its order in a view; below zero at the head
    calls: tuple[Json, ...] = ()
    tool_call_id: str = ""
    name: str = ""
    interim: bool = False
    span: tuple[int, int] | None = None  # the range of a summary that has one
    covers: frozenset[Key] = frozenset()  # what was visible of what a summary covered
    ended: Reason | None = None  # held while this is None
    taken: tuple[Reason | None, ...] = ()  # by call: what took it from the message
    text_only: bool = False
    why: Reason | None = None  # the first thing that hid it since it was last visible

    @property
    def key(self) -> Key:
        return self.version, self.origin

    def kept_calls(self) -> list[int]:
        """Return the indexes of the calls that were not taken."""
        return [index for index, reason in enumerate(self.taken) if reason is None]

    def others(self) -> list[Json]:
        """Return its parts that are no text and that its form still shows."""
        return [] if self.text_only else others(self.content)

    def is_empty(self) -> bool:
        """Tell whether no text, part or call is left to be seen."""
        return not texts(self.content) and not self.others() and not self.kept_calls()

    def is_note(self) -> bool:
        return self.origin == "message" and self.role == "system"


@dataclass
class Side:
    """The state of one scope: its path, what is on it, and what is known of its assistants."""

    path: frozenset[int] = frozenset()
    items: dict[Key, Item] = field(default_factory=dict)  # all that was placed on the path, ended or not
    active: str | None = None
    rolled: bool = False  # whether a rolling transfer made the active assistant active
    known: dict[tuple[str, str], tuple[str, int]] = field(default_factory=dict)  # (assistant, field): text, version
    before: frozenset[Key] = frozenset()  # what was visible when the active assistant was last made active
    meant: tuple[tuple[Key, int], ...] = ()  # the calls that the transfers meant
    findings: tuple[Reason, ...] = ()  # what is wrong with events of the path: the rule, the version

    def copy(self) -> Side:
        return replace(self, items=dict(self.items), known=dict(self.known))

    def put(self, item: Item, **changes: Any) -> None:
        """Place an item, or change one, or both."""
        self.items[item.key] = replace(item, **changes)

    def end(self, items: Iterable[Item], reason: Reason) -> None:
        """End those of the items that are held."""
        for item in items:
            if self.items[item.key].ended is None:
                self.put(self.items[item.key], ended=reason)

    def held(self) -> list[Item]:
        return sorted((item for item in self.items.values() if item.ended is None), key=lambda item: item.place)


def covers(event: Json, item: Item) -> bool:
    """Tell whether the range of a summary covers an item: no prompt, no note, an earlier summary only as a whole."""
    first, last = item.span or (item.version, item.version)
    return item.origin != "prompt" and not item.is_note() and event["first"] <= first and last <= event["last"]


def entry(key: Key, reason: Reason, call: str | None) -> Json:
    return {"version": key[0], "origin": key[1], "rule": reason[0], "by": reason[1], "call": call}


def finding(version: int, rule: str, call: str | None = None) -> Json:
    return {"version": version, "rule": rule} | ({} if call is None else {"call": call})
