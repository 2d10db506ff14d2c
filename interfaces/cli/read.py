"""Commands that show: list, log, history, handoffs, diff."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from datetime import datetime

import click

from turnlog import projections
from turnlog.store import Event, Store
from turnlog.store.frames import Mode

from . import common, output
from .common import main

_FOLLOW_PAUSE = 0.2


@main.command("list")
@common.as_json
@common.reading
def list_(store: Store, as_json: bool) -> None:
    """List the conversations."""
    listed = store.conversations()
    if as_json:
        output.print_json(listed)
    elif listed:
        output.conversations(listed)
    else:
        click.echo("no conversations")


@main.command()
@click.argument("conversation", required=False)
@click.option("--follow", is_flag=True, help="Wait for more, until interrupted.")
@common.as_json
@common.reading
def log(store: Store, conversation: str | None, follow: bool, as_json: bool) -> None:
    """Show the events as they were appended, of one conversation or of the whole store."""
    out = output.console()
    names: dict[str, str] = {}
    # Being interrupted is how following ends.
    with contextlib.suppress(KeyboardInterrupt) if follow else contextlib.nullcontext():
        for event in _recorded(store, conversation, follow):
            if as_json:
                output.print_json(event.to_dict())
            elif conversation is None:
                uuid = event.conversation
                names[uuid] = names.get(uuid) or store.stream(uuid).label
                output.print_event(out, event, names[uuid])
            else:
                output.print_event(out, event)


def _recorded(store: Store, conversation: str | None, follow: bool) -> Iterator[Event]:
    position = 0
    if conversation is not None:
        for event in store.events(conversation):
            position = max(position, event.position)
            yield event
        if not follow:
            return
    while True:
        for event in store.follow(position, conversation):
            position = event.position
            yield event
        if not follow:
            return
        time.sleep(_FOLLOW_PAUSE)


@main.command()
@click.argument("conversation")
@common.scope
@common.at
@common.mode
@common.modes
@click.option("--last", type=click.IntRange(min=0), metavar="N", help="Only the last N messages.")
@common.as_json
@common.reading
def history(
    store: Store,
    conversation: str,
    scope: str,
    at: int | datetime | None,
    mode: Mode | None,
    modes: tuple[tuple[int, Mode], ...],
    last: int | None,
    as_json: bool,
) -> None:
    """Show what the model could see at a point."""
    view = projections.history(store, conversation, scope, at, mode, dict(modes), last)
    if as_json:
        output.print_json(view.to_dict())
    else:
        output.transcript(view)


@main.command()
@click.argument("conversation")
@click.option("--scope", help="Only this scope's.")
@common.mode
@common.modes
@common.as_json
@common.reading
def handoffs(
    store: Store,
    conversation: str,
    scope: str | None,
    mode: Mode | None,
    modes: tuple[tuple[int, Mode], ...],
    as_json: bool,
) -> None:
    """Show each transfer: from, to, mode, and what it hid and added."""
    found = projections.handoffs(store, conversation, scope, mode, dict(modes))
    if as_json:
        output.print_json(found)
    elif found:
        output.handoffs(found)
    else:
        click.echo("no transfers")


@main.command()
@click.argument("conversation")
@click.argument("a", type=common.POINT)
@click.argument("b", type=common.POINT)
@common.scope
@common.as_json
@common.reading
def diff(
    store: Store,
    conversation: str,
    a: tuple[int | datetime | None, Mode | None],
    b: tuple[int | datetime | None, Mode | None],
    scope: str,
    as_json: bool,
) -> None:
    """Compare two points or two modes of a conversation.

    A and B are each a version, a time, `latest`, a mode (what if every transfer had it), or MODE@VERSION.
    """
    views = [projections.history(store, conversation, scope, at, mode) for at, mode in (a, b)]
    found = projections.diff(*views)
    if as_json:
        output.print_json(found)
        return
    names = [
        f"{view.scope} at {view.version}" + (f", {mode}" if mode else "")
        for view, (_, mode) in zip(views, (a, b), strict=True)
    ]
    output.changes(found, (names[0], names[1]))
