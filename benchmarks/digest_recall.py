"""How much of what the older exchanges agreed on is found in a 400-token digest of them.

    python benchmarks/digest_recall.py [FILE]

FILE (default: tests/data/airline.jsonl) is a file of the openai format. All but the last 4 exchanges of each
conversation are compacted: at once, and again and again every 2 exchanges.

What can be agreed on is taken from the tools' own data, not from how it looks: the values that stand in arguments and
results under `reservation_id` or `reservations`, `user_id` and `flight_number`; and amounts, as `$255` in text or under
`amount` in arguments. It is *agreed* if the user said it, if it was an argument of a call, or if the assistant said it
in the message that the user answered with a yes. It is *said* if anybody but a tool said it, offers that nobody took up
included. Baseline: the last 1,600 characters of the same messages as a transcript.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

from turnlog.importing import import_file
from turnlog.projections import VisibleMessage, history
from turnlog.projections.compaction.digest import DigestCompressor
from turnlog.store import Store

KEEP = 4
STEP = 2
MAX_TOKENS = 400
BASELINE = "last 1,600 characters"
KINDS = {
    "reservation_id": "reservation numbers",
    "reservations": "reservation numbers",
    "user_id": "user ids",
    "flight_number": "flight numbers",
}
AMOUNTS = "amounts"
ALL = [*dict.fromkeys(KINDS.values()), AMOUNTS]
YES = re.compile(r"\b(?:yes|yeah|sure|okay|ok|confirm|proceed|go ahead|sounds good|that works|perfect|great)\b", re.I)
AMOUNT = re.compile(r"\$\s?(\d[\d,]*(?:\.\d+)?)")
WORD = re.compile(r"\w+")
# Not those in dates and codes, nor those of a digest's lines.
NUMBER = re.compile(r"(?<![\w.,-])\d[\d,]*(?:\.\d+)?(?![\w-])")
MARK = re.compile(r"^\(\d+[^)]*\)", re.MULTILINE)

# A fact: its kind and itself.
Fact = tuple[str, str]
Exchanges = list[list[VisibleMessage]]


def at_keys(value: Any, key: str = "") -> Iterator[tuple[str, Any]]:
    """The plain values of a JSON value, each with its key."""
    if isinstance(value, dict):
        for name, each in value.items():
            yield from at_keys(each, name)
    elif isinstance(value, list):
        for each in value:
            yield from at_keys(each, key)
    else:
        yield key, value


def parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None


def text_of(message: VisibleMessage) -> str:
    return message.content if isinstance(message.content, str) else ""


def vocabulary(messages: list[VisibleMessage]) -> dict[str, str]:
    """What the tools' data name, and its kind."""
    texts = [text_of(message) for message in messages if message.role == "tool"]
    texts += [call.arguments for message in messages for call in message.tool_calls]
    return {
        str(value): KINDS[key]
        for text in texts
        for key, value in at_keys(parsed(text))
        if key in KINDS and value is not None
    }


def in_text(text: str, known: dict[str, str]) -> set[Fact]:
    found = {(known[word], word) for word in WORD.findall(text) if word in known}
    return found | {(AMOUNTS, amount.replace(",", "")) for amount in AMOUNT.findall(text)}


def in_arguments(arguments: str, known: dict[str, str]) -> set[Fact]:
    value = parsed(arguments)
    amounts = {(AMOUNTS, str(each)) for key, each in at_keys(value) if key == "amount"}
    return amounts | {
        (known[word], word) for _, each in at_keys(value) for word in WORD.findall(str(each)) if word in known
    }


def agreed(messages: list[VisibleMessage], known: dict[str, str]) -> set[Fact]:
    found: set[Fact] = set()
    before = ""
    for message in messages:
        if message.role == "user":
            found |= in_text(text_of(message), known)
            if YES.search(text_of(message)):
                found |= in_text(before, known)
        for call in message.tool_calls:
            found |= in_arguments(call.arguments, known)
        if message.role == "assistant":
            before = text_of(message)
    return found


def said(messages: list[VisibleMessage], known: dict[str, str]) -> set[Fact]:
    found: set[Fact] = set()
    for message in messages:
        if message.role != "tool":
            found |= in_text(text_of(message), known)
        for call in message.tool_calls:
            found |= in_arguments(call.arguments, known)
    return found


def shown(text: str, known: dict[str, str]) -> set[Fact]:
    """What a summary shows. An amount may stand there without its currency."""
    words = {(known[word], word) for word in WORD.findall(text) if word in known}
    return words | {
        (AMOUNTS, number.replace(",", "").rstrip("."))
        for number in NUMBER.findall(MARK.sub("", text).replace("$", " "))
    }


def exchanges(messages: list[VisibleMessage]) -> Exchanges:
    found: Exchanges = [[]]
    for message in messages:
        if message.role == "user" and found[-1]:
            found.append([])
        found[-1].append(message)
    return found


def flat(older: Exchanges) -> list[VisibleMessage]:
    return list(chain.from_iterable(older))


def transcript(messages: list[VisibleMessage]) -> str:
    lines = []
    for message in messages:
        lines.append(f"{message.role}: {text_of(message)}")
        lines += [f"{message.role} calls {call.name}({call.arguments})" for call in message.tool_calls]
    return "\n".join(lines)


def at_once(older: Exchanges) -> str:
    return DigestCompressor(MAX_TOKENS).compress("", flat(older)).text


def repeated(older: Exchanges) -> str:
    text = ""
    for start in range(0, len(older), STEP):
        text = DigestCompressor(MAX_TOKENS).compress(text, flat(older[start : start + STEP])).text
    return text


def baseline(older: Exchanges) -> str:
    return transcript(flat(older))[-4 * MAX_TOKENS :]


SUMMARIES: dict[str, Callable[[Exchanges], str]] = {
    "at once": at_once,
    f"every {STEP} exchanges": repeated,
    BASELINE: baseline,
}


def main(file: Path) -> None:
    totals = {name: Counter[str]() for name in ("agreed", "said")}
    found = {(name, how): Counter[str]() for name in totals for how in SUMMARIES}
    missing: list[str] = []
    longest = 0
    with Store(":memory:") as store:
        for imported in import_file(store, file.name, file.read_bytes(), file.stem):
            view = history(store, imported.conversation)
            messages = [message for message in view if message.origin != "prompt"]
            older = exchanges(messages)[:-KEEP]
            known = vocabulary(messages)
            facts = {"agreed": agreed(flat(older), known), "said": said(flat(older), known)}
            for how, summary in SUMMARIES.items():
                text = summary(older) if older else ""
                longest = max(longest, len(text))
                for name, wanted in facts.items():
                    there = wanted & shown(text, known)
                    found[name, how].update(kind for kind, _ in there)
                    if how != BASELINE:
                        missing += [f"{imported.conversation}, {name}, {how}: {fact}" for _, fact in wanted - there]
            for name, wanted in facts.items():
                totals[name].update(kind for kind, _ in wanted)
    for name, total in totals.items():
        print(f"{name:24}" + "".join(f"{how:>24}" for how in SUMMARIES))
        for kind in ALL:
            print(f"  {kind:22}" + "".join(share(found[name, how][kind], total[kind]) for how in SUMMARIES))
        print(f"  {'total':22}" + "".join(share(found[name, how].total(), total.total()) for how in SUMMARIES))
    print(f"longest: {longest} characters\nmissing: {len(missing)}")
    for line in sorted(missing):
        print(f"  {line}")


def share(part: int, whole: int) -> str:
    return f"{f'{part}/{whole} {part / whole:.0%}' if whole else '-':>24}"


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent.parent / "tests" / "data" / "airline.jsonl")
