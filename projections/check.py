"""Check: the findings on every scope of a conversation as it is now."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from turnlog.store import Store

from .problems import problems
from .timelines.timeline import timeline_of


class Finding(msgspec.Struct, frozen=True, omit_defaults=True):
    """A finding on a view, and the conversation and scope of the view."""

    conversation: str
    scope: str
    rule: str
    version: int
    advice: str
    call: str | None = None


def check(store: Store, conversation: str) -> Iterator[Finding]:
    """Return the findings on the latest view of each scope that the conversation uses.

    :raises NotFound: there is no such conversation.
    """
    stream = store.stream(conversation)
    for scope in store.scopes_in_use(stream):
        for each in problems(timeline_of(store, stream, scope)):
            yield Finding(stream.label, scope, each.rule, each.version, each.advice, each.call)
