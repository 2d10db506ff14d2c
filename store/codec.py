"""Between events as people write them and rows: what is refused, what is kept, and how it is read back."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import msgspec

from .chain import Header, header, microseconds_of, time_of
from .characters import why_not_a_name
from .errors import Damaged, InvalidArgument, InvalidEvent
from .events import (
    CUSTOM_TYPE,
    HEADER,
    SCOPE,
    SCOPES,
    TYPES,
    CachePoint,
    Custom,
    Frame,
    NewEvent,
    read_frame,
    read_point,
)
from .json_values import MAX_DEPTH, check_json, is_plain, plain

MAX_BYTES = 16 * 1024 * 1024
GIVEN_BY_STORE = frozenset(
    (
        "conversation",
        "conversation_name",
        "version",
        "position",
        "recorded_at",
        "frame",
        "salt",
        "body_digest",
        "digest",
    )
)

_encode = msgspec.json.Encoder().encode
_encode_sorted = msgspec.json.Encoder(order="deterministic").encode
_NO_SCOPE = "is not a scope: lower case letters, digits and underscores, at most 64"
_WHERE = re.compile(r"(?P<why>.*?)(?: - at `\$(?P<path>.*)`)?\Z", re.DOTALL)
_MISSING = re.compile(r"Object missing required field `(?P<field>.*)`\Z")


class Prepared(msgspec.Struct, frozen=True, gc=False):
    """An event that has passed every check that needs no store; its texts are what is stored and hashed."""

    type: str
    v: int
    scope: str | None
    id: str | None
    occurred_at: int | None
    frame: Frame
    frame_text: str
    body_text: str


class Row(msgspec.Struct, frozen=True, eq=False, gc=False):
    """What a view needs of a recorded event; `body_text` is None once it is redacted.

    `conversation` is the uuid of the conversation that the event was appended to: in a fork's history, its parent's.
    """

    conversation: str
    version: int
    type: str
    v: int
    scope: str | None
    frame_text: str
    body_text: str | None

    @property
    def redacted(self) -> bool:
        """Whether its content is erased."""
        return self.body_text is None

    @property
    def frame(self) -> Frame | None:
        """The shape of the event; None if this build does not know its type, version or a value in it."""
        return read_frame(self.type, self.v, self.version, self.scope, self.frame_text)

    @property
    def bare(self) -> Row:
        """The same without what it says."""
        return Row(self.conversation, self.version, self.type, self.v, self.scope, self.frame_text, None)

    @property
    def body(self) -> dict[str, Any]:
        """The event's own fields as they were written; empty once redacted."""
        return _object(self.body_text or "{}")


class Source(Row, frozen=True, eq=False, gc=False):
    """Hold what a view needs of an event whose text it shows, with the digest of the event."""

    digest: bytes


class Event(Row, frozen=True, eq=False, gc=False):
    """A recorded event. Times are microseconds since 1970 UTC; `salt` is None once redacted."""

    position: int
    id: str | None
    recorded_us: int
    occurred_us: int | None
    salt: bytes | None
    body_digest: bytes | None
    digest: bytes

    @property
    def recorded_at(self) -> datetime:
        """When the store recorded it (UTC).

        :raises Damaged: it is out of the range of times.
        """
        return self._time_of(self.recorded_us)

    @property
    def occurred_at(self) -> datetime | None:
        """When it happened, if its writer said so (UTC).

        :raises Damaged: it is out of the range of times.
        """
        return None if self.occurred_us is None else self._time_of(self.occurred_us)

    @property
    def time(self) -> datetime:
        """Return the time of the event (UTC): when it happened if its writer gave that, else when it was recorded."""
        return self.occurred_at or self.recorded_at

    @property
    def header(self) -> Header:
        """The header as it is hashed and exported.

        :raises Damaged: a time is out of the range of times.
        """
        try:
            return header(
                self.conversation,
                self.version,
                self.type,
                self.v,
                self.scope,
                self.id,
                self.recorded_us,
                self.occurred_us,
            )
        except OverflowError:
            raise self._no_time() from None

    def _time_of(self, microseconds: int) -> datetime:
        try:
            return time_of(microseconds)
        except OverflowError:
            raise self._no_time() from None

    def _no_time(self) -> Damaged:
        return Damaged(self.conversation, self.version, "its time is out of range")

    def to_dict(self) -> dict[str, Any]:
        """The flat JSON form: the header, then the body or, once redacted, the frame."""
        flat: dict[str, Any] = msgspec.to_builtins(self.header)
        if self.redacted:
            return flat | {"redacted": True, "frame": _object(self.frame_text)}
        return flat | self.body


def _object(text: str) -> dict[str, Any]:
    """A stored JSON object; empty if it is damaged."""
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return {}


def prepare(event: NewEvent | Mapping[str, Any], index: int | None = None) -> Prepared:
    """Check an event and derive its frame and its texts.

    :raises InvalidEvent: names the field and the value; `index` is the event's place in its batch.
    """
    try:
        return _prepare(event)
    except InvalidEvent as error:
        raise InvalidEvent(error.field, error.value, error.why, index) from None


def _prepare(event: NewEvent | Mapping[str, Any]) -> Prepared:
    fields = _fields(event)
    if not is_plain(fields, 1):
        check_json(fields, "", 1)
        fields = plain(fields)
    type_ = fields.get("type")
    cls = _class_of(type_)
    if not GIVEN_BY_STORE.isdisjoint(fields):
        name = min(GIVEN_BY_STORE & fields.keys())
        raise InvalidEvent(name, fields[name], "is given by the store, not by the writer")
    v = fields.get("v", 1)
    if type(v) is not int or not 1 <= v < 2**63 or (v != 1 and cls is not Custom):
        raise InvalidEvent("v", v, f"is not a version of {type_} that this build writes (1)")
    new = _convert(fields, cls)
    scope = cls.default_scope if new.scope is None else new.scope
    if scope is not None and scope not in SCOPES and not SCOPE.match(scope):
        raise InvalidEvent("scope", scope, _NO_SCOPE)
    new.check()
    frame = new.frame()
    body_text = _encode({name: value for name, value in fields.items() if name not in HEADER}).decode()
    if len(body_text) * 4 > MAX_BYTES and len(body_text.encode()) > MAX_BYTES:
        raise InvalidEvent("event", type_, f"has {len(body_text.encode())} bytes, more than {MAX_BYTES}")
    return Prepared(
        str(type_),
        v,
        scope,
        new.id,
        None if new.occurred_at is None else checked_time("occurred_at", new.occurred_at),
        frame,
        _encode(frame).decode(),
        body_text,
    )


def _fields(event: NewEvent | Mapping[str, Any]) -> dict[str, Any]:
    if type(event) is dict:
        fields = event
    elif isinstance(event, NewEvent):
        try:
            fields = event.written()
        except TypeError as error:
            raise InvalidEvent("event", type(event).__name__, f"is not JSON: {error}") from None
        except RecursionError:
            raise InvalidEvent("event", type(event).__name__, f"is nested deeper than {MAX_DEPTH}") from None
    elif isinstance(event, Mapping):
        fields = dict(event)
    else:
        raise InvalidEvent("event", event, "is neither an object nor an event")
    if isinstance(fields.get("occurred_at"), datetime):
        fields = fields | {"occurred_at": msgspec.to_builtins(fields["occurred_at"])}
    return fields


def check_place(event: Prepared, version: int, index: int | None = None) -> None:
    """Refuse an event that may not stand at `version` or in its scope.

    :raises InvalidEvent: names the field and the value.
    """
    found = event.frame.misplaced(version, event.scope)
    if found is not None:
        raise InvalidEvent(*found, index)


def same_body(one: str, other: str) -> bool:
    """Whether two bodies are the same JSON, whatever the order of their keys."""
    return one == other or _encode_sorted(msgspec.json.decode(one)) == _encode_sorted(msgspec.json.decode(other))


def _class_of(type_: object) -> type[NewEvent]:
    cls = TYPES.get(type_) if isinstance(type_, str) else None
    if cls is not None:
        return cls
    if isinstance(type_, str) and CUSTOM_TYPE.match(type_) and why_not_a_name(type_) is None:
        return Custom
    known = ", ".join(TYPES)
    raise InvalidEvent("type", type_, f"is not one of {known}, nor a type of one's own (x:…)")


def _convert(fields: dict[str, Any], cls: type[NewEvent]) -> NewEvent:
    if cls is Custom:
        fields = {key: value for key, value in fields.items() if key != "type"}
    try:
        return msgspec.convert(fields, cls, dec_hook=_read_field)
    except msgspec.ValidationError as error:
        field, value, why = _explain(str(error), fields)
        raise InvalidEvent(field, value, why) from None


def _read_field(kind: type, value: object) -> Any:
    """Return a value of a type that only turnlog knows; msgspec adds to a ValueError where in the event it is."""
    if kind is not CachePoint:
        raise NotImplementedError(kind)
    try:
        return read_point(value)
    except InvalidArgument as error:
        raise ValueError(error.why) from None


def _explain(message: str, fields: dict[str, Any]) -> tuple[str, object, str]:
    """The field, its value and the reason, from msgspec's message: `Expected …, got … - at `$.path``."""
    parsed = _WHERE.match(message)
    assert parsed is not None
    why, path = parsed["why"], parsed["path"] or ""
    value: Any = fields
    for step in re.findall(r"\.([^.\[]+)|\[(\d+)\]", path):
        try:
            value = value[step[0]] if step[0] else value[int(step[1])]
        except (KeyError, IndexError, TypeError):
            value = None
    missing = _MISSING.match(why)
    if missing is not None:
        path, value, why = f"{path}.{missing['field']}", None, "is missing"
    elif "matching regex" in why and path.startswith(".scope"):
        why = _NO_SCOPE
    elif "matching regex" in why:
        why = "has a control character"
    elif why.startswith("is not "):
        pass  # As `_read_field` says it.
    elif "Invalid enum value" in why:
        why = "is not a value that this build knows"
    else:
        why = f"is refused: {why[0].lower()}{why[1:]}"
    return path.removeprefix("."), value, why


def checked_time(field: str, time: datetime) -> int:
    """An aware time as microseconds since 1970 UTC.

    :raises InvalidEvent: in UTC it is before the year 1 or after 9999.
    """
    microseconds = microseconds_of(time)
    try:
        time_of(microseconds)
    except OverflowError:
        raise InvalidEvent(field, time.isoformat(), "is no time of the years 1 to 9999 in UTC") from None
    return microseconds
