"""Compact: put a summary in the place of the older exchanges of a scope (DESIGN section 5)."""

from __future__ import annotations

from dataclasses import dataclass

from turnlog.store import InvalidEvent, Receipt, Store, Summary, Unchanged, VersionConflict

from ..history import History, history
from ..render import VisibleMessage
from ..view import Item
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
    :raises CompressionFailed: the compressor raised, or its text is blank or over its bound.
    :raises VersionConflict: a summary, transfer, rewind, clear or redaction landed in the scope meanwhile.
    """
    if isinstance(keep_exchanges, bool) or keep_exchanges < 0:
        raise InvalidEvent("keep_exchanges", keep_exchanges, "is not a number of exchanges")
    identity = store.stream(conversation).uuid
    view = history(store, identity, scope)
    items = older(view, keep_exchanges)
    messages = [view.message(item) for item in items]
    new = [message for message in messages if message.origin != "summary"]
    if not new:
        return None
    previous = "\n".join(str(message.content) for message in messages if message.origin == "summary")
    compressed = _compressed(compressor, previous, new)
    first = min((item.covers or (item.version,))[0] for item in items)
    covered = set(items)
    late = [result.version for (item, _), result in view.pairing.late.items() if item in covered]
    last = max([*((item.covers or (item.version,))[-1] for item in items), *late])
    summary_of = sum(1 if item.summary_of is None else item.summary_of for item in items)
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
        receipt = store.append(identity, [summary], expected=expected)
    except VersionConflict as conflict:
        raise VersionConflict(view.conversation, expected, conflict.found) from None
    return Compacted(receipt, first, last, summary_of, compressed.text)


def older(view: History, keep_exchanges: int) -> list[Item]:
    """The scope's own items before the exchanges to keep: no prompts, no notes, and no call without its result."""
    own = [item for item in view.items if item.scope == view.scope and not item.is_prompt and not item.is_note]
    places = {item: place for place, item in enumerate(own)}
    starts = [place for place, item in enumerate(own) if item.role == "user" and item.origin == "message"]
    starts_of_kept = [*starts, len(own)][-keep_exchanges - 1 :]
    cut = starts_of_kept[0] if len(starts) > keep_exchanges or keep_exchanges == 0 else 0
    pairing = view.pairing
    # A call and its result, of which one may be shared memory's and so beyond every cut; an open call has none.
    never = len(own)
    pairs = [(places.get(item, never), places.get(result, never)) for (item, _), result in pairing.answers.items()]
    pairs += [(places.get(item, never), never) for item, _ in pairing.unanswered]
    # The late result of a call that a transfer removed is hidden, and stands between two items.
    for (item, _), result in pairing.late.items():
        if item in places:
            mine = result.scope == view.scope
            pairs.append((places[item], sum(each.place < result.place for each in own) - 1 if mine else never))
    while severed := [min(pair) for pair in pairs if min(pair) < cut <= max(pair)]:
        cut = max((start for start in starts if start <= min(severed)), default=0)
    return own[:cut]


def _compressed(compressor: Compressor, previous: str, messages: list[VisibleMessage]) -> Compressed:
    try:
        compressed = compressor.compress(previous, messages)
    except CompressionFailed:
        raise
    except Exception as error:
        raise CompressionFailed(f"the compressor raised {type(error).__name__}: {error}") from error
    checked_text(compressed.text, compressor.max_tokens)
    return compressed
