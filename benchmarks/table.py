"""Tables in Markdown, wide enough to be read as they are, and the figures in them."""

from __future__ import annotations

from collections.abc import Sequence

MIB = 1024 * 1024


def table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """The first column to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(headings, *rows, strict=True)]
    rules = ["-" * (width + 1) + (":" if place else "-") for place, width in enumerate(widths)]
    lines = [_line(headings, widths), f"|{'|'.join(rules)}|", *(_line(row, widths) for row in rows)]
    return "\n".join(lines)


def figure(value: float) -> str:
    """Three digits that mean something, and all of those before the point."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def time(seconds: float) -> str:
    """A time in the unit that suits it."""
    for unit, factor in (("s", 1.0), ("ms", 1e3)):
        if seconds * factor >= 1:
            return f"{figure(seconds * factor)} {unit}"
    return f"{figure(seconds * 1e6)} µs"


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    placed = [
        cell.rjust(width) if place else cell.ljust(width)
        for place, (cell, width) in enumerate(zip(cells, widths, strict=True))
    ]
    return f"| {' | '.join(placed)} |"
