"""A plain, slow reference of DESIGN section 4 over plain dict events: what faster code is compared with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]
Reason = tuple[str, int]  # the rule that hides, the version of the event that hid
Check = Callable[[Any], bool]

ROLLING, SWAP, DELETE = "rolling-history", "swap-system-message-in-history", "delete-history"
REMOVE = "swap-system-message-in-history-and-remove-transfer-tool-messages"
SPEAKS = "assistant-speaks-first"
SPEAKING = (SPEAKS, "assistant-speaks-first-with-model-generated-message", "assistant-waits-for-user")
CONTEXTS = ("all", "lastNMessages", "userAndAssistantMessages", "previousAssistantMessages", "none")
SHARED = "shared_memory"
SCOPELESS = ("describe", "fork", "redaction")
ON_PATH = ("assistant", "message", "transfer", "summary", "response", "clear")
REDACTED = "[redacted]"


def view(
    events: list[Json],
    scope: str = "chat",
    at: int | None = None,
    mode: str | None = None,
    modes: dict[int, str] | None = None,
    last: int | None = None,
) -> Json:
    """What the model could see of `scope` after version `at`, what is hidden from it, and what is wrong with it."""
    everything = [read(raw, place) for place, raw in enumerate(events, 1)]
    log = [event for event in everything if at is None or event.version <= at]
    scopes = [scope] if scope == SHARED else [scope, SHARED]

    # Rules 1 to 6, with 9.
    paths = {name: path(log, name) for name in scopes}
    on_path = [event for event in log if any(event in now for now, _ in paths.values())]
    fold = Fold(scope, on_path, mode, modes or {})
    idle = [item for item in fold.items if item.hidden and item.hidden[0] == "summary-covers-nothing-visible"]
    problems = [{"rule": "summary-covers-nothing-visible", "version": item.version} for item in idle]

    # Rule 7.
    answers, unasked, unanswered = pair(fold.items)
    for call, result in answers:
        if call.awaited is not None:
            result.hide(*call.awaited)
    for result, rule in unasked:
        result.hide(rule, result.version)
        problems.append({"rule": rule, "version": result.version})
    problems += [{"rule": "unanswered-call", "version": item.version, "call": call.id} for item, call in unanswered]
    visible = [item for item in fold.items if item.hidden is None]
    counted = visible if last is None else visible[max(len(visible) - last, 0) :]

    # What is hidden or wrong.
    hidden = [item.told(item.hidden) for item in fold.items if item.hidden is not None]
    for item in visible:
        hidden += [item.told(call.removed) | {"call": call.id} for call in item.calls if call.removed is not None]
    for name, (_, abandoned) in paths.items():
        for led, by in abandoned:
            made = [item for item in Fold(name, led, mode, modes or {}).items if item.version == led[-1].version]
            hidden += [item.told(("rewind", by)) for item in made]
    unknown = [event for event in log if not event.known and event.scope in (*scopes, None)]
    problems += [{"rule": "unknown-event", "version": event.version} for event in unknown]

    texts = redactions(everything)
    return {
        "assistant": fold.active,
        "messages": [shown(item, texts) for item in counted],
        "hidden": sorted(hidden, key=lambda entry: (entry["version"], entry["origin"], entry.get("call", ""))),
        "problems": sorted(problems, key=lambda entry: (entry["version"], entry["rule"], entry.get("call", ""))),
    }


@dataclass(frozen=True, eq=False)
class Event:
    version: int
    type: str
    scope: str | None  # None: all scopes, or none
    body: Json  # without what is None: that is absent
    known: bool  # type and values are of section 2


def read(raw: Json, place: int) -> Event:
    body = {key: value for key, value in raw.items() if value is not None}
    kind = body["type"] if text(body.get("type")) else ""
    version = body["version"] if whole(1)(body.get("version")) else place
    scope = None if kind in SCOPELESS else body.get("scope", None if kind == "rewind" else "chat")
    scope = scope if text(scope) else None
    return Event(version, kind, scope, body, kind.startswith("x:") or is_known(kind, scope, version, body))


def is_known(kind: str, scope: str | None, version: int, body: Json) -> bool:
    for name, check in (HEADER | FIELDS.get(kind, {})).items():
        key = name.removesuffix("?")
        if (key in body and not check(body[key])) or (key not in body and key == name):
            return False
    match kind:
        case "assistant" | "transfer":
            return scope != SHARED
        case "message":
            return body["role"] != "tool" or "tool_call_id" in body
        case "summary" if "first" in body or "last" in body:
            return "first" in body and "last" in body and bool(body["first"] <= body["last"] < version)
        case "rewind":
            return bool(body["to"] < version)
        case "redaction":
            return bool(body["target"] < version)
    return kind in FIELDS or kind in BARE


def text(value: Any) -> bool:
    return isinstance(value, str)


def whole(least: int) -> Check:
    return lambda value: isinstance(value, int) and not isinstance(value, bool) and value >= least


def among(*values: str) -> Check:
    return lambda value: isinstance(value, str) and value in values


def dicts(value: Any, *texts: str) -> bool:
    return isinstance(value, list) and all(isinstance(d, dict) and all(text(d.get(t)) for t in texts) for d in value)


def context(value: Any) -> bool:
    known = isinstance(value, dict) and among(*CONTEXTS)(value.get("type"))
    return known and (value["type"] != "lastNMessages" or whole(0)(value.get("maxMessages")))


def spoken(value: Any) -> bool:
    return text(value) or dicts(value, "type")


HEADER: dict[str, Check] = {"scope?": text, "v?": lambda value: whole(1)(value) and value == 1}
PROMPTS: dict[str, Check] = {"system?": text, "tools?": dicts, "first_message?": text}
MODES: dict[str, Check] = {"mode?": among(ROLLING, SWAP, REMOVE, DELETE), "first_message_mode?": among(*SPEAKING)}
CALLS: dict[str, Check] = {"tool_calls?": lambda value: dicts(value, "id", "name", "arguments")}
CALL_ID: dict[str, Check] = {"tool_call_id?": text}
RANGE: dict[str, Check] = {"first?": whole(1), "last?": whole(1)}
ROLES = ("system", "user", "assistant")
BARE = ("describe", "request", "clear", "fork")
FIELDS: dict[str, dict[str, Check]] = {
    "assistant": {"assistant": text} | PROMPTS,
    "message": {"role": among(*ROLES, "tool"), "content?": spoken, "assistant?": text} | CALLS | CALL_ID,
    "transfer": {"to": text, "message?": text, "context?": context} | MODES | PROMPTS | CALL_ID,
    "summary": {"text": text, "summary_of": whole(0), "role?": among(*ROLES)} | RANGE,
    "response": {"status": among("processing", "completed", "error"), "response?": spoken} | CALLS,
    "rewind": {"to": whole(0)},
    "redaction": {"target": whole(1), "replacement?": text},
}


def path(log: list[Event], scope: str) -> tuple[list[Event], list[tuple[list[Event], int]]]:
    """Rule 1: the path of a scope; and of each abandoned event the path that led to it and the rewind that left it."""
    now: list[Event] = []
    past: list[tuple[int, list[Event]]] = [(0, [])]
    led: dict[Event, list[Event]] = {}
    left: dict[Event, int] = {}
    for event in log:
        if event.known and event.type == "rewind" and event.scope in (scope, None):
            then = [was for version, was in past if version <= event.body["to"]][-1]
            left |= {gone: event.version for gone in now if gone not in then}
            now = then
        elif event.known and event.type in ON_PATH and event.scope == scope:
            now = [*now, event]
            led[event] = now
        past.append((event.version, now))
    return now, [(led[event], by) for event, by in left.items() if event not in now]


@dataclass(eq=False)
class Call:
    id: str
    name: str
    arguments: str
    removed: Reason | None = None
    awaited: Reason | None = None  # rule 4 removed it, or hid its message, before its result came


@dataclass(eq=False)
class Item:
    role: str
    content: str | list[Json]
    version: int
    origin: str
    assistant: str | None
    scope: str | None
    source: int  # the version of the event that holds the text
    calls: list[Call] = field(default_factory=list)
    tool_call_id: str = ""
    span: tuple[int, int] = (0, 0)  # the versions that it stands for
    hidden: Reason | None = None

    def hide(self, rule: str, by: int) -> None:
        self.hidden = self.hidden or (rule, by)

    def told(self, reason: Reason) -> Json:
        return {"version": self.version, "origin": self.origin, "rule": reason[0], "by": reason[1]}

    def texts(self) -> str | list[Json]:
        if isinstance(self.content, str):
            return self.content
        return [part for part in self.content if part["type"] == "text" and text(part.get("text")) and part["text"]]

    def has_content(self) -> bool:
        if isinstance(self.content, str):
            return bool(self.content)
        return bool(self.texts()) or any(part["type"] != "text" for part in self.content)

    def visible_calls(self) -> list[Call]:
        return [call for call in self.calls if self.hidden is None and call.removed is None]


class Fold:
    """Rules 2 to 6 and 9: the items of a scope, in order, after the events of a path; hidden ones keep places."""

    def __init__(self, scope: str, events: list[Event], mode: str | None, modes: dict[int, str]) -> None:
        self.scope, self.mode, self.modes = scope, mode, modes
        self.items: list[Item] = []
        self.active: str | None = None
        self.known: dict[tuple[str, str], tuple[str, int]] = {}  # (assistant, field): text, version that said it
        self.before: list[Item] = []  # what was visible when the active assistant became active
        self.transfer_calls: list[tuple[Item, Call]] = []
        for event in events:
            self.apply(event)

    def apply(self, event: Event) -> None:
        body = event.body
        match event.type:
            case "assistant":
                self.declare(event)
            case "transfer":
                self.transfer(event)
            case "summary":
                self.summarize(event)
            case "clear":
                for item in self.visible(event.scope):
                    if item.origin != "prompt":
                        item.hide("clear", event.version)
            case "message":
                item = self.add(event, body["role"], body.get("content", ""), "message")
                item.assistant = body.get("assistant", item.assistant)
                item.tool_call_id = body.get("tool_call_id", "")
            case "response" if body["status"] == "completed":
                self.add(event, "assistant", body.get("response", ""), "response")

    def add(self, event: Event, role: str, content: str | list[Json], origin: str, place: int | None = None) -> Item:
        """An item of this event, at the end or at a place, of the assistant that is active now."""
        speaker = self.active if event.scope == self.scope else None
        at = event.version
        item = Item(role, content, at, origin, speaker, event.scope, source=at, span=(at, at))
        if origin in ("message", "response"):
            made = event.body.get("tool_calls", [])
            item.calls = [Call(call["id"], call["name"], call["arguments"]) for call in made]
        self.items.insert(len(self.items) if place is None else place, item)
        return item

    def visible(self, scope: str | None) -> list[Item]:
        return [item for item in self.items if item.hidden is None and item.scope == scope]

    def declare(self, event: Event) -> None:  # rule 3
        name = event.body["assistant"]
        self.learn(name, event)
        if self.active is None:
            self.before = self.visible(self.scope)
            self.active = name
            self.say(name, "system", event, 0)
            self.say(name, "first_message", event, len(self.items))
        elif self.active == name and "system" in event.body:
            own = [item for item in self.visible(self.scope) if item.origin == "prompt" and item.assistant == name]
            newest = max(own, key=lambda item: item.version, default=None)
            self.say(name, "system", event, self.items.index(newest) if newest else 0)
            if newest:
                newest.hide("assistant", event.version)

    def learn(self, name: str, event: Event) -> None:
        said = [key for key in ("system", "first_message") if key in event.body]
        self.known |= {(name, key): (event.body[key], event.version) for key in said}

    def say(self, name: str, key: str, event: Event, place: int) -> None:
        """The prompt or the first message of the assistant, if it has any."""
        role, origin = ("system", "prompt") if key == "system" else ("assistant", "first_message")
        content, source = self.known.get((name, key), ("", 0))
        if content:
            self.add(event, role, content, origin, place).source = source

    def transfer(self, event: Event) -> None:  # rule 4
        body = event.body
        mode = self.modes.get(event.version) or self.mode or body.get("mode", ROLLING)
        rule: Reason = (f"transfer:{mode}", event.version)
        answers, _, unanswered = pair(self.items)
        if "tool_call_id" in body:
            made = [(item, call) for item in self.visible(self.scope) for call in item.visible_calls()]
            self.transfer_calls += [(item, call) for item, call in made if call.id == body["tool_call_id"]][-1:]
        if body.get("message", ""):
            self.add(event, "assistant", body["message"], "destination_message")
        if mode != DELETE:
            self.filter(event, body.get("context", {"type": "all"}))
        for item in self.visible(self.scope):
            if mode == DELETE or (mode in (SWAP, REMOVE) and item.origin == "prompt"):
                item.hide(*rule)
        for item, call in self.transfer_calls if mode == REMOVE else []:
            if call in item.visible_calls():
                call.removed = rule
                for result in [result for answered, result in answers if answered is call]:
                    if result.scope == self.scope:
                        result.hide(*rule)
                if not item.has_content() and not item.visible_calls():
                    item.hide(*rule)
        for item, call in unanswered:
            call.awaited = call.removed or item.hidden
        self.before = self.visible(self.scope)
        self.active = body["to"]
        self.learn(body["to"], event)
        self.say(body["to"], "system", event, len(self.items) if mode == ROLLING else 0)
        if body.get("first_message_mode", SPEAKS) == SPEAKS:
            self.say(body["to"], "first_message", event, len(self.items))

    def filter(self, event: Event, context: Json) -> None:  # rule 4.2
        rule: Reason = (f"context:{context['type']}", event.version)
        candidates = [item for item in self.visible(self.scope) if item.origin != "prompt"]
        kept = candidates if context["type"] == "all" else []
        match context["type"]:
            case "lastNMessages":
                kept = candidates[max(len(candidates) - context["maxMessages"], 0) :]
            case "userAndAssistantMessages":
                said = [item for item in candidates if item.role in ("user", "assistant") or item.origin == "summary"]
                kept = [item for item in said if item.texts()]
                for item in kept:
                    item.content = item.texts()
                    for call in item.visible_calls():
                        call.removed = rule
            case "previousAssistantMessages":
                kept = [item for item in candidates if self.active is not None and item in self.before]
        for item in candidates:
            if item not in kept:
                item.hide(*rule)

    def summarize(self, event: Event) -> None:  # rule 5
        body, ranged = event.body, "first" in event.body
        own = [item for item in self.visible(event.scope) if ranged and item.origin != "prompt"]
        own = [item for item in own if not (item.origin == "message" and item.role == "system")]  # a note
        covered = [item for item in own if body["first"] <= item.span[0] and item.span[1] <= body["last"]]
        place = self.items.index(covered[0]) if covered else None
        summary = self.add(event, body.get("role", "user"), body["text"], "summary", place)
        summary.span = (body["first"], body["last"]) if ranged else summary.span
        for item in covered:
            item.hide("summary", event.version)
        if ranged and not covered:
            summary.hide("summary-covers-nothing-visible", event.version)


def pair(items: list[Item]) -> tuple[list[tuple[Call, Item]], list[tuple[Item, str]], list[tuple[Item, Call]]]:
    """Rule 7: which result answers which call; the results that answer none, and the rule; the visible calls left."""
    answers: list[tuple[Call, Item]] = []
    unasked: list[tuple[Item, str]] = []
    unanswered: list[tuple[Item, Call]] = []
    for item in items:
        if item.role == "tool" and item.hidden is None:
            mine = [(caller, call) for caller, call in unanswered if call.id == item.tool_call_id]
            fits = [(caller, call) for caller, call in mine if call.awaited is None or call.awaited[1] < item.version]
            if fits:
                answers.append((fits[-1][1], item))
                unanswered.remove(fits[-1])
            else:
                again = any(call.id == item.tool_call_id for call, _ in answers)
                unasked.append((item, "duplicate-result" if again else "orphan-result"))
            if not fits or fits[-1][1].awaited is not None:
                continue  # the result is hidden, and so are calls of its own, odd as they would be
        by_rule_4 = item.hidden is None or item.hidden[0].startswith(("transfer:", "context:"))
        counting = item.visible_calls() + [call for call in item.calls if call.awaited is not None and by_rule_4]
        unanswered += [(item, call) for call in item.calls if call in counting]
    return answers, unasked, [(item, call) for item, call in unanswered if call.awaited is None]


def redactions(events: list[Event]) -> dict[int, str]:
    """Rule 8: what is shown in place of the content of each redacted version."""
    plain: dict[int, str] = {}
    replaced: dict[int, str] = {}
    for event in reversed([event for event in events if event.known and event.type == "redaction"]):
        target, replacement = event.body["target"], event.body.get("replacement")
        plain[target] = REDACTED
        if replacement:  # which may have been redacted too
            replacement = (plain | replaced).get(event.version, replacement)
        if replacement is not None:
            replaced.setdefault(target, replacement)
    return plain | replaced


def shown(item: Item, texts: dict[int, str]) -> Json:
    redacted = item.source in texts
    content = (texts[item.source] if item.has_content() else "") if redacted else item.content
    message: Json = {"role": item.role, "content": content, "version": item.version}
    message |= {"origin": item.origin, "assistant": item.assistant}
    for call in item.visible_calls():
        arguments = REDACTED if redacted else call.arguments
        message.setdefault("tool_calls", []).append({"id": call.id, "name": call.name, "arguments": arguments})
    if item.tool_call_id:
        message["tool_call_id"] = item.tool_call_id
    return message
