"""Long random logs: the reader by ranges, the plain fold and the oracle agree, in forks too."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import oracle
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from views import clear, note, redact, reply, result, rewind, summary, to, told, user

from turnlog.projections import MODES, History, VisibleMessage, history
from turnlog.store import Store

Json = dict[str, Any]
SCOPES = ("chat", "chat", "chat", "coder", "shared_memory")
CONTEXTS = ("lastNMessages", "userAndAssistantMessages", "previousAssistantMessages", "none")
IDS = ("t1", "t2", "t3", "t4")
NAMES = ("a", "b", "c")
# Few events hide everything, so that views grow long; the first kinds make most of a log.
KINDS = {"say": 40, "call": 20, "result": 20, "transfer": 12, "handoff": 4, "summary": 6, "note": 2, "assistant": 2}
RARE = {"rewind": 1, "redaction": 2, "clear": 1, "delete": 1, "response": 2}


class Writer:
    """Writes random events, each of which may stand at the next version."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.log: list[Json] = [{"type": "request", "at": 0}]

    def write(self, size: int) -> list[Json]:
        """The log, once it has `size` events."""
        weights = KINDS | RARE
        while len(self.log) < size:
            kind = self.chance.choices(list(weights), list(weights.values()))[0]
            for event in self.events(kind):
                self.log.append(event)
        return self.log

    def events(self, kind: str) -> Iterator[Json]:
        chance, version = self.chance, len(self.log) + 1
        scope = chance.choice(SCOPES)
        own = "chat" if scope == "shared_memory" else scope
        # Few call tools in shared memory, and a transfer in the midst of such a call is the fold's to tell.
        calling = scope if chance.random() < 0.1 else own
        match kind:
            case "say":
                yield user(f"u{version}", scope=scope)
            case "call":
                ids = chance.sample(IDS, chance.choice((1, 1, 2)))
                yield reply(chance.choice(("", "text")), *ids, scope=calling)
            case "result":
                yield result(chance.choice(IDS), scope=calling)
            case "transfer":
                yield self.transfer(own, chance.choice((None, *MODES[:3])))
            case "handoff":
                call_id = chance.choice(IDS)
                yield reply("", call_id, scope=own)
                if chance.random() < 0.7:
                    yield result(call_id, scope=own)
                yield self.transfer(own, MODES[2]) | {"tool_call_id": call_id}
            case "delete":
                yield self.transfer(own, "delete-history")
            case "summary":
                first = chance.randint(1, max(1, version - 1))
                ranged = {"first": first, "last": min(version - 1, first + chance.randint(0, 30))}
                yield summary("s", scope=scope, **(ranged if chance.random() < 0.9 else {}))
            case "note":
                yield note("n") | {"scope": scope}
            case "assistant":
                yield {"type": "assistant", "assistant": chance.choice(NAMES), "scope": own, "system": f"S{version}"}
            case "clear":
                yield {"type": "clear", "scope": scope}
            case "rewind":
                target = max(0, version - 1 - chance.choice((0, 3, 20, 60)))
                yield rewind(target, **chance.choice(({}, {"scope": scope})))
            case "redaction":
                yield redact(chance.randint(1, version - 1), chance.choice((None, "gone")))
            case "response":
                yield {"type": "response", "request": 1, "status": "completed", "response": "r", "scope": scope}

    def transfer(self, scope: str, mode: str | None) -> Json:
        chance, version = self.chance, len(self.log) + 1
        event = to(chance.choice(NAMES), scope=scope) | ({} if mode is None else {"mode": mode})
        if chance.random() < 0.3:
            event["context"] = {"type": chance.choice(CONTEXTS), "maxMessages": chance.randint(0, 20)}
        if chance.random() < 0.5:
            event["tool_call_id"] = chance.choice(IDS)
        for field in ("system", "message", "first_message"):
            if chance.random() < 0.3:
                event[field] = f"{field} {version}"
        return event


def plainly(view: History) -> list[VisibleMessage]:
    """The messages as the plain fold has them."""
    return [view.message(item) for item in view.fold.state.view.visible if item not in view.pairing.hidden]


READ = {"ranges": 0, "fold": 0}


@pytest.fixture(scope="module", autouse=True)
def mostly_ranges() -> Iterator[None]:
    """At the end, that most of these views were told by ranges: otherwise little was compared."""
    yield
    assert READ["ranges"] > 5 * READ["fold"]


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_long_logs(seed: int) -> None:
    """At any version, in any scope, under any what-if: all messages, the last ones, how many, and what is hidden."""
    chance = random.Random(seed)
    log = Writer(chance).write(chance.randint(100, 300))
    with Store(":memory:") as store:
        store.append("c", log)
        store.fork("c", chance.randint(1, len(log)), "kid")
        redacted = [redact(chance.randint(1, len(log))) for _ in range(2)]
        store.append("c", redacted)
        store.append("kid", [user("on my own"), reply("", "t1"), result("t1"), to("b", MODES[2], tool_call_id="t1")])
        for _ in range(8):
            name = chance.choice(("c", "c", "kid"))
            query: Json = {"scope": chance.choice(SCOPES), "at": chance.randint(0, store.version(name))}
            if chance.random() < 0.3:
                query["mode"] = chance.choice(MODES)
            view = history(store, name, **query)
            messages = view.messages
            READ["fold" if "fold" in vars(view) else "ranges"] += 1
            assert messages == plainly(view)
            for last in (1, 5, 40):
                assert history(store, name, last=last, **query).messages == messages[-last:]
            assert len(history(store, name, **query)) == len(messages)
            if name == "c":
                assert told(view) == oracle.view([*log, *redacted], **query)


def test_the_last_messages_from_a_summary_on() -> None:
    """A summary stands where the first message that it covers stood, and `lastNMessages` keeps what comes after it."""
    log = [*map(user, ("one", "two", "three")), summary("S", 1, 1), user("four")]
    log.append(to("b", context={"type": "lastNMessages", "maxMessages": 4}))
    with Store(":memory:") as store:
        store.append("c", log)
        assert [message.content for message in history(store, "c").messages] == ["S", "two", "three", "four"]


def test_what_shared_memory_had_before_it_was_cleared() -> None:
    """A transfer removes what it removed then, also where shared memory was cleared afterwards."""
    log = [reply("", "t"), reply("", "t"), reply("", "t", scope="shared_memory"), result("t")]
    log += [to("b", MODES[2], tool_call_id="t"), clear(scope="shared_memory")]
    with Store(":memory:") as store:
        store.append("c", log)
        view = history(store, "c")
        assert [message.version for message in view.messages] == [1, 4]
        assert view.messages == plainly(view)
