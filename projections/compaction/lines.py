"""The form of a digest: a line for each exchange, and lines shortened and merged until they fit.

    (7 earlier exchanges) user_id=mia_li_3668 · HAT136, HAT039 · $255
    (8) user: Yes, please proceed · did: book_reservation(cabin=economy) → reservation_id=HATHAT · assistant: Booked.

A digest is read back from its text, since that is all that a summary keeps.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal

from .facts import ELLIPSIS, LONGEST_FACT, SEPARATOR, cut, legible, passages, sentences, tells
from .identifiers import LONGEST, identifiers
from .outcomes import is_key_of_id

GAVE = " → "
CALL = "did"
SUMMARY = "summary"
NOTHING = "nothing noted"

# A shorter line says nothing that the count does not, nor does a shorter piece of a fact.
LEAST_LINE = 32
LEAST_PIECE = 20
# No line takes more than this part of the room that it and the older ones have: detail fades with age.
FADING = 4

_EXCHANGE = re.compile(r"\(\d{1,9}\) ")
_EARLIER = re.compile(r"\((?:(\d{1,9}) )?earlier(?: exchanges?)?\) ?")
_MOST = 999_999_999
_SPEAKER = re.compile(rf"(user|tool|note|{CALL}|{SUMMARY}|assistant(?: [\w.-]{{1,40}})?): ")
_KEY = re.compile(r"(?<![\w-])([^\W\d][\w-]{0,39})=")

# Which kinds give way first; codes and what stands at a key do last.
_LATER = {"amount": 1, "date": 1, "path": 1, "url": 2, "quoted": 2, "name": 2}
_KEYED = re.compile(r"=([^\s,()]+)")

# Identifiers, the newest last, and what each is told with: `user_id=`, or its kind, which is not shown.
Noted = dict[str, str]


@dataclass(frozen=True)
class Fact:
    """A sentence and who said it, or a call with what came of it."""

    speaker: str
    text: str

    @property
    def key(self) -> str:
        """What two facts have in common if one repeats the other."""
        return self.text.casefold().strip(" .!" + ELLIPSIS)

    @cached_property
    def noted(self) -> Noted:
        """The identifiers in it. A tool's name and the keys of its arguments are none."""
        if self.speaker != CALL:
            return noted(self.text)
        given = self.text.partition("(")[2]
        return keyed(given) if _KEY.search(given) else noted(given)

    def shortened(self, limit: int) -> str:
        """Its text within a limit; of a call, what came of it before its arguments, and nothing without its name."""
        if len(self.text) <= limit or self.speaker != CALL:
            return cut(self.text, limit)
        call, gives, gave = self.text.partition(GAVE)
        name, _, given = call.partition("(")
        room = limit - len(name) - len("()") - len(gives) - len(gave)
        given = cut(given.removesuffix(")"), room) if room > LEAST_PIECE else ELLIPSIS
        return cut(f"{name}({given}){gives}{gave}", limit) if len(name) + len("(…)") < limit else ""


@dataclass(frozen=True)
class Line:
    """A line of a digest: of one exchange, of all `earlier` ones, or of text that is no digest, which tells of none."""

    exchanges: int
    facts: Sequence[Fact]
    noted: Noted = field(default_factory=dict)
    kind: Literal["exchange", "earlier", "text"] = "exchange"

    def told(self, number: int, room: int | None = None) -> str:
        """The line in at most `room` characters, without a line's end; `number` is that of its exchange."""
        if self.kind == "text":
            return cut("- " + self.facts[0].text if self.facts else NOTHING, room or LONGEST_FACT + 2)
        mark = f"({number}) "
        if room is None:
            return mark + (_joined(prose(self.facts), self.noted, None) or NOTHING)
        room -= len(mark)
        said = prose(self.facts)
        if len(said) > room:
            said = prose(_chosen(self.facts, room))
        return mark + (_joined(said, self.noted, room) or cut(NOTHING, room))

    @cached_property
    def all_noted(self) -> Noted:
        """The identifiers that it lists and those in its facts."""
        found: Noted = {}
        for each in (self.noted, *(fact.noted for fact in self.facts)):
            note(found, each)
        return found


def noted(text: str, was_cut: bool = True) -> Noted:
    """The identifiers of a text, each with its kind."""
    return {each.text: each.kind for each in identifiers(text, was_cut) if SEPARATOR not in each.text}


def keyed(text: str) -> Noted:
    """The identifiers in `key=value, …`: with the key, if it says that its value is one."""
    found: Noted = {}
    keys = list(_KEY.finditer(text))
    for match, following in zip(keys, [*keys[1:], None], strict=True):
        value = text[match.end() : following.start() if following else len(text)].split(GAVE)[0].strip(" ,)")
        if is_key_of_id(match[1]) and is_single(value):
            found[value] = match[0]
        else:
            found |= noted(value)
    if GAVE in text and not _KEY.search(gave := text.partition(GAVE)[2]):
        found |= noted(gave)
    return found


def is_single(value: str) -> bool:
    """Whether a value can stand in `key=value` as one."""
    return 0 < len(value) <= LONGEST and not any(character.isspace() for character in value) and ELLIPSIS not in value


def note(found: Noted, more: Noted) -> None:
    """Add identifiers; those found again become the newest, and what says most stays told with them."""
    for text, told_with in more.items():
        before = found.pop(text, "")
        found[text] = before if before.endswith("=") else told_with


def prose(facts: Iterable[Fact]) -> str:
    """Facts on one line, each speaker named when it begins to speak."""
    told = []
    speaker = ""
    for fact in facts:
        # A user's sentence can begin as if another spoke.
        named = fact.speaker != speaker or _SPEAKER.match(fact.text) is not None
        told.append(f"{fact.speaker}: {fact.text}" if named else fact.text)
        speaker = fact.speaker
    return SEPARATOR.join(told)


def listed(noted: Noted, room: int | None = None) -> str:
    """Identifiers in groups, as many as there is room for: the newest of each group, then the next newest."""
    groups: dict[str, list[str]] = {}
    for text, told_with in noted.items():
        groups.setdefault(told_with, []).append(text)
    groups = dict(sorted(groups.items(), key=lambda group: _LATER.get(group[0], 0)))
    if room is not None:
        groups = _fitting(groups, room)
    return SEPARATOR.join(
        (told_with if told_with.endswith("=") else "") + ", ".join(texts)
        for told_with, texts in groups.items()
        if texts
    )


def shown(text: str) -> set[str]:
    """The identifiers that a line shows."""
    return {*noted(text), *(match[1] for match in _KEYED.finditer(text))}


def read(text: str) -> list[Line]:
    """The lines of a digest. Of any other text every sentence is a line, which tells of no exchange."""
    found: list[Line] = []
    for line in text.splitlines():
        if match := _EXCHANGE.match(line):
            found.append(_read(line[match.end() :], 1, "exchange"))
        elif match := _EARLIER.match(line):
            found.append(_read(line[match.end() :], int(match[1] or 0), "earlier"))
        else:
            pieces = (piece for sentence in sentences(legible(line)) for piece in passages(sentence))
            found += [Line(0, (Fact(SUMMARY, piece),), kind="text") for piece in pieces]
    return found


def distinct(lines: Sequence[Line], known: Iterable[str] = ()) -> list[Line]:
    """Lines without the facts that a newer one has, or whose keys are known."""
    seen = set(known)
    found = []
    for line in reversed(lines):
        facts = {fact.key: fact for fact in line.facts if fact.key not in seen}
        seen.update(facts)
        found.append(replace(line, facts=tuple(facts.values())))
    return found[::-1]


def exchanges(lines: Iterable[Line]) -> int:
    """How many exchanges lines tell of."""
    return min(_MOST, sum(line.exchanges for line in lines))


def consolidated(lines: Sequence[Line], room: int) -> str:
    """A digest of at most `room` characters: the newest lines, and of the rest their number and identifiers."""
    found: Noted = {}
    for line in lines:
        note(found, line.all_noted)
    newest = [line for line in distinct(lines[-(room // LEAST_LINE + 1) :]) if line.facts or line.kind != "text"]
    least = len(_counted(exchanges(lines))) + 1
    needed, _ = _consolidated(lines, newest, found, room, least + len(listed(found, room // 2)))
    # What the lines show is not listed again, so the head took less room than it was given: they can have it.
    return _consolidated(lines, newest, found, room, max(least, needed))[1]


def _consolidated(lines: Sequence[Line], newest: list[Line], found: Noted, room: int, reserved: int) -> tuple[int, str]:
    """The digest whose lines leave `reserved` characters to its head, and how many the head needs."""
    told: list[str] = []
    unlisted = dict(found)
    number = exchanges(lines)
    left = room - reserved - 1
    while len(told) < len(newest) and left > LEAST_LINE:
        line = newest[-1 - len(told)]
        if line.kind == "earlier":
            break
        share = max(left // FADING, left // (len(lines) - len(told)), min(left, 3 * LEAST_LINE))
        listing = {text: unlisted[text] for text in line.noted if text in unlisted}
        told.append(replace(line, noted=listing).told(number, share - 1))
        for text in shown(told[-1]):
            unlisted.pop(text, None)
        number -= line.exchanges
        left -= len(told[-1]) + 1
    text = "\n".join(reversed(told))
    mark = _counted(number)
    left = room - len(text) - (1 if text else 0) - len(mark) - 1
    head = listed(unlisted, left)
    needed = len(mark) + 1 + len(head)
    facts = _newest(newest[: len(newest) - len(told)], left - len(head) - len(SEPARATOR))
    head = SEPARATOR.join(filter(None, (head, prose(facts))))
    first = f"{mark} {head}".rstrip() if number or head else ""
    return needed, "\n".join(filter(None, (first, text)))


def _counted(count: int) -> str:
    return f"({count} earlier exchange{'' if count == 1 else 's'})" if count else "(earlier)"


def _newest(lines: Sequence[Line], room: int) -> list[Fact]:
    """The newest facts of lines, as many as there is room for, in order."""
    chosen: dict[tuple[int, int], Fact] = {}
    newest_first = reversed(range(len(lines)))
    for index, place in ((number, place) for number in newest_first for place in _ranked(lines[number].facts)):
        fact = lines[index].facts[place]
        allowed = room - _overhead(fact)
        if allowed < LEAST_LINE:
            break
        if text := fact.shortened(min(allowed, 2 * LEAST_LINE)):
            chosen[index, place] = Fact(fact.speaker, text)
            room -= len(text) + _overhead(fact)
    return [chosen[each] for each in sorted(chosen)]


def _chosen(facts: Sequence[Fact], room: int) -> list[Fact]:
    """The facts to tell in `room` characters, in order, some of them cut."""
    chosen: dict[int, Fact] = {}
    for place in _ranked(facts):
        fact = facts[place]
        allowed = room - _overhead(fact)
        if not chosen and len(facts) > 1:
            allowed = min(allowed, max(LEAST_PIECE, room * 3 // 5))
        if allowed < min(len(fact.text), LEAST_PIECE):
            continue
        if text := fact.shortened(allowed):
            chosen[place] = Fact(fact.speaker, text)
            room -= len(text) + _overhead(fact)
    return [chosen[place] for place in sorted(chosen)]


def _ranked(facts: Sequence[Fact]) -> list[int]:
    """The places of facts in the order of telling: what was asked, what failed or came of it, the rest, plain calls."""
    asked = next((place for place, fact in enumerate(facts) if fact.speaker == "user"), None)

    def rank(place: int) -> int:
        fact = facts[place]
        if place == asked:
            return 0
        if tells(fact.text):
            return 1
        if fact.speaker == "user":
            return 2
        return 4 if fact.speaker == CALL and GAVE not in fact.text else 3

    return sorted(range(len(facts)), key=rank)


def _overhead(fact: Fact) -> int:
    return len(SEPARATOR) + len(fact.speaker) + len(": ")


def _joined(said: str, noted_: Noted, room: int | None) -> str:
    said_already = shown(said)
    unsaid = {text: told_with for text, told_with in noted_.items() if text not in said_already}
    listing = listed(unsaid, None if room is None else room - len(said) - len(SEPARATOR))
    return SEPARATOR.join(filter(None, (said, listing)))


def _fitting(groups: dict[str, list[str]], room: int) -> dict[str, list[str]]:
    fitting: dict[str, list[str]] = {told_with: [] for told_with in groups}
    room += len(SEPARATOR)
    for age in range(max(map(len, groups.values()), default=0)):
        if room <= len(SEPARATOR):
            break
        for told_with, texts in groups.items():
            if age >= len(texts):
                continue
            text = texts[-1 - age]
            opening = len(SEPARATOR) + (len(told_with) if told_with.endswith("=") else 0)
            size = len(text) + (len(", ") if fitting[told_with] else opening)
            if size <= room:
                fitting[told_with].append(text)
                room -= size
    return {told_with: texts[::-1] for told_with, texts in fitting.items()}


def _read(text: str, count: int, kind: Literal["exchange", "earlier"]) -> Line:
    facts: list[Fact] = []
    found: Noted = {}
    for piece in text.split(SEPARATOR) if text not in ("", NOTHING) else ():
        if match := _SPEAKER.match(piece):
            facts.append(Fact(match[1], piece[match.end() :]))
        elif listing := _listing(piece):
            note(found, listing)
        else:
            facts.append(Fact(facts[-1].speaker if facts else SUMMARY, piece))
    return Line(count, tuple(facts), found, kind)


def _listing(piece: str) -> Noted:
    """The identifiers that a piece of a line lists; none if it is anything else."""
    match = _KEY.match(piece)
    if match:
        texts = piece[match.end() :].split(", ")
        return dict.fromkeys(texts, match[0]) if all(map(is_single, texts)) else {}
    found = noted(piece)
    return found if piece == ", ".join(found) else {}
