"""Commands on lifelines: trace, and making what is derived from the log again."""

from __future__ import annotations

import click

from turnlog import projections
from turnlog.store import Store

from . import common, lifelines, output
from .common import main
from .printing import print_json, progress, say


@main.command()
@click.argument("conversation")
@click.argument("words", nargs=-1, required=True, metavar="WORD…")
@click.option("--scope", help="Only this scope's.")
@common.as_json
@common.projecting
def trace(store: Store, conversation: str, words: tuple[str, ...], scope: str | None, as_json: bool) -> None:
    """Show when the messages with these words were visible, and which transfer modes would have kept them."""
    found = projections.trace(store, conversation, " ".join(words), scope)
    if as_json:
        print_json(found)
    elif found:
        lifelines.traced(found)
    else:
        say("nothing found")


@main.command()
@common.as_json
@common.writing
def rebuild(store: Store, as_json: bool) -> None:
    """Make the timelines and the search index again from the log."""
    with progress("rebuild", as_json) as done:
        count = projections.rebuild(store, done)
    if as_json:
        print_json({"timelines": count})
    else:
        say(f"{output.counted(count, 'timeline')} and the search index made again")
