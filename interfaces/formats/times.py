"""The times in files of messages: those of the messages, and those of what is derived from them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# What tools of the field call the time of a message.
_KEYS = ("timestamp", "created_at")
# A number is seconds, milliseconds or microseconds, whichever makes it a time of the years 2001 to 2286.
_UNITS = ((10**9, 10**10, 10**6), (10**12, 10**13, 10**3), (10**15, 10**16, 1))


def moment(value: object) -> str | None:
    """Return the time that a value of a file means, as `occurred_at` takes it; None if it is not surely a time.

    It is an ISO text with a time of day (UTC if it has no zone), or a number of seconds, milliseconds or microseconds
    since 1970.
    """
    if isinstance(value, str) and len(value) > len("2026-03-01"):
        try:
            time = datetime.fromisoformat(value)
            time = time if time.tzinfo is not None else time.replace(tzinfo=UTC)
            return time.astimezone(UTC).isoformat()
        except (ValueError, OverflowError):
            return None
    if isinstance(value, int | float) and not isinstance(value, bool):
        for least, above, microseconds in _UNITS:
            if least <= value < above:
                return (_EPOCH + timedelta(microseconds=round(value * microseconds))).isoformat()
    return None


def timed(event: dict[str, Any], message: dict[str, Any]) -> dict[str, Any]:
    """Return the event of a message with the time that the message gives, if it does."""
    times = (moment(message.get(key)) for key in _KEYS)
    time = next((time for time in times if time is not None), None)
    return event if time is None else event | {"occurred_at": time}


def with_derived_times(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the events with the time of the first that has one given to those before it that say no message."""
    time = next((event["occurred_at"] for event in events if "occurred_at" in event), None)
    if time is None:
        return events
    dated: list[dict[str, Any]] = []
    for number, event in enumerate(events):
        if "occurred_at" in event or event["type"] not in ("describe", "assistant"):
            return [*dated, *events[number:]]
        dated.append(event | {"occurred_at": time})
    return dated
