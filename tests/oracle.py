"""Read the rules of visible histories from scratch, slowly and plainly: what faster code is compared with.

An event is a dict as people write it; its version is its place in the list. A view is computed by applying every event
to the state before it. The state after each version is remembered, because a rewind goes back to one of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from oracle_items import (
    CALL_PARTS,
    REDACTED,
    SCOPED,
    SHARED,
    Item,
    Json,
    Key,
    Side,
    calls_of,
    covers,
    entry,
    finding,
    known,
    others,
    read,
    redactions,
    texts,
)
from oracle_pairs import CallKey, first, hiding, pairs, stray

Modes = dict[int, str]

ROLLING, SWAP, DELETE = "rolling-history", "swap-system-message-in-history", "delete-history"
REMOVE = "swap-system-message-in-history-and-remove-transfer-tool-messages"
SPEAKS = "assistant-speaks-first"
NOTHING = "summary-covers-nothing-visible"


def oracle(
    events: list[Json],
    scope: str = "chat",
    at: int | None = None,
    mode: str | None = None,
    modes: dict[int, str] | None = None,
) -> Json:
    """Return what is visible in `scope` after version `at`, what is hidden, held and paired, and what is wrong."""
    at = len(events) if at is None else min(at, len(events))
    return View(events, scope, at, mode, modes or {}).result()


def every_version(
    events: list[Json], scope: str = "chat", mode: str | None = None, modes: dict[int, str] | None = None
) -> Iterator[Json]:
    """Yield what `oracle` returns at version 0, 1, 2 and so on to the last, in one pass."""
    view = View(events, scope, 0, mode, modes or {})
    yield view.result()
    for event in view.events:
        view.step(event)
        yield view.result()


def path(events: list[Json], scope: str = "chat", at: int | None = None) -> list[int]:
    """Return the versions on the path of one scope after version `at`."""
    return sorted(View(events, scope, len(events) if at is None else at, None, {}).sides[scope].path)


class View:
    """A scope and shared memory, version by version."""

    def __init__(self, events: list[Json], scope: str, at: int, mode: str | None, modes: Modes) -> None:
        self.scope, self.mode = scope, mode
        self.modes = {int(version): value for version, value in modes.items()}
        self.events = read(events)
        self.replaced = redactions(self.events)
        self.now = 0
        self.sides = {name: Side() for name in (scope, SHARED)}
        self.placed: dict[Key, str] = {}  # all that was ever placed, and in which scope
        self.left: dict[Key, int] = {}  # the last rewind that took it off the path
        self.unknown: list[int] = []
        self.states = [({name: side.copy() for name, side in self.sides.items()}, self.pairs())]
        for event in self.events[:at]:
            self.step(event)

    @property
    def own(self) -> Side:
        return self.sides[self.scope]

    def step(self, event: Json) -> None:
        """Apply the next event, and settle what is visible after it."""
        self.now = event["version"]
        scope, lost = event["scope"], dict[int, CallKey]()
        if not known(event):
            self.unknown += [self.now] if scope in (*self.sides, None) else []
        elif event["type"] == "rewind":
            if event["to"] < self.now:
                lost = self.rewind(event["to"], [scope] if scope else list(self.sides))
        elif scope in self.sides and event["type"] in SCOPED:
            self.sides[scope].path |= {self.now}
            self.apply(event)
        self.settle(lost)
        self.states.append(({name: side.copy() for name, side in self.sides.items()}, self.pairs()))

    def apply(self, event: Json) -> None:
        side, name = self.sides[event["scope"]], event["scope"]
        match event["type"]:
            case "assistant":
                self.declare(event)
            case "transfer":
                self.transfer(event)
            case "summary":
                self.summarize(event)
            case "clear":  # Rule 6: prompts stay.
                side.end([item for item in side.held() if item.origin != "prompt"], ("clear", self.now))
            case "message":
                content = event.get("content", "")
                fields = ("tool_call_id", "name", "interim") if event["role"] == "tool" else ()
                more = {key: event[key] for key in fields if key in event}
                self.place(name, event["role"], content, "message", event, **more)
            case "response" if event["status"] == "completed":  # Rule 6: a blank one places nothing.
                content = event.get("response", "")
                if texts(content) or others(content) or calls_of(event, content):
                    self.place(name, "assistant", content, "response", event)

    def place(self, scope: str, role: str, content: str | list[Json], origin: str, event: Json, **more: Any) -> None:
        """Place a message of this event, unless `more` differs at the end, and of the assistant named or active."""
        order = {"prompt": 1, "first_message": 2}.get(origin, 0)
        calls = calls_of(event, content) if origin in ("message", "response") else ()
        speaker = event.get("assistant", self.own.active if scope == self.scope else None)
        base: Json = {"assistant": speaker, "source": self.now, "place": (self.now, order)}
        base |= {"calls": calls, "taken": (None,) * len(calls)}
        item = Item(self.now, origin, role, content, **(base | more))
        self.sides[scope].put(item)
        self.placed[item.key] = scope

    # Rule 1.

    def rewind(self, to: int, scopes: list[str]) -> dict[int, CallKey]:
        """Put scopes back to what they were at `to`. Return the results that had a call and have none now, with it."""
        had: dict[int, CallKey] = {}
        for name, side in self.sides.items():
            number = to if name in scopes else self.now - 1
            then, pairs = self.states[number]
            had |= {version: call for version, call in pairs.items() if (version, "message") in then[name].items}
            if name in scopes:
                self.sides[name] = then[name].copy()
                self.left |= {key: self.now for key in side.items if key not in then[name].items}
        return {version: call for version, call in had.items() if version not in self.pairs()}

    def settle(self, lost: dict[int, CallKey]) -> None:
        """Find for each message on the path why it is hidden: by the first thing that hid it since it was last visible.

        Of what a rewind put back that is what it was then. A reason whose event left the path gives way to the first
        that still holds. A visible result that a rewind leaves without its call (`lost`) is hidden by that rewind.
        """
        merged = frozenset[int]().union(*(side.path for side in self.sides.values()))
        rewinds = {event["version"] for event in self.events[: self.now] if event["type"] == "rewind"}
        reasons = hiding(self.on_path())
        for side in self.sides.values():
            for item in list(side.items.values()):
                why = item.why if item.why and item.why[1] in merged | rewinds else None
                if not reasons[item.key]:
                    why = None
                elif item.why is None and item.ended is None and item.version in lost:
                    there = any(other.version == lost[item.version][0] for other in self.on_path() if other.calls)
                    why = ("duplicate-result" if there else "orphan-result", self.now)
                elif why is None:
                    why = first(reasons[item.key])
                side.put(item, why=why)

    # Rule 7, with `oracle_pairs`.

    def on_path(self) -> list[Item]:
        """Return all items of the merged path in order of their versions, ended ones too."""
        return sorted((item for side in self.sides.values() for item in side.items.values()), key=lambda item: item.key)

    def pairs(self) -> dict[int, CallKey]:
        return pairs(self.on_path())

    def answered(self) -> set[CallKey]:
        """Return the calls of the merged path that have a final result."""
        pairs = self.pairs()
        return {pairs[item.version] for item in self.on_path() if item.version in pairs and not item.interim}

    def visible(self, side: Side) -> list[Item]:
        """Return the visible items of a scope in their order, now, in the midst of an event."""
        reasons = hiding(self.on_path())
        return [item for item in side.held() if not reasons[item.key]]

    # Rule 3.

    def declare(self, event: Json) -> None:
        side, name = self.own, event["assistant"]
        self.learn(name, event)
        head = (-self.now, 0)
        if side.active is None:
            side.before = frozenset(item.key for item in self.visible(side))
            side.active, side.rolled = name, False
            self.speak(name, "system", event, place=head)
            self.speak(name, "first_message", event)
        elif side.active == name and "system" in event:
            own = [item for item in side.held() if item.origin == "prompt" and item.assistant == name]
            newest = max(own, key=lambda item: item.version, default=None)
            if newest:
                side.end([newest], ("assistant", self.now))
                self.speak(name, "system", event, place=newest.place)
            else:
                self.speak(name, "system", event, **({} if side.rolled else {"place": head}))

    def learn(self, name: str, event: Json) -> None:
        self.own.known |= {(name, key): (event[key], self.now) for key in ("system", "first_message") if key in event}

    def speak(self, name: str, key: str, event: Json, **more: Any) -> None:
        """Place the prompt or the first message of an assistant, if it has one that is not empty."""
        role, origin = ("system", "prompt") if key == "system" else ("assistant", "first_message")
        content, source = self.own.known.get((name, key), ("", 0))
        if content:
            self.place(self.scope, role, content, origin, event, **{"assistant": name, "source": source, **more})

    # Rule 4.

    def transfer(self, event: Json) -> None:
        side = self.own
        mode = self.modes.get(self.now) or self.mode or event.get("mode", ROLLING)
        meant = self.meant(event.get("tool_call_id"))
        wrong = {
            "self-transfer": event["to"] == side.active,
            "unknown-from": "from" in event and event["from"] != side.active,
            "nothing-removed": mode == REMOVE and meant is None,
        }
        side.findings += tuple((rule, self.now) for rule, holds in wrong.items() if holds)
        side.meant += () if meant is None else (meant,)
        if event.get("message"):
            speaker = event.get("from") if side.active is None else side.active
            self.place(self.scope, "assistant", event["message"], "destination_message", event, assistant=speaker)
        if mode != DELETE:
            self.choose(event.get("context", {"type": "all"}))
        self.leave(mode)
        side.before = frozenset(item.key for item in self.visible(side))
        side.active, side.rolled = event["to"], mode == ROLLING
        self.learn(event["to"], event)
        self.speak(event["to"], "system", event, **({} if mode == ROLLING else {"place": (-self.now, 0)}))
        if event.get("first_message_mode", SPEAKS) == SPEAKS:
            self.speak(event["to"], "first_message", event)

    def meant(self, id: str | None) -> tuple[Key, int] | None:
        """Return the call that a transfer means (step 1)."""
        calls = [(item, index) for item in self.visible(self.own) for index in item.kept_calls()]
        calls = [(item, index) for item, index in calls if item.calls[index]["id"] == id]
        calls = [(item, index) for item, index in calls if (item.key, index) not in self.own.meant]
        answered = self.answered()
        of_id = [item.version for item in self.on_path() if item.role == "tool" and item.tool_call_id == id]
        latest = [self.pairs()[version] for version in of_id if version in self.pairs()][-1:]
        open = [(item, index) for item, index in calls if (item.version, index) not in answered - set(latest)]
        chosen = (open or calls)[-1:]
        return (chosen[0][0].key, chosen[0][1]) if chosen else None

    def choose(self, context: Json) -> None:
        """End what a context does not keep, and leave of some messages only their text (step 3)."""
        side, rule = self.own, (f"context:{context['type']}", self.now)
        held = [item for item in side.held() if item.origin != "prompt"]
        seen = [item for item in self.visible(side) if item.origin != "prompt"]
        kept: list[Item] = []
        match context["type"]:
            case "all":
                kept = held
            case "lastNMessages":
                kept = seen[max(len(seen) - context["maxMessages"], 0) :]
                if kept == seen:
                    kept = held
                elif kept:
                    kept = [item for item in held if item in kept or (item not in seen and item.place > kept[0].place)]
            case "userAndAssistantMessages":
                for item in seen:
                    if item.role in ("user", "assistant") or item.origin == "summary":
                        less = item.text_only or bool(item.kept_calls() or item.others())
                        taken = tuple(reason or rule for reason in item.taken)
                        side.put(item, taken=taken, text_only=less and bool(texts(item.content)))
                        kept += [item] if texts(item.content) else []
            case "previousAssistantMessages":
                kept = [item for item in held if side.active is not None and self.was_there(item.key)]
        keys = {item.key for item in kept}
        side.end([item for item in held if item.key not in keys], rule)

    def was_there(self, key: Key) -> bool:
        """Tell whether an item, or all that it covered, was visible when the active assistant was made active."""
        item = self.own.items[key]
        return key in self.own.before or (bool(item.covers) and all(self.was_there(other) for other in item.covers))

    def leave(self, mode: str) -> None:
        """Do what the mode of a transfer does to what is there (step 4)."""
        side, rule = self.own, (f"transfer:{mode}", self.now)
        if mode == DELETE:
            side.end(side.held(), rule)
        if mode in (SWAP, REMOVE):
            side.end([item for item in side.held() if item.origin == "prompt"], rule)
        for key, index in side.meant if mode == REMOVE else ():
            caller = side.items[key]
            if caller in self.visible(side) and index in caller.kept_calls():
                taken = [rule if number == index else reason for number, reason in enumerate(caller.taken)]
                side.put(caller, taken=tuple(taken))
                results = {version for version, call in self.pairs().items() if call == (caller.version, index)}
                side.end([item for item in side.held() if item.version in results], rule)
                if side.items[key].is_empty():
                    side.end([caller], rule)

    # Rule 5.

    def summarize(self, event: Json) -> None:
        side, scope = self.sides[event["scope"]], event["scope"]
        more: Json = {}
        if "first" in event:
            kept = self.widened(event.get("keep", []))
            covered = [item for item in side.held() if covers(event, item) and item.version not in kept]
            seen = self.visible(side)
            counted = covered if scope == SHARED else [item for item in covered if item in seen]
            more = {"span": (event["first"], event["last"])}
            if counted:
                more |= {"place": counted[0].place, "covers": frozenset(item.key for item in covered if item in seen)}
                self.cuts(side, {item.version for item in covered})
                side.end(covered, ("summary", self.now))
            else:
                more |= {"ended": (NOTHING, self.now)}
                side.findings += ((NOTHING, self.now),)
        self.place(scope, event.get("role", "user"), event["text"], "summary", event, **more)

    def widened(self, keep: list[int]) -> set[int]:
        """Return `keep` with whole pairs: a message stays with all its calls and all their results."""
        kept = set(keep)
        pairs = self.pairs().items()
        for _ in pairs:
            kept |= {version for result, (call, _) in pairs if {result, call} & kept for version in (result, call)}
        return kept

    def cuts(self, side: Side, covered: set[int]) -> None:
        """Note that a summary covers one half of a pair of which both were visible until now."""
        seen = {item.version for other in self.sides.values() for item in self.visible(other)}
        torn = [
            result
            for result, (version, index) in self.pairs().items()
            if {result, version} <= seen and (result in covered) != (version in covered)
            if any(item.version == version and index in item.kept_calls() for item in self.on_path())
        ]
        side.findings += (("summary-cuts-pair", self.now),) if torn else ()

    # The view as a dict.

    def result(self) -> Json:
        """Return the view as it is now."""
        items = sorted(self.on_path(), key=lambda item: item.place)
        visible = [item for item in items if item.why is None]
        hidden = [entry(item.key, item.why, None) for item in items if item.why is not None]
        for item in visible:
            lost = [(call["id"], reason) for call, reason in zip(item.calls, item.taken, strict=True) if reason]
            hidden += [entry(item.key, reason, id) for id, reason in lost]
        for key, scope in self.placed.items():
            if key not in self.sides[scope].items:
                hidden.append(entry(key, ("rewind", self.left[key]), None))
        return {
            "assistant": self.own.active,
            "messages": [self.shown(item) for item in visible],
            "hidden": sorted(hidden, key=lambda one: (one["version"], one["origin"], one["call"] or "")),
            "held": [item.key for item in items if item.ended is None],
            "pairs": sorted(self.pairs().items()),
            "problems": self.problems(visible),
        }

    def shown(self, item: Item) -> Json:
        """Return a visible message as it is shown, redacted as of now (rule 8)."""
        redacted = item.source in self.replaced
        content = texts(item.content) if item.text_only else item.content
        if redacted:
            content = self.replaced[item.source] if texts(item.content) or item.others() else ""
        elif not isinstance(content, str):
            content = [part for part in content if part["type"] not in CALL_PARTS]
        message: Json = {"role": item.role, "version": item.version, "origin": item.origin}
        message |= {"assistant": item.assistant, "source": item.source, "content": content}
        calls = [item.calls[index] for index in item.kept_calls()]
        calls = [call | {"arguments": REDACTED} for call in calls] if redacted else calls
        message |= {"tool_calls": calls} if calls else {}
        message |= {"tool_call_id": item.tool_call_id} if item.tool_call_id else {}
        return message | ({"text_only": True} if item.text_only else {})

    def problems(self, visible: list[Item]) -> list[Json]:
        """Return what is wrong with the view: calls without a final result, results without a call, odd events."""
        pairs, answered, found = self.pairs(), self.answered(), list[Json]()
        for item in visible:
            waiting = [index for index in item.kept_calls() if (item.version, index) not in answered]
            found += [finding(item.version, "unanswered-call", item.calls[index]["id"]) for index in waiting]
        alone = [item for item in self.own.held() if item.role == "tool" and item.version not in pairs]
        found += [finding(item.version, stray(self.on_path(), item)) for item in alone]
        found += [finding(version, rule) for side in self.sides.values() for rule, version in side.findings]
        found += [finding(version, "unknown-event") for version in self.unknown]
        return sorted(found, key=lambda one: (one["version"], one["rule"], one.get("call", "")))
