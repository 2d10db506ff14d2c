"""Events and views in few words, for the tests of the rules."""

from __future__ import annotations

import json
from typing import Any

import msgspec
from oracle import oracle

from turnlog.projections import MODES, History, Span, Timeline, VisibleMessage, timeline
from turnlog.projections import problems as findings
from turnlog.store import Store
from turnlog.store.events import Mode

Event = dict[str, Any]
Key = tuple[int, str]
SHARED = {"scope": "shared_memory"}
ROLLING, SWAP, REMOVE, DELETE = MODES
IMAGE = {"type": "image", "url": "u"}
# What section 4 itself calls a problem; section 7 has further findings.
REPAIRS = ("unanswered-call", "orphan-result", "duplicate-result", "summary-covers-nothing-visible", "unknown-event")
# Those that the oracle knows, too.
FORETOLD = (*REPAIRS, "self-transfer", "unknown-from", "nothing-removed", "summary-cuts-pair")


def event(type: str, **fields: Any) -> Event:
    return {"type": type, **fields}


def assistant(name: str, system: str | None = None, **fields: Any) -> Event:
    return event("assistant", assistant=name, system=system, **fields)


def user(content: str, **fields: Any) -> Event:
    return event("message", role="user", content=content, **fields)


def reply(content: str | list[Any], *calls: str, **fields: Any) -> Event:
    made = [{"id": call, "name": "f", "arguments": "{}"} for call in calls]
    return event("message", role="assistant", content=content, tool_calls=made, **fields)


def result(call: str, content: str = "r", **fields: Any) -> Event:
    return event("message", role="tool", tool_call_id=call, content=content, **fields)


def note(content: str) -> Event:
    return event("message", role="system", content=content)


def to(name: str, mode: str = ROLLING, system: str | None = None, **fields: Any) -> Event:
    return event("transfer", to=name, mode=mode, system=system, **fields)


def summary(text: str, first: int | None = None, last: int | None = None, **fields: Any) -> Event:
    return event("summary", text=text, summary_of=1, first=first, last=last, **fields)


def clear(**fields: Any) -> Event:
    return event("clear", **fields)


def rewind(version: int, **fields: Any) -> Event:
    return event("rewind", to=version, **fields)


def redact(target: int, replacement: str | None = None) -> Event:
    return event("redaction", target=target, reason="asked", replacement=replacement)


class Seen(History):
    """A history with all that can be asked beside it: what is hidden, what is held, and the findings.

    It keeps its store open.
    """

    def __init__(self, line: Timeline, history: History) -> None:
        self.__dict__.update(history.__dict__)
        self.hidden = line.hidden(history.version)
        self.problems = findings(line, history.version)
        self.held = line.held(history.version)

    def to_dict(self) -> dict[str, Any]:
        """Return the view as `history --json` prints it."""
        more = {"hidden": self.hidden, "problems": self.problems}
        document: dict[str, Any] = json.loads(msgspec.json.encode(super().to_dict() | more))
        return document


def seen(
    store: Store,
    conversation: str = "c",
    scope: str = "chat",
    at: Any = None,
    mode: Mode | None = None,
    modes: Any = None,
    last: int | None = None,
) -> Seen:
    """Return a view of a store's conversation, with all that can be asked beside it."""
    line = timeline(store, conversation, scope, mode=mode, modes=modes)
    return Seen(line, line.at(at, last=last))


def view(*events: Event, **query: Any) -> Seen:
    """Return a view of these events."""
    store = Store(":memory:")
    store.append("c", events)
    return seen(store, "c", **query)


def texts(*events: Event, **query: Any) -> list[Any]:
    return [message.content for message in view(*events, **query).messages]


def hidden(*events: Event, **query: Any) -> list[str]:
    """Each as `version origin: rule by version`, and the call if only that is hidden."""
    return [
        f"{entry.version} {entry.origin}: {entry.rule} by {entry.by}" + (f", call {entry.call}" if entry.call else "")
        for entry in view(*events, **query).hidden
    ]


def problems(*events: Event, **query: Any) -> list[tuple[int, str, str | None]]:
    found = view(*events, **query).problems
    return [(problem.version, problem.rule, problem.call) for problem in found if problem.rule in REPAIRS]


def told(view: Seen) -> dict[str, Any]:
    """A view as the oracle tells it."""
    document = view.to_dict()
    problems = [problem for problem in document["problems"] if problem["rule"] in FORETOLD]
    return {
        "assistant": view.assistant,
        "messages": [_told(message) for message in view.messages],
        "hidden": _in_order(document["hidden"]),
        "held": [(message.version, message.origin) for message in view.held],
        "problems": [{key: problem[key] for key in problem if key != "advice"} for problem in problems],
    }


def _told(message: VisibleMessage) -> dict[str, Any]:
    found = {name: getattr(message, name) for name in ("role", "content", "version", "origin", "assistant")}
    found["source"] = message.version if message.source is None else message.source
    calls = [{"id": call.id, "name": call.name, "arguments": call.arguments} for call in message.tool_calls]
    found |= {"tool_calls": calls} if calls else {}
    return found | ({} if message.tool_call_id is None else {"tool_call_id": message.tool_call_id})


def foretold(
    log: list[Event], scope: str = "chat", at: int | None = None, last: int | None = None, **query: Any
) -> dict[str, Any]:
    """Return what the oracle says of a view, as `told` writes it."""
    found = oracle(log, scope, at, **query)
    messages = [{key: each[key] for key in each if key != "text_only"} for each in found["messages"]]
    return {
        "assistant": found["assistant"],
        "messages": messages if last is None else messages[max(0, len(messages) - last) :],
        "hidden": _in_order([{key: each[key] for key in each if each[key] is not None} for each in found["hidden"]]),
        "held": found["held"],
        "problems": [each for each in _distinct(found["problems"]) if each["rule"] in FORETOLD],
    }


def _in_order(hidden: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return a hidden list with two calls of one id in a message, between which no order is said, in one order."""
    return sorted(hidden, key=lambda each: (each["version"], each["origin"], each.get("call", ""), each["by"]))


def _distinct(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return findings once each: two open calls of one id in a message are one."""
    return [each for number, each in enumerate(found) if each not in found[:number]]


def keys_of(view: Seen) -> tuple[list[Key], list[Key]]:
    """What is visible and what is hidden, each by the event that placed it and what it is of that event."""
    visible: list[Key] = [(message.version, message.origin) for message in view.messages]
    return visible, [(entry.version, entry.origin) for entry in view.hidden if entry.call is None]


def lifelines(line: Timeline) -> list[Span]:
    """Return the spans of all that was ever placed in a scope."""
    latest = line.version()
    return [span for version in range(1, latest + 1) for span in line.spans(version)]


def forms(spans: list[Span], at: int) -> dict[Key, tuple[list[str], bool]]:
    """Return of each message that is visible at a version which of its calls are, and whether only its text is left."""
    covering = [span for span in spans if span.since <= at and (span.until is None or span.until > at)]
    return {(span.version, span.origin): (list(span.calls), span.text_only) for span in covering}


def foretold_forms(found: dict[str, Any]) -> dict[Key, tuple[list[str], bool]]:
    """Return what the oracle says of the messages of a view, as `forms` writes it."""
    return {
        (each["version"], each["origin"]): (
            [call["id"] for call in each.get("tool_calls", ())],
            each.get("text_only", False),
        )
        for each in found["messages"]
    }
