"""Commands of the audit: verify, checkpoint, fork, replay, explain, check, search, usage."""

from __future__ import annotations

import sys
from datetime import datetime
from itertools import chain
from pathlib import Path

import click

from turnlog import projections
from turnlog.projections import ADVICE, differences
from turnlog.store import InvalidArgument, Store, read_checkpoint

from ..costs import cost_differences
from . import common, lifelines, output
from .common import main
from .files import write_file
from .printing import print_json, progress, say, to_json

_key = click.option(
    "--key-file",
    type=click.Path(exists=True, dir_okay=False),
    help="A file whose bytes are the key: the root is an HMAC.",
)


@main.command()
@click.option("--checkpoint", "file", type=click.Path(exists=True, dir_okay=False), help="A checkpoint kept elsewhere.")
@_key
@click.option("--quick", is_flag=True, help="Do not build the stored timelines again to compare them.")
@common.as_json
@common.reading
def verify(store: Store, file: str | None, key_file: str | None, quick: bool, as_json: bool) -> None:
    """Recompute every digest, and compare with the log all that is derived from it; exit code 1 if anything differs."""
    if key_file is not None and file is None:
        raise click.UsageError("--key-file is for a --checkpoint")
    against = None if file is None else read_checkpoint(Path(file).read_bytes())
    with progress("verify", as_json) as done:
        derived = () if quick else chain(differences(store), cost_differences(store))
        found = store.verify(against, _key_of(key_file), done, lambda: derived)
    if as_json:
        print_json(found)
    else:
        output.verified(found)
    common.tell_erasure_due(store)
    if found.faults or found.derived:
        sys.exit(1)


@main.command()
@click.option("--output", "target", type=click.Path(dir_okay=False), help="A file; standard output if not given.")
@_key
@common.as_json
@common.reading
def checkpoint(store: Store, target: str | None, key_file: str | None, as_json: bool) -> None:
    """Write where every conversation stands, to be kept elsewhere."""
    taken = store.checkpoint(_key_of(key_file))
    if target is None:
        print_json(taken)
        return
    write_file(store, target, [to_json(taken)])
    if as_json:
        print_json({"file": target, "conversations": len(taken.conversations), "root": taken.root})
    else:
        held = output.counted(len(taken.conversations), "conversation")
        say(f"{target}: {held}, root {taken.root}", err=not Path(target).is_file())


@main.command()
@click.argument("conversation")
@click.argument("name", required=False)
@click.option("--at", "at", type=click.IntRange(min=1), help="The last version to share; the latest if not given.")
@common.as_json
@common.writing
def fork(store: Store, conversation: str, name: str | None, at: int | None, as_json: bool) -> None:
    """Begin a conversation, called NAME, that shares another's events up to a version."""
    receipt = store.fork(conversation, at, name)
    if as_json:
        print_json(receipt)
    else:
        say(f"{name or receipt.conversation} goes on from version {receipt.first - 1}")


@main.command()
@click.argument("conversation")
@common.as_json
@common.reading
def replay(store: Store, conversation: str, as_json: bool) -> None:
    """Project every recorded request again and compare it with what was sent."""
    found = projections.replay(store, conversation)
    if as_json:
        print_json(found)
    else:
        output.replayed(found)
    if not found and not as_json:
        say("no requests")
    if any(each.outcome == "unexplained" for each in found):
        sys.exit(1)


@main.command()
@click.argument("conversation")
@click.argument("version", type=click.IntRange(min=1))
@common.at
@common.as_json
@common.projecting
def explain(store: Store, conversation: str, version: int, at: int | datetime | None, as_json: bool) -> None:
    """Tell why what an event placed is or is not visible, in each scope."""
    found = projections.explain(store, conversation, version, at)
    if as_json:
        print_json(found)
    elif found:
        lifelines.explained(found)
    else:
        now = projections.history(store, conversation, at=at, last=0).version
        why = f"comes after version {now}" if version > now else "adds no message"
        say(f"version {version} {why}")


@main.command()
@click.argument("conversations", nargs=-1, metavar="[CONVERSATION…]")
@click.option("--only", type=click.Choice(sorted(ADVICE)), help="Only this rule.")
@common.as_json
@common.projecting
def check(store: Store, conversations: tuple[str, ...], only: str | None, as_json: bool) -> None:
    """Look for what makes handoffs go wrong; exit code 1 if anything is found (docs/findings.md explains each)."""
    names = conversations or tuple(each.conversation or each.uuid for each in store.conversations())
    found = [each for name in names for each in projections.check(store, name) if only in (None, each.rule)]
    if as_json:
        print_json(found)
    else:
        output.findings(found)
        say(f"{output.counted(len(names), 'conversation')}, {output.counted(len(found), 'finding')}")
    if found:
        sys.exit(1)


@main.command()
@click.argument("query", nargs=-1, metavar="WORD…")
@click.option("--conversation", help="Only in this one.")
@click.option("--scope", help="Only in this scope.")
@click.option("--role", type=click.Choice(("system", "user", "assistant", "tool")), help="Only said in this role.")
@click.option("--assistant", help="Only said by, or to, this assistant.")
@click.option("--since", type=common.TIME, help="Not before this time (UTC).")
@click.option("--until", type=common.TIME, help="Before this time (UTC).")
@click.option("--limit", type=click.IntRange(min=1), default=20, show_default=True, help="At most so many.")
@common.as_json
@common.projecting
def search(
    store: Store,
    query: tuple[str, ...],
    conversation: str | None,
    scope: str | None,
    role: str | None,
    assistant: str | None,
    since: datetime | None,
    until: datetime | None,
    limit: int,
    as_json: bool,
) -> None:
    """Find the events that say all of these words, hidden ones included and marked."""
    if not query:
        raise click.UsageError("give a word to search for")
    with progress("index", as_json) as done:
        store.index.catch_up(done)
    found = projections.search(
        store,
        " ".join(query),
        conversation=conversation,
        scope=scope,
        role=role,
        assistant=assistant,
        since=since,
        until=until,
        limit=limit,
    )
    if as_json:
        print_json(found)
    elif found:
        output.found(found)
    else:
        say("nothing found")


@main.command()
@click.argument("conversation", required=False)
@common.as_json
@common.projecting
def usage(store: Store, conversation: str | None, as_json: bool) -> None:
    """Add up the tokens of models, per conversation, scope, assistant and model."""
    rows = projections.usage(store, conversation)
    if as_json:
        print_json(rows)
    elif rows:
        output.usage(rows)
    else:
        say("no usage")


def _key_of(file: str | None) -> bytes | None:
    if file is None:
        return None
    key = Path(file).read_bytes()
    if not key:
        raise InvalidArgument("--key-file", file, "is empty")
    return key
