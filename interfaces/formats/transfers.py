"""Transfers inferred from the calls of transfer tools, so that the handoffs of real logs can be seen."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from turnlog.store.arguments import texts

DEFAULT = ("transfer_to_*", "handoff_to_*", "transferCall")
# What tools of the field call the argument that names the destination.
_DESTINATIONS = ("destination", "assistant", "assistant_name", "assistantName", "agent", "agent_name", "to", "target")


class TransferTools:
    """Tool names whose calls are transfers; a `*` in a pattern stands for the destination."""

    def __init__(self, patterns: Sequence[str] = DEFAULT) -> None:
        self._patterns = [
            re.compile("(.+)".join(map(re.escape, pattern.split("*"))) + r"\Z")
            for pattern in (*texts("patterns", patterns), *DEFAULT)
        ]
        self._recognised = len(patterns)

    def inferred(self, events: list[dict[str, Any]], places: list[str]) -> tuple[list[dict[str, Any]], list[str]]:
        """Return the events, and after the result of each call of a transfer tool its `transfer`, marked `inferred`.

        A transfer has the time of the result, if that has one.
        """
        with_transfers: list[dict[str, Any]] = []
        where: list[str] = []
        open_calls: dict[tuple[str, str], list[dict[str, str]]] = {}
        for event, place in zip(events, places, strict=True):
            with_transfers.append(event)
            where.append(place)
            scope = event.get("scope", "chat")
            for call in event.get("tool_calls", ()):
                open_calls.setdefault((scope, call["id"]), []).append(call)
            if event.get("role") != "tool" or scope == "shared_memory":
                continue
            # As rule 7 pairs them: a result answers the nearest earlier call of its id that is not yet answered.
            waiting = open_calls.get((scope, event.get("tool_call_id", "")), [])
            call = waiting.pop() if waiting else None
            to = None if call is None else self.destination(call["name"], call["arguments"])
            if to is not None:
                transfer = {"type": "transfer", "scope": scope, "to": to, "tool_call_id": event["tool_call_id"]}
                if "occurred_at" in event:
                    transfer["occurred_at"] = event["occurred_at"]
                with_transfers.append(transfer | {"inferred": True})
                where.append(place)
        return with_transfers, where

    def destination(self, name: str, arguments: str) -> str | None:
        """To whom a call of the tool `name` hands over; None if it is no transfer tool."""
        if not any(pattern.match(name) for pattern in self._patterns[: self._recognised]):
            return None
        for pattern in self._patterns:
            found = pattern.match(name)
            if found is not None and found.groups():
                return _as_name(found[1])
        return _as_name(_argument(arguments) or name)


def _argument(arguments: str) -> str | None:
    try:
        given = json.loads(arguments)
    except (ValueError, RecursionError):
        return None
    if not isinstance(given, dict):
        return None
    for key in _DESTINATIONS:
        value = given.get(key)
        if isinstance(value, dict):
            value = next((value[inner] for inner in ("assistantName", "name", "number") if inner in value), None)
        if isinstance(value, str) and value.strip():
            return value
    return None


def _as_name(text: str) -> str:
    """A model can write anything as a destination: what no assistant may be called is left out."""
    printable = "".join(character for character in text if character.isprintable())
    return printable.strip()[:200] or "unknown"
