"""Messages as lines of text, for a model that summarises them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..render import VisibleMessage

# What is left of a line that is cut, beside its label and its marker.
LEAST_KEPT = 16
LONGEST_LABEL = len("assistant: ")
LONGEST_MARKER = len(" … [16777216 characters cut]")


def lines(messages: Sequence[VisibleMessage]) -> Iterator[str]:
    """A line for what each message says and for each call it makes; a text may itself have several."""
    names: dict[str, str] = {}
    for message in messages:
        said = _said(message)
        if message.role == "tool":
            said = f"{names.get(message.tool_call_id or '', 'result')} gave: {said}"
        if said:
            yield f"{message.role}: {said}"
        for call in message.tool_calls:
            names[call.id] = call.name
            yield f"{message.role}: calls {call.name}({call.arguments})"


def chunks(entries: Iterator[str], limit: int) -> Iterator[str]:
    """The lines in as few pieces as it takes, each at most `limit` characters; a longer line is cut and says so."""
    piece: list[str] = []
    size = 0
    for entry in entries:
        line = entry if len(entry) <= limit else _cut(entry, limit)
        if piece and size + 1 + len(line) > limit:
            yield "\n".join(piece)
            piece, size = [], 0
        piece.append(line)
        size += len(line) + (1 if size else 0)
    if piece:
        yield "\n".join(piece)


def _cut(line: str, limit: int) -> str:
    kept = limit - LONGEST_MARKER
    return f"{line[:kept]} … [{len(line) - kept} characters cut]"


def _said(message: VisibleMessage) -> str:
    if isinstance(message.content, str):
        return message.content
    return " ".join(
        str(part.get("text", "")) if part.get("type") == "text" else f"[{part.get('type')}]" for part in message.content
    ).strip()
