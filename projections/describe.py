"""What is said about a conversation itself: the latest of its `describe` events, key by key (DESIGN section 2)."""

from __future__ import annotations

from typing import Any

import msgspec

from turnlog.store import Store
from turnlog.store.events import DescribeFrame


class Description(msgspec.Struct, frozen=True):
    """A conversation's title and metadata, and what an importer found beside them."""

    title: str | None
    metadata: dict[str, Any]
    extra: dict[str, Any]


def describe(store: Store, conversation: str) -> Description:
    """The description of a conversation.

    :raises NotFound: there is no such conversation.
    """
    title: str | None = None
    metadata: dict[str, Any] = {}
    extra: dict[str, Any] = {}
    for event in store.events(conversation, types=("describe",)):
        if not isinstance(event.frame, DescribeFrame):
            continue
        body = event.body
        title = body["title"] if isinstance(body.get("title"), str | None) and "title" in body else title
        metadata |= body["metadata"] if isinstance(body.get("metadata"), dict) else {}
        extra |= body["extra"] if isinstance(body.get("extra"), dict) else {}
    return Description(title, metadata, extra)
