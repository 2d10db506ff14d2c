"""Compact: put a summary in the place of the older exchanges of a scope (DESIGN section 5)."""

from __future__ import annotations

from dataclasses import dataclass

from turnlog.store import Receipt, Store, Summary, Unchanged, VersionConflict
from turnlog.store.arguments import instance_of, whole_number
from turnlog.store.events import SummaryFrame

from ..answers import with_own_ids
from ..history import History
from ..render import VisibleMessage
from ..timelines.timeline import timeline_of
from .compressor import Compressed, CompressionFailed, Compressor, checked_text

DEFAULT_KEEP = 4

# What makes a summary of the view before it wrong: whatever else reshapes the scope, and a redaction, whose text
# the compressor may have read.
_RESHAPING = ("summary", "transfer", "rewind", "clear", "redaction")


@dataclass(frozen=True)
class Compacted:
    """What a compaction did: the summary's event, the versions it covers and how many originals it stands for."""

    receipt: Receipt
    first: int
    last: int
    summary_of: int
    text: str


def compact(
    store: Store,
    conversation: str,
    scope: str,
    compressor: Compressor,
    keep_exchanges: int = DEFAULT_KEEP,
) -> Compacted | None:
    """Summarise all but the last `keep_exchanges` exchanges; None if there is nothing to summarise.

    An exchange is a user message and all that follows it up to the next one. No call is cut off from its result, and
    none that is open is covered. What lands meanwhile stays visible. If anything fails, nothing is appended.

    :raises NotFound: there is no such conversation or scope.
    :raises InvalidArgument: an argument is not what it has to be.
    :raises CompressionFailed: the compressor raised, or its text is blank or over its bound.
    :raises VersionConflict: a summary, transfer, rewind, clear or redaction landed in the scope meanwhile.
    """
    whole_number("keep_exchanges", keep_exchanges, 0, "a number of exchanges")
    instance_of("compressor", compressor, Compressor, "a compressor")
    stream = store.stream(conversation)
    view = timeline_of(store, stream, scope).at()
    messages = older(view, keep_exchanges)
    new = [message for message in messages if message.origin != "summary"]
    if not new:
        return None
    previous = "\n".join(str(message.content) for message in messages if message.origin == "summary")
    compressed = _compressed(compressor, previous, with_own_ids(new, view.pairs))
    ranges = [_range(view, message) for message in messages]
    first, last = min(low for low, _ in ranges), max(high for _, high in ranges)
    summary_of = sum(1 if message.summary_of is None else message.summary_of for message in messages)
    summary = Summary(
        scope=scope,
        text=compressed.text,
        summary_of=summary_of,
        first=first,
        last=last,
        method=compressor.method,
        max_tokens=compressor.max_tokens,
        usage=compressed.usage,
    )
    expected = Unchanged(since=view.version, types=_RESHAPING, scope=scope)
    try:
        receipt = store.append(stream.uuid, [summary], expected=expected)
    except VersionConflict as conflict:
        raise VersionConflict(view.conversation, expected, conflict.found) from None
    return Compacted(receipt, first, last, summary_of, compressed.text)


def older(view: History, keep_exchanges: int) -> list[VisibleMessage]:
    """Return the scope's own messages before the exchanges to keep: no prompt, no note, no call without its result."""
    own = [message for message in view.messages if message.scope == view.scope and not _stays(message)]
    starts = [place for place, message in enumerate(own) if message.role == "user" and message.origin == "message"]
    starts_of_kept = [*starts, len(own)][-keep_exchanges - 1 :]
    cut = starts_of_kept[0] if len(starts) > keep_exchanges or keep_exchanges == 0 else 0
    pairs = _pairs(view, own)
    while severed := [min(pair) for pair in pairs if min(pair) < cut <= max(pair)]:
        cut = max((start for start in starts if start <= min(severed)), default=0)
    return own[:cut]


def _stays(message: VisibleMessage) -> bool:
    return message.origin == "prompt" or (message.origin == "message" and message.role == "system")


def _pairs(view: History, own: list[VisibleMessage]) -> list[tuple[int, int]]:
    """Return the places of what must not be cut apart; what is beyond every cut has the place after the last."""
    never = len(own)
    places = {message.version: place for place, message in enumerate(own) if message.origin in ("message", "response")}
    visible = {message.version for message in view.messages if message.role == "tool"}
    found = [
        (places.get(pair.call, never), places.get(pair.result, never)) for pair in view.pairs if pair.result in visible
    ]
    # A call without a final result is open, and never covered.
    final = {(pair.call, pair.number) for pair in view.pairs if not pair.interim}
    for place, message in enumerate(own):
        if any((message.version, number) not in final for number in range(len(message.tool_calls))):
            found.append((place, never))
    return found


def _range(view: History, message: VisibleMessage) -> tuple[int, int]:
    """Return the versions that a message stands for: of a summary with a range that range, else its own."""
    frame = view.timeline.frame(message.version) if message.origin == "summary" else None
    if isinstance(frame, SummaryFrame) and frame.first is not None and frame.last is not None:
        return frame.first, frame.last
    return message.version, message.version


def _compressed(compressor: Compressor, previous: str, messages: list[VisibleMessage]) -> Compressed:
    try:
        compressed = compressor.compress(previous, messages)
    except CompressionFailed:
        raise
    except Exception as error:
        raise CompressionFailed(f"the compressor raised {type(error).__name__}: {error}") from error
    checked_text(compressed.text, compressor.max_tokens)
    return compressed
