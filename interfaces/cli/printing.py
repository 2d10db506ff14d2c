"""Print: everything that a command shows goes through this module, so that a terminal shows it and does not obey it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

import msgspec
from rich.console import Console
from rich.padding import Padding
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from turnlog.store.characters import escaped, escaped_json

# A text, or a text and its style.
Piece: TypeAlias = str | tuple[str, str]

_PIPED_WIDTH = 400


def escape(text: str) -> str:
    """Return a text as one line in which nothing commands a terminal: what would is shown by its number."""
    return escaped(text, keep="\t")


class Printer:
    """Prints lines on standard output, or on standard error.

    On a terminal they have styles and are folded at its width; elsewhere a line is a line.
    """

    def __init__(self, err: bool = False) -> None:
        self.is_terminal = (sys.stderr if err else sys.stdout).isatty()
        self._console = Console(
            stderr=err,
            highlight=False,
            soft_wrap=not self.is_terminal,
            width=None if self.is_terminal else _PIPED_WIDTH,
        )

    def line(self, *pieces: Piece, indent: int = 0, cut: bool = False) -> None:
        """Print one line; on a terminal all that it is folded into has the indent, or it is cut at the width."""
        text = Text.assemble(*map(_styled, pieces))
        if cut:
            self._console.print(
                text, soft_wrap=False, no_wrap=True, overflow="ellipsis", crop=self._console.is_terminal
            )
        elif indent and self.is_terminal:
            self._console.print(Padding(text, (0, 0, 0, indent)))
        else:
            self._console.print(Text(" " * indent) + text)

    def table(self, columns: Iterable[str], rows: Iterable[Iterable[Piece]]) -> None:
        """Print a table; elsewhere than on a terminal its lines end where their text does."""
        table = Table(box=None, pad_edge=False, header_style="bold", show_edge=False)
        for column in columns:
            table.add_column(_text(column), overflow="fold")
        for row in rows:
            table.add_row(*map(_text, row))
        if self.is_terminal:
            self._console.print(table)
            return
        with self._console.capture() as captured:
            self._console.print(table, soft_wrap=False)
        for line in captured.get().splitlines():
            self._console.file.write(line.rstrip() + "\n")
        self._console.file.flush()


def say(*pieces: Piece, err: bool = False) -> None:
    """Print one line."""
    Printer(err).line(*pieces)


def to_json(value: Any) -> str:
    """Return a value as indented JSON."""
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()


def print_json(value: Any) -> None:
    """Print a value as JSON, indented on a terminal, else on one line."""
    text = to_json(value) if sys.stdout.isatty() else msgspec.json.encode(value).decode()
    # JSON is UTF-8, whatever the encoding of the terminal.
    sys.stdout.buffer.write(escaped_json(text).encode() + b"\n")
    sys.stdout.flush()


def print_json_lines(lines: Iterable[str]) -> None:
    """Print lines of JSON as they come, the same JSON wherever it goes."""
    for line in lines:
        sys.stdout.buffer.write(escaped_json(line).encode() + b"\n")
    sys.stdout.flush()


def print_data(lines: Iterable[str], escape_line: Callable[[str], str]) -> None:
    """Print lines to be read by programs, byte for byte; on a terminal they are escaped."""
    escape_line = escape_line if sys.stdout.isatty() else str
    for line in lines:
        sys.stdout.buffer.write(escape_line(line).encode() + b"\n")
    sys.stdout.flush()


@contextmanager
def progress(title: str, as_json: bool) -> Iterator[Callable[[int, int], None]]:
    """Show a progress bar on standard error, if that is a terminal."""
    if as_json or not sys.stderr.isatty():
        yield lambda done, total: None
        return
    columns = TextColumn("{task.description}", markup=False), BarColumn(), TaskProgressColumn(), TimeRemainingColumn()
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(escape(title), total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def _styled(piece: Piece) -> tuple[str, str]:
    text, style = (piece, "") if isinstance(piece, str) else piece
    return escape(text), style


def _text(piece: Piece) -> Text:
    return Text(*_styled(piece))
