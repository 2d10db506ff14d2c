"""The log to measure on (DESIGN section 10): four scopes, calls and results, transfers, summaries, rewinds, forks.

Its messages are real ones (messages.py), and the same parameters give the same log. What changes the shape of a view
does not grow with the log: `transfers` in the scope `chat` and a tenth as many in `agent` and in `coder`, summaries
(three for every ten transfers, and 15 at least), 4 rewinds and 2 forks, spread evenly; with `transfers` None nothing of
all that. One result in 500 never comes, one comes twice.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

from turnlog.store import Store

from .messages import Message, messages, policy, tools

Event = dict[str, Any]

SCOPES = ("chat", "agent", "coder", "shared_memory")
WEIGHTS = (60, 20, 15, 5)
LONGEST_RUN = 6
ODD_RESULT = 1 / 500
REWINDS = 4
SUMMARIES = 10
BATCH = 1000

ASSISTANTS = ("booking", "changes", "cancellations", "refunds")
ROLLING = "rolling-history"
SWAP = "swap-system-message-in-history"
REMOVING = "swap-system-message-in-history-and-remove-transfer-tool-messages"
MODES = (ROLLING, SWAP, REMOVING)
# One transfer in 25 hides most of what was said, by each of these in turn. Between two of them a view grows long.
HIDING_EVERY = 25
HIDING: tuple[Event, ...] = (
    {"mode": "delete-history"},
    {"mode": SWAP, "context": {"type": "lastNMessages", "maxMessages": 20}},
    {"mode": ROLLING, "context": {"type": "userAndAssistantMessages"}},
    {"mode": SWAP, "context": {"type": "previousAssistantMessages"}},
    {"mode": REMOVING, "context": {"type": "none"}},
)


# A short call of ten events, with a call of a tool, its result and a handoff.
TEN: list[Event] = [
    {"type": "assistant", "assistant": "greeter", "system": "You greet callers and find out what they need."},
    {"type": "message", "role": "user", "content": "Good morning, I was charged twice for the same thing in March."},
    {
        "type": "message",
        "role": "assistant",
        "content": "I am sorry to hear that. Let me look.",
        "tool_calls": [{"id": "t1", "name": "invoices", "arguments": '{"month":3}'}],
    },
    {"type": "message", "role": "tool", "tool_call_id": "t1", "content": "Invoice 2217: paid on 2024-03-03, twice."},
    {"type": "message", "role": "assistant", "content": "It was charged twice, yes. Billing can pay it back."},
    {"type": "transfer", "to": "billing", "mode": SWAP, "system": "You handle refunds.", "message": "One moment."},
    {"type": "message", "role": "user", "content": "Thanks."},
    {"type": "message", "role": "assistant", "content": "The second payment goes back to your account today."},
    {"type": "message", "role": "user", "content": "Thank you, and good bye."},
    {"type": "message", "role": "assistant", "content": "Good bye."},
]


def events(size: int, transfers: int | None) -> Iterator[Event]:
    """The first `size` events, one by one."""
    return islice(_Writer(size, transfers).events(), size)


def build(store: Store, name: str, size: int, transfers: int | None) -> None:
    """Append the log to a store in batches, and two forks of it: `name` with `-fork-1` and `-fork-2`."""
    log = events(size, transfers)
    while batch := list(islice(log, BATCH)):
        store.append(name, batch)
    if transfers is None:
        return
    for number, at in enumerate((size // 2, size - size // 10), start=1):
        fork = f"{name}-fork-{number}"
        store.fork(name, at, fork)
        store.append(fork, [_said("chat", message) for message in islice(messages(number), 50)])


Due = tuple[float, Callable[[], Iterator[Event]]]
NEVER: Due = (float("inf"), lambda: iter(()))


class _Writer:
    """Writes the events in order; `version` is the last one's."""

    def __init__(self, size: int, transfers: int | None) -> None:
        self.version = 0
        self._random = random.Random(size)
        self._messages = {scope: messages(5 * number) for number, scope in enumerate(SCOPES)}
        self._policy = policy()
        self._agenda = iter(()) if transfers is None else self._due(size, transfers)

    def _due(self, size: int, transfers: int) -> Iterator[Due]:
        return heapq.merge(
            _evenly(size, transfers, 0.5, lambda number: self._transfer("chat", number)),
            _evenly(size, transfers // 10, 0.6, lambda number: self._transfer("agent", number)),
            _evenly(size, transfers // 10, 0.7, lambda number: self._transfer("coder", number)),
            _evenly(size, max(SUMMARIES, transfers // 5), 0.25, self._summary),
            _evenly(size, REWINDS, 0.9, self._rewind),
            key=lambda due: due[0],
        )

    def events(self) -> Iterator[Event]:
        """Without end."""
        for event in self._events():
            self.version += 1
            yield event

    def _events(self) -> Iterator[Event]:
        yield {"type": "describe", "title": "An airline's calls", "metadata": {"source": "airline.jsonl"}}
        for scope in ("chat", "agent", "coder"):
            prompt = "\n\n## ".join(self._policy)
            yield {"type": "assistant", "scope": scope, "assistant": "front", "system": prompt, "tools": tools()}
        due, write = next(self._agenda, NEVER)
        for scope in self._scopes():
            while self.version >= due:
                yield from write()
                due, write = next(self._agenda, NEVER)
            yield from self._say(scope)

    def _scopes(self) -> Iterator[str]:
        while True:
            (scope,) = self._random.choices(SCOPES, WEIGHTS)
            for _ in range(self._random.randint(1, LONGEST_RUN)):
                yield scope

    def _say(self, scope: str) -> Iterator[Event]:
        message = next(self._messages[scope])
        if scope == "shared_memory":
            # Nobody calls tools in shared memory.
            while "tool_calls" in message or message["role"] == "tool":
                message = next(self._messages[scope])
        copies = 1
        if message["role"] == "tool":
            odd = self._random.random()
            copies = 0 if odd < ODD_RESULT else 2 if odd < 2 * ODD_RESULT else 1
        for _ in range(copies):
            yield _said(scope, message)

    def _transfer(self, scope: str, number: int) -> Iterator[Event]:
        to = ASSISTANTS[number % len(ASSISTANTS)]
        event: Event = {"type": "transfer", "scope": scope, "to": to, "mode": MODES[number % len(MODES)]}
        if number % HIDING_EVERY == 0:
            event |= HIDING[number // HIDING_EVERY % len(HIDING)]
        if number < 2 * len(ASSISTANTS):
            event |= {"system": self._policy[2 + number % len(ASSISTANTS)], "tools": tools()}
        if number % 4 == 0:
            event["first_message"] = f"You are now with {to}. How can I help?"
        if number % 5 == 0:
            event["message"] = "One moment, please: I am handing you over."
        if number % 7 == 0:
            event["first_message_mode"] = "assistant-waits-for-user"
        if event["mode"] == REMOVING:
            event["tool_call_id"] = call_id = f"call_transfer_{number % 40}"
            call = {"id": call_id, "name": f"transfer_to_{to}", "arguments": "{}"}
            yield _said(scope, {"role": "assistant", "content": "", "tool_calls": [call]})
            yield _said(scope, {"role": "tool", "content": "Transferred.", "tool_call_id": call_id})
        yield event

    def _summary(self, number: int) -> Iterator[Event]:
        """Every second one is extended at once, by one that covers it and more."""
        now = self.version
        yield self._summary_of(number, now - 60, now - 30)
        if number % 2:
            yield self._summary_of(number, now - 60, now - 10)

    def _summary_of(self, number: int, first: int, last: int) -> Event:
        text = f"{number}. " + " ".join(self._policy[number % len(self._policy)].split())[:600]
        first, last = max(1, first), max(1, last)
        said = {"type": "summary", "scope": "chat", "text": text, "summary_of": last - first + 1}
        return said | {"first": first, "last": last}

    def _rewind(self, number: int) -> Iterator[Event]:
        scope: Event = {} if number % 2 else {"scope": "chat"}
        yield {"type": "rewind", "to": max(4, self.version - 30), **scope}


def _evenly(size: int, times: int, offset: float, write: Callable[[int], Iterator[Event]]) -> Iterator[Due]:
    for number in range(times):
        yield (number + offset) * size / times, lambda number=number: write(number)  # type: ignore[misc]


def _said(scope: str, message: Message) -> Event:
    return {"type": "message", "scope": scope, **message}
