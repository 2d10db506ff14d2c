"""Commands that append or copy: import, export, rewind, rename, backup."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import click

from turnlog import projections
from turnlog.store import Rewind, Store, TurnlogError
from turnlog.store.characters import escaped_json

from ..formats import chatcli, openai
from ..formats import log as events_format
from ..formats.document import BrokenFile, encoded
from ..formats.transfers import DEFAULT, TransferTools
from ..importing import FORMATS, Diverged, Imported, OnDivergence, import_file
from . import common
from .common import main
from .files import write_file
from .printing import print_data, print_json, progress, say


@main.command("import")
@click.argument("files", nargs=-1, required=True, metavar="FILE…", type=click.Path(allow_dash=True, dir_okay=False))
@click.option("--format", "format_", type=click.Choice(FORMATS), help="Told from the content if not given.")
@click.option("--conversation", help="The conversation's name, instead of its id in the file or the file's name.")
@click.option(
    "--diverged",
    type=click.Choice(("refuse", "rewind")),
    default="refuse",
    show_default=True,
    help="What to do if a file's earlier part is not what the log has.",
)
@click.option(
    "--transfer-tool",
    "patterns",
    multiple=True,
    metavar="PATTERN",
    help=f"A tool whose calls are transfers; * is the destination.  [default: {', '.join(DEFAULT)}]",
)
@click.option("--no-transfers", is_flag=True, help="Infer no transfers from tool calls.")
@common.as_json
@common.making
def import_(
    store: Store,
    files: tuple[str, ...],
    format_: str | None,
    conversation: str | None,
    diverged: OnDivergence,
    patterns: tuple[str, ...],
    no_transfers: bool,
    as_json: bool,
) -> None:
    """Import conversations: lossless, and safe to repeat."""
    tools = None if no_transfers else TransferTools(patterns or DEFAULT)
    imported: list[Imported] = []
    failed = 0
    for file in files:
        try:
            data = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
            with progress(f"import {file}", as_json) as done:
                imported += import_file(
                    store,
                    "standard input" if file == "-" else file,
                    data,
                    None if file == "-" else Path(file).stem,
                    format=format_,
                    conversation=conversation,
                    diverged=diverged,
                    tools=tools,
                    progress=done,
                )
        except (TurnlogError, OSError) as error:
            failed += 1
            hint = "; --diverged rewind goes on from the last agreement" if isinstance(error, Diverged) else ""
            where = "" if isinstance(error, BrokenFile | Diverged | OSError) else f"{file}: "
            say(f"Error: {where}{common.told(error)}{hint}", err=True)
    if as_json:
        print_json(imported)
    else:
        for each in imported:
            rewound = "" if each.rewound_to is None else f", after a rewind to {each.rewound_to}"
            say(f"{each.conversation}: {each.added} added, {each.present} there already{rewound}")
    if failed:
        sys.exit(1)


@main.command()
@click.argument("conversation")
@click.argument("version", type=click.IntRange(min=0))
@click.option("--scope", help="Only in this scope; in all if not given.")
@common.as_json
@common.writing
def rewind(store: Store, conversation: str, version: int, scope: str | None, as_json: bool) -> None:
    """Go on from an earlier VERSION (0: the beginning); what came after stays in the log."""
    store.stream(conversation)
    receipt = store.append(conversation, [Rewind(to=version, scope=scope)])
    if as_json:
        print_json(receipt)
    else:
        where = "in every scope" if scope is None else f"in {scope}"
        say(f"rewound to {version} {where}, by version {receipt.last}")


@main.command()
@click.argument("conversation")
@click.argument("name", required=False)
@click.option("--drop", is_flag=True, help="Leave it without a name: its uuid stays.")
@click.option("--erase", is_flag=True, help="Write the file anew, so that no file has the old name any more.")
@common.as_json
@common.writing
def rename(store: Store, conversation: str, name: str | None, drop: bool, erase: bool, as_json: bool) -> None:
    """Give a conversation another NAME, or drop it."""
    if (name is None) != drop:
        raise click.UsageError("give a NAME or --drop")
    identity = store.stream(conversation).uuid
    store.rename(identity, name, erase=erase)
    stream = store.stream(identity)
    if as_json:
        print_json({"conversation": stream.name, "uuid": stream.uuid})
    else:
        say(f"{stream.uuid} is {'without a name' if stream.name is None else stream.name}")
    if erase:
        common.tell_erasure_due(store)


@main.command()
@click.argument("file", type=click.Path(dir_okay=False))
@common.as_json
@common.reading
def backup(store: Store, file: str, as_json: bool) -> None:
    """Copy the live store to a new FILE."""
    with progress("backup", as_json) as done:
        store.backup(file, lambda left, total: done(total - left, total))
    size = Path(file).stat().st_size
    if as_json:
        print_json({"file": file, "bytes": size})
    else:
        say(f"{file}: {size:,} bytes")


@main.command()
@click.argument("conversation")
@click.option("--format", "format_", type=click.Choice(FORMATS), required=True, help="What to write.")
@click.option("--output", "target", type=click.Path(dir_okay=False), help="A file; standard output if not given.")
@common.scope
@common.at
@common.as_json
@common.reading
def export(
    store: Store,
    conversation: str,
    format_: str,
    target: str | None,
    scope: str,
    at: int | datetime | None,
    as_json: bool,
) -> None:
    """Write a conversation: its events verbatim, or as messages what is visible of a scope at a point."""
    if format_ == "events" and (scope != "chat" or at is not None):
        raise click.UsageError("events are exported whole: --scope and --at are for the formats of messages")
    label = store.stream(conversation).label
    if format_ == "events":
        lines: Iterator[str] = events_format.write(store, conversation)
    else:
        description = projections.describe(store, conversation)
        if format_ == "openai":
            document = openai.write(label, projections.timeline(store, conversation, scope), at, description)
        else:
            document = chatcli.write(lambda each: projections.timeline(store, conversation, each).held(at), description)
        lines = iter([encoded(document)])
    if target is None:
        print_data(lines, escaped_json)
        return
    count = write_file(store, target, lines)
    if as_json:
        print_json({"conversation": label, "format": format_, "file": target, "lines": count})
    else:
        # What was written to standard output is for a program to read.
        say(f"{target}: {count} lines", err=not Path(target).is_file())
