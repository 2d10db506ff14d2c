"""The command that compacts."""

from __future__ import annotations

import click

from turnlog.projections import compaction
from turnlog.projections.compaction import (
    DEFAULT_KEEP,
    DEFAULT_SUMMARY_TOKENS,
    LEAST_SUMMARY_TOKENS,
    Compressor,
    DigestCompressor,
    ModelCompressor,
)
from turnlog.store import Store

from .. import llm
from . import common, output
from .common import main
from .printing import print_json, say


@main.command()
@click.argument("conversation")
@common.scope
@click.option("--keep", type=click.IntRange(min=0), default=DEFAULT_KEEP, show_default=True, help="Exchanges to keep.")
@click.option(
    "--max-tokens",
    type=click.IntRange(min=LEAST_SUMMARY_TOKENS),
    default=DEFAULT_SUMMARY_TOKENS,
    show_default=True,
    help="The summary's bound, at 4 characters a token.",
)
@click.option("--model", metavar="NAME", help="A model of the llm package; without it, a digest that needs none.")
@common.as_json
@common.writing
def compact(
    store: Store, conversation: str, scope: str, keep: int, max_tokens: int, model: str | None, as_json: bool
) -> None:
    """Summarise a scope's older exchanges; every original stays in the log."""
    compressor: Compressor = DigestCompressor(max_tokens)
    if model is not None:
        compressor = ModelCompressor(llm.model(model), name=f"model:{model}", max_tokens=max_tokens)
    done = compaction.compact(store, conversation, scope, compressor, keep)
    if as_json:
        print_json(done)
    elif done is None:
        say("nothing to summarise")
    else:
        covered = f"{output.counted(done.summary_of, 'message')} of {done.first}-{done.last}"
        say(f"version {done.receipt.last} stands for {covered}:")
        for line in done.text.split("\n"):
            say(line)
