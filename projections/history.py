"""The visible history: what a model could see at a point of a conversation (docs/design.md, section 4)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from hashlib import sha256
from typing import TYPE_CHECKING, Any, NamedTuple, overload

import msgspec

from turnlog.store import InvalidArgument, Request
from turnlog.store.codec import Source
from turnlog.store.events import AssistantFrame, TransferFrame
from turnlog.store.spans import HAS_CALLS, PLACES, Moment, ShownRow, SpanRow, source_of

from .answers import Pair, read_pairs
from .reading import Reading
from .redactions import Redactions
from .render import Renderer, Seal, VisibleMessage, seal_of
from .timelines.catch_up import RULES, Line
from .timelines.item import visible_calls
from .timelines.tip import Active, Profile

if TYPE_CHECKING:
    from .timelines.timeline import Timeline


class History:
    """Hold the messages that the model could see of `scope` after `version`: a value, which reads nothing more.

    `messages` are those that were asked for, in order, of which the first is number `first` of `total`. `assistant` is
    the active one, `tools` what it has been given and `model` what was named for it; `tools_since` is the version of
    the event that made it active or gave it its tools, whichever came later. `uuid` is the conversation's identity.
    `pairs` are the results on the path of the visible calls among the messages; such a result may itself be hidden.
    """

    def __init__(
        self,
        timeline: Timeline,
        version: int,
        messages: list[VisibleMessage],
        first: int,
        total: int,
        given: Given,
        seals: list[Seal],
        pairs: list[Pair],
    ) -> None:
        self.timeline = timeline
        self.conversation = timeline.stream.label
        self.uuid = timeline.stream.uuid
        self.scope = timeline.scope
        self.version = version
        self.messages = messages
        self.first = first
        self.total = total
        self.assistant = given.assistant
        self.tools = list(given.tools)
        self.tools_since = given.tools_since
        self.model = given.model
        self.pairs = pairs
        self._seals = seals
        self._tools_digests = given.digests

    def __len__(self) -> int:
        return len(self.messages)

    def __bool__(self) -> bool:
        return True

    def __iter__(self) -> Iterator[VisibleMessage]:
        return iter(self.messages)

    @overload
    def __getitem__(self, index: int) -> VisibleMessage: ...
    @overload
    def __getitem__(self, index: slice) -> list[VisibleMessage]: ...
    def __getitem__(self, index: int | slice) -> VisibleMessage | list[VisibleMessage]:
        return self.messages[index]

    def __repr__(self) -> str:
        return (
            f"<History of {self.conversation!r}, {self.scope} at version {self.version}: {len(self.messages)} of"
            f" {self.total} messages, assistant {self.assistant!r}>"
        )

    @property
    def is_whole(self) -> bool:
        """Return whether all visible messages were asked for."""
        return len(self.messages) == self.total

    @property
    def identities(self) -> list[tuple[str, int, str]]:
        """Return of each message the conversation (uuid) and version of the event that placed it, and its origin."""
        owner = self.timeline.stream.owner
        return [(owner(each.version).uuid, each.version, each.origin) for each in self.messages]

    @property
    def digest(self) -> str:
        """Return the SHA-256 (hex) of what the model could see: for a `request` event's `history` (docs/format.md).

        It is made of the events' own salted digests, so that nothing can be guessed from it once they are redacted.

        :raises InvalidArgument: this is only a page of the view.
        """
        if not self.is_whole:
            raise InvalidArgument(
                "history", f"{len(self.messages)} of {self.total} messages", "is a page, not a whole view"
            )
        lines: list[Any] = [[self.scope, self.assistant]]
        for message, seal in zip(self.messages, self._seals, strict=True):
            lines.append([message.version, message.origin, message.role, message.assistant, seal.text_only, seal.calls])
        lines += [seal.digests for seal in self._seals]
        lines += [self._tools_digests] if self._tools_digests else []
        return sha256(b"".join(msgspec.json.encode(line) + b"\n" for line in lines)).hexdigest()

    def request(self, **fields: Any) -> Request:
        """Return the event that records a call of a model with this history: `model`, `parameters`, `cache_points` …

        :raises InvalidArgument: this is only a page of the view.
        """
        return Request(scope=self.scope, at=self.version, history=self.digest, rules=RULES, **fields)

    def to_dict(self) -> dict[str, Any]:
        """Return the view, without what is hidden, as `history --json` prints it (docs/design.md, section 8)."""
        return {
            "conversation": self.conversation,
            "scope": self.scope,
            "version": self.version,
            "assistant": self.assistant,
            "tools": self.tools,
            "messages": msgspec.json.decode(msgspec.json.encode(self.messages)),
        }


class Given(msgspec.Struct):
    """Hold the active assistant, and the tools and the model that it has been given: see `History`."""

    assistant: str | None = None
    tools: list[dict[str, Any]] = []
    tools_since: int | None = None
    model: str | None = None
    digests: tuple[str, ...] = ()


class ReadGiven(NamedTuple):
    """Hold the tools that an event gave, the digests of the events that say it, and the model that an event named."""

    tools: list[dict[str, Any]]
    digests: tuple[str, ...]
    model: str | None


def read_history(
    timeline: Timeline, line: Line, reading: Reading, first: int | None, count: int | None, last: int | None
) -> History:
    """Read a view, or a page of it, from the rows of a timeline."""
    rows, number = line
    moment = rows.moment(number, reading.version)
    total = moment.visible
    if last is not None:
        start, wanted = max(0, total - last), min(last, total)
    else:
        start = min(first or 0, total)
        wanted = total - start if count is None else min(count, total - start)
    whole = wanted == total
    owner = timeline.stream.owner_sql("text")
    shown = rows.page(number, owner, reading.version, start, wanted, total, whole)
    assert len(shown) == wanted
    messages = _render(timeline, line, shown, reading.redactions)
    callers = {
        place // PLACES if version is None else version: visible_calls(form, removed)
        for place, form, _, version, _, removed, _, _ in shown
        if form >= HAS_CALLS
    }
    results = {message.version for message in messages if message.role == "tool"}
    pairs = read_pairs(timeline, line, reading.version, callers, results)
    given = _given(timeline, moment, reading)
    seals = _seals(timeline, messages, shown, reading.redactions) if whole else []
    return History(timeline, reading.version, messages, start, total, given, seals, pairs)


def messages_of(
    timeline: Timeline, line: Line, spans: Sequence[SpanRow], redactions: Redactions
) -> list[VisibleMessage]:
    """Return the messages that spans show."""
    events = sources_of(timeline, list(map(source_of, spans)))
    rows: list[ShownRow] = [
        (span.place, span.form, span.assistant, span.version, span.source, span.removed, event.body_text, None)
        for span, event in zip(spans, events, strict=True)
    ]
    return _render(timeline, line, rows, redactions)


def _render(timeline: Timeline, line: Line, rows: Sequence[ShownRow], redactions: Redactions) -> list[VisibleMessage]:
    names = timeline.store.db.recall(("names", *line), lambda: line.rows.names(line.line))
    erased = [source or version or place // PLACES for place, _, _, version, source, _, body, _ in rows if body is None]
    events = {event.version: event for event in sources_of(timeline, erased)} if erased else {}

    def read_event(version: int) -> Source:
        return events[version] if version in events else sources_of(timeline, [version])[0]

    message = Renderer(names, timeline.scope, redactions, read_event).message
    return [
        message(place, form, assistant, version, source, removed, body)
        for place, form, assistant, version, source, removed, body, _ in rows
    ]


def _seals(
    timeline: Timeline, messages: Sequence[VisibleMessage], rows: Sequence[ShownRow], redactions: Redactions
) -> list[Seal]:
    found = []
    for message, (_, form, _, _, _, removed, _, digest) in zip(messages, rows, strict=True):
        assert digest is not None
        version = message.source or message.version
        later = redactions.of((timeline.stream.owner(version).uuid, version)) if len(redactions) else ()
        found.append(seal_of(form, removed, [digest.hex(), *(each.digest.hex() for each in later)]))
    return found


def sources_of(timeline: Timeline, versions: Sequence[int]) -> list[Source]:
    """Return events as what shows their text needs them."""
    found = {event.version: event for event in timeline.store.sources(timeline.stream, versions)}
    return [found[version] for version in versions]


def active_at(line: Line, at: int) -> Active | None:
    """Return the assistant that was active after a version."""
    return active_of(line.rows.fact(line.line, "active", at))


def active_of(value: str | None) -> Active | None:
    """Return the assistant that the fact `active` tells of."""
    return None if value is None else msgspec.json.decode(value, type=Active)


def profile_at(line: Line, name: str, at: int) -> Profile:
    """Return what was known of an assistant after a version."""
    return profile_of(line.rows.fact(line.line, f"known:{name}", at))


def profile_of(value: str | None) -> Profile:
    """Return what the fact `known:` of an assistant tells of it."""
    return Profile() if value is None else msgspec.json.decode(value, type=Profile)


def _given(timeline: Timeline, moment: Moment, reading: Reading) -> Given:
    active, known = active_of(moment.active), profile_of(moment.known)
    if active is None:
        return Given()
    # Tools are long and seldom change: what they were decoded to is kept as long as nothing more is redacted.
    key = (known.tools, known.model, len(reading.redactions))
    last = timeline.last_given
    if last is None or last[0] != key:
        last = timeline.last_given = key, _read_given(timeline, known, reading.redactions)
    tools, digests, model = last[1]
    return Given(active.name, tools, max(active.since, known.tools or 0), model, digests)


def _read_given(timeline: Timeline, known: Profile, redactions: Redactions) -> ReadGiven:
    wanted = [version for version in (known.tools, known.model) if version is not None]
    events = {event.version: event for event in sources_of(timeline, wanted)}
    tools: list[dict[str, Any]] = []
    digests: tuple[str, ...] = ()
    if known.tools is not None:
        event = events[known.tools]
        tools = tools_of(event, redactions)
        later = redactions.of((event.conversation, event.version))
        digests = (event.digest.hex(), *(each.digest.hex() for each in later))
    return ReadGiven(tools, digests, None if known.model is None else model_of(events[known.model], redactions))


def given_last(timeline: Timeline, line: Line, reading: Reading) -> tuple[list[dict[str, Any]] | None, str | None]:
    """Return the tools and the model given last to the active assistant or, if it has none, to another."""
    active = active_at(line, reading.version)
    known = {
        name.removeprefix("known:"): msgspec.json.decode(value, type=Profile)
        for name, (_, value) in line.rows.facts(line.line, reading.version).items()
        if name.startswith("known:") and value is not None
    }
    own = known.get("" if active is None else active.name, Profile())
    tools = own.tools or max((each.tools or 0 for each in known.values()), default=0)
    model = own.model or max((each.model or 0 for each in known.values()), default=0)
    events = {event.version: event for event in sources_of(timeline, [each for each in (tools, model) if each])}
    return (
        tools_of(events[tools], reading.redactions) if tools else None,
        model_of(events[model], reading.redactions) if model else None,
    )


def tools_of(event: Source, redactions: Redactions) -> list[dict[str, Any]]:
    """Return the tools that an event gave; only their names, once it is redacted."""
    if redactions.text(event) is not None:
        frame = event.frame
        names = frame.tools if isinstance(frame, AssistantFrame | TransferFrame) else ()
        return [{"name": name} for name in names or ()]
    tools = event.body.get("tools")
    return tools if isinstance(tools, list) else []


def model_of(event: Source, redactions: Redactions) -> str | None:
    """Return the model that an event named; None once it is redacted."""
    model = None if redactions.text(event) is not None else event.body.get("model")
    return model if isinstance(model, str) else None
