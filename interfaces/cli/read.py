"""Commands that show: list, log, history, handoffs, diff, request."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from datetime import datetime

import click
import msgspec

from turnlog import projections
from turnlog.store import Event, Store
from turnlog.store.events import Mode

from ..costs import costs
from ..tokens import counter
from ..wires import WIRES, adapt, stable_prefix
from . import common, output
from .common import main
from .printing import Printer, print_json, progress, say

_FOLLOW_PAUSE = 0.2


@main.command("list")
@common.as_json
@common.reading
def list_(store: Store, as_json: bool) -> None:
    """List the conversations."""
    listed = store.conversations()
    if as_json:
        print_json(listed)
    elif listed:
        output.conversations(listed)
    else:
        say("no conversations")
    common.tell_erasure_due(store)


@main.command()
@click.argument("conversation", required=False)
@click.option("--follow", is_flag=True, help="Wait for more, until interrupted.")
@common.as_json
@common.reading
def log(store: Store, conversation: str | None, follow: bool, as_json: bool) -> None:
    """Show the events as they were appended, of one conversation or of the whole store."""
    out = Printer()
    names: dict[str, str] = {}
    # Being interrupted is how following ends.
    with contextlib.suppress(KeyboardInterrupt) if follow else contextlib.nullcontext():
        for event in _recorded(store, conversation, follow):
            if as_json:
                print_json(event.to_dict())
            elif conversation is None:
                uuid = event.conversation
                names[uuid] = names.get(uuid) or store.stream(uuid).label
                output.event(out, event, names[uuid])
            else:
                output.event(out, event)


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
@common.projecting
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
    of_versions = common.checked_modes(store, conversation, modes)
    line = projections.timeline(store, conversation, scope, mode=mode, modes=of_versions)
    view = line.at(at, last=last)
    if as_json:
        told = {"hidden": line.hidden(view.version), "problems": projections.problems(line, view.version)}
        print_json(view.to_dict() | told)
    elif last is not None:
        output.transcript(view, None, [])
    else:
        output.transcript(view, line.hidden(view.version), projections.problems(line, view.version))


@main.command()
@click.argument("conversation")
@click.option("--scope", help="Only this scope's.")
@common.mode
@common.modes
@click.option("--compare", is_flag=True, help="Show what each of the four modes would have cost.")
@common.tokenizer
@common.as_json
@common.projecting
def handoffs(
    store: Store,
    conversation: str,
    scope: str | None,
    mode: Mode | None,
    modes: tuple[tuple[int, Mode], ...],
    compare: bool,
    tokenizer: str | None,
    as_json: bool,
) -> None:
    """Show each transfer: from, to, mode, what it hid and added, and what it cost in cache."""
    of_versions = common.checked_modes(store, conversation, modes)
    found = projections.handoffs(store, conversation, scope, mode, of_versions)
    count = None if tokenizer is None else counter(tokenizer)
    counted = []
    with progress("counting", as_json) as done:
        for each in costs(store, found, (mode, of_versions), count, compare):
            counted.append(each)
            done(len(counted), len(found))
    if as_json:
        print_json(
            [
                {**msgspec.to_builtins(handoff), "costs": [each.to_dict() for each in own]}
                for handoff, own in zip(found, counted, strict=True)
            ]
        )
    elif found:
        output.handoffs(found, counted)
        if compare:
            output.totals(counted)
    else:
        say("no transfers")


@main.command()
@click.argument("conversation")
@click.argument("a", type=common.POINT)
@click.argument("b", type=common.POINT)
@common.scope
@click.option("--with", "other", metavar="CONVERSATION", help="B is of this conversation, such as a fork.")
@click.option("--with-scope", "other_scope", metavar="SCOPE", help="B is of this scope.")
@common.clock
@common.tokenizer
@common.as_json
@common.projecting
def diff(
    store: Store,
    conversation: str,
    a: tuple[common.At, Mode | None],
    b: tuple[common.At, Mode | None],
    scope: str,
    other: str | None,
    other_scope: str | None,
    tokenizer: str | None,
    as_json: bool,
) -> None:
    """Compare two points, modes, scopes or forks, message by message.

    A and B are each a version, a time, `latest`, a mode (what if every transfer had it), or MODE@VERSION. What is told
    of a message: - only in A, + only in B, ~ changed, > moved (both places are shown).
    """
    one = projections.history(store, conversation, scope, a[0], a[1])
    two = projections.history(store, other or conversation, other_scope or scope, b[0], b[1])
    changes = projections.diff(one, two)
    count = None if tokenizer is None else counter(tokenizer)
    prefixes = {name: stable_prefix(one, two, wire, count) for name, wire in WIRES.items()}
    if as_json:
        cache = {name: prefix.to_dict() for name, prefix in prefixes.items()}
        print_json({"changes": changes, "cache": cache})
        return
    names = [
        f"{view.conversation} {view.scope} at {view.version}" + (f", {mode}" if mode else "")
        for view, (_, mode) in ((one, a), (two, b))
    ]
    output.changes(changes, (names[0], names[1]))
    output.prefixes(prefixes)


@main.command()
@click.argument("conversation")
@common.scope
@common.at
@common.mode
@common.modes
@click.option("--wire", type=click.Choice(sorted(WIRES)), required=True, help="The provider's form.")
@click.option("--since", type=common.AT, help="The version of the request before, whose cache is to be used.")
@common.as_json
@common.projecting
def request(
    store: Store,
    conversation: str,
    scope: str,
    at: common.At,
    mode: Mode | None,
    modes: tuple[tuple[int, Mode], ...],
    wire: str,
    since: common.At,
    as_json: bool,
) -> None:
    """Print the provider's request of a history, with its cache points placed, and what was changed for it."""
    of_versions = common.checked_modes(store, conversation, modes)
    view = projections.history(store, conversation, scope, at, mode, of_versions)
    before = None if since is None else projections.history(store, conversation, scope, since, mode, of_versions)
    adapted = adapt(view, WIRES[wire], projections.plan(view, before))
    print_json(adapted.to_dict() if as_json else adapted.request)
    if not as_json:
        for change in adapted.changes:
            say(f"changed: version {change.version}, {change.what}", err=True)
