"""Check: the findings on every scope of a conversation as it is now."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from turnlog.store import Store

from .history import view_of
from .reading import Reading


class Finding(msgspec.Struct, frozen=True, omit_defaults=True):
    """A problem of a view, and whose view it is."""

    conversation: str
    scope: str
    rule: str
    version: int
    advice: str
    call: str | None = None


def check(store: Store, conversation: str) -> Iterator[Finding]:
    """The findings on the latest view of each scope that the conversation uses.

    :raises NotFound: there is no such conversation.
    """
    reading = Reading(store, conversation)
    for scope in store.scopes_in_use(conversation):
        for each in view_of(reading, scope).problems:
            yield Finding(reading.conversation, scope, each.rule, each.version, each.advice, each.call)
