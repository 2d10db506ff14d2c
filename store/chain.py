"""The digests that chain a conversation's events (DESIGN section 7; docs/format.md has the bytes and an example)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from hashlib import sha256

import msgspec

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


class Header(msgspec.Struct, kw_only=True, gc=False):
    """An event's header in the order in which it is hashed and exported; what an event has not is left out."""

    conversation: str
    version: int
    type: str
    v: int
    scope: str | msgspec.UnsetType = msgspec.UNSET
    id: str | msgspec.UnsetType = msgspec.UNSET
    recorded_at: str
    occurred_at: str | msgspec.UnsetType = msgspec.UNSET


def header(
    conversation: str,
    version: int,
    type: str,
    v: int,
    scope: str | None,
    id: str | None,
    recorded_at: int,
    occurred_at: int | None,
) -> Header:
    """A header from a row's values; times are microseconds since 1970 UTC."""
    return Header(
        conversation=conversation,
        version=version,
        type=type,
        v=v,
        scope=msgspec.UNSET if scope is None else scope,
        id=msgspec.UNSET if id is None else id,
        recorded_at=time_text(recorded_at),
        occurred_at=msgspec.UNSET if occurred_at is None else time_text(occurred_at),
    )


_encode_header = msgspec.json.Encoder().encode


def genesis(conversation: str) -> bytes:
    """What stands for the digest before a conversation's first event: that of its uuid."""
    return sha256(conversation.encode()).digest()


def digest_of_body(salt: bytes, body: str) -> bytes:
    """The salted digest of an event's whole body. Without the salt, a short body cannot be guessed from it."""
    return sha256(f"{salt.hex()}\n{body}".encode()).digest()


def digest_of_event(previous: bytes, header: Header, frame: str, body_digest: bytes) -> bytes:
    """An event's digest, over all that came before it."""
    text = b"%s\n%s\n%s\n%s\n" % (
        previous.hex().encode(),
        _encode_header(header),
        frame.encode(),
        body_digest.hex().encode(),
    )
    return sha256(text).digest()


def digest_of_name(salt: bytes, conversation: str, name: str) -> bytes:
    """Return the salted digest of the name of a conversation (its uuid), which a checkpoint has in its place."""
    return sha256(f"{salt.hex()}\n{conversation}\n{name}".encode()).digest()


def time_of(microseconds: int) -> datetime:
    """A time from microseconds since 1970 UTC."""
    return _EPOCH + timedelta(microseconds=microseconds)


def time_text(microseconds: int) -> str:
    """`2026-11-29T20:42:56.000001Z`, always with six digits."""
    second, rest = divmod(microseconds, 1_000_000)
    return f"{_second_text(second)}.{rest:06}Z"


@lru_cache(maxsize=64)
def _second_text(second: int) -> str:
    return (_EPOCH + timedelta(seconds=second)).isoformat()[:19]


def microseconds_of(time: datetime) -> int:
    """Microseconds since 1970 UTC of an aware time."""
    return (time - _EPOCH) // _MICROSECOND
