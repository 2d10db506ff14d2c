"""Commands on lifelines: trace, and making what is derived from the log again."""

from __future__ import annotations

import click

from turnlog import projections
from turnlog.store import Store

from . import common, lifelines, output
from .common import main


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
        output.print_json(found)
    elif found:
        lifelines.traced(found)
    else:
        click.echo("nothing found")


@main.command()
@common.as_json
@common.writing
def rebuild(store: Store, as_json: bool) -> None:
    """Make the timelines and the search index again from the log."""
    with common.progress("rebuild", as_json) as progress:
        count = projections.rebuild(store, progress)
    if as_json:
        output.print_json({"timelines": count})
    else:
        click.echo(f"{output.counted(count, 'timeline')} and the search index made again")
