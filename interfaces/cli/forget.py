"""Commands that erase what was said: redact, erase."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import click

from turnlog.store import Expired, Forgotten, Left, Mention, Redacted, Retention, Store, Target

from . import common, output
from .common import main
from .printing import print_json, progress, say

_UNITS = {"h": "hours", "d": "days", "w": "weeks"}
_AGE = re.compile(r"(\d+)([hdw])\Z")


class _Age(click.ParamType[Any]):
    """An age such as 90d, or the time itself."""

    name = "age|time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        found = _AGE.match(value)
        try:
            if found is not None:
                return datetime.now(UTC) - timedelta(**{_UNITS[found[2]]: int(found[1])})
            return common.TIME.convert(value, param, ctx)
        except (OverflowError, click.BadParameter):
            self.fail(f"{value!r} is neither an age such as 90d, 12h or 4w nor a time such as 2026-11-29", param, ctx)


@main.command()
@click.argument("conversation", required=False)
@click.argument("versions", nargs=-1, type=click.IntRange(min=1), metavar="VERSION…")
@click.option(
    "--match",
    multiple=True,
    metavar="WORDS",
    help="Every event that says all these words, in whatever field (repeatable: any).",
)
@click.option("--actor", metavar="NAME", help="Every event of this actor.")
@click.option("--conversation", "only", multiple=True, metavar="NAME", help="With these: only there (repeatable).")
@click.option("--reason", required=True, help="Why; it stays in the log.")
@click.option("--replacement", help="What to show instead of [redacted].")
@click.option("--summaries", is_flag=True, help="Redact the summaries that cover them too.")
@click.option("--dry-run", is_flag=True, help="Only list what would go.")
@common.as_json
@common.writing
def redact(
    store: Store,
    conversation: str | None,
    versions: tuple[int, ...],
    match: tuple[str, ...],
    actor: str | None,
    only: tuple[str, ...],
    reason: str,
    replacement: str | None,
    summaries: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Erase what events said, for good; their place, shape and digests stay.

    Either the VERSIONs of a CONVERSATION or, with --match and --actor, what is found in all of them.
    """
    if match or actor is not None:
        if conversation is not None:
            raise click.UsageError(
                f"{conversation}: with --match and --actor no CONVERSATION is given: --match 'SEVERAL WORDS' for those"
                " that say all of them, --match again for others, --conversation for where to look"
            )
        with progress("redact", as_json) as looked:
            forgotten = store.forget(
                match,
                actor=actor,
                conversations=only or None,
                reason=reason,
                replacement=replacement,
                summaries=summaries,
                dry_run=dry_run,
                progress=looked,
            )
        _tell_forgotten(store, forgotten, dry_run, as_json)
        return
    if conversation is None or not versions or only:
        raise click.UsageError("give a CONVERSATION and a VERSION, or --match or --actor")
    named = {store.stream(conversation).uuid: conversation}
    done = store.redact(
        conversation, versions, reason=reason, replacement=replacement, summaries=summaries, dry_run=dry_run
    )
    _tell_redacted(store, done, named, dry_run, as_json)


@main.command()
@click.argument("conversation", required=False)
@click.option("--older-than", "before", type=_Age(), help="All in which nothing has happened for so long: 90d, 12h.")
@click.option("--reason", help="Why; it stays in the log.  [default: erased, retention]")
@click.option("--dry-run", is_flag=True, help="Only list what would go.")
@common.as_json
@common.writing
def erase(
    store: Store, conversation: str | None, before: datetime | None, reason: str | None, dry_run: bool, as_json: bool
) -> None:
    """Erase all that a conversation says, its name included; its chain stays."""
    if (conversation is None) == (before is None):
        raise click.UsageError("give a CONVERSATION or --older-than")
    if before is not None:
        found = store.erase_older_than(before, reason=reason or "retention", dry_run=dry_run)
        _tell_retention(store, found, dry_run, as_json)
        return
    assert conversation is not None
    named = {store.stream(conversation).uuid: conversation}
    done = store.erase(conversation, reason=reason or "erased", dry_run=dry_run)
    _tell_redacted(store, done, named, dry_run, as_json)


def _tell_redacted(store: Store, done: Redacted, named: dict[str, str], dry_run: bool, as_json: bool) -> None:
    """`named` is what the command calls a conversation, whose name may be gone by now."""
    if as_json:
        print_json(done)
    else:
        labels = _Labels(store, named)
        for target in done.erased:
            say(f"{'would go' if dry_run else 'erased'}: {labels.of(target)}")
        _tell_summaries(done, labels)
        if not done.erased:
            say("nothing to erase")
    common.tell_erasure_due(store)


def _tell_forgotten(store: Store, done: Forgotten, dry_run: bool, as_json: bool) -> None:
    if as_json:
        print_json(done)
    else:
        labels = _Labels(store, {})
        places: dict[tuple[str, int], list[Mention]] = {}
        for mention in done.mentions:
            places.setdefault((mention.conversation, mention.version), []).append(mention)
        for target in done.redacted.erased:
            said = places.get((target.conversation, target.version), [])
            where = f": {', '.join(each.where for each in said)}" if said and not dry_run else ""
            say(f"{'would go' if dry_run else 'erased'}: {labels.of(target)}{where}")
            for each in said if dry_run else ():
                say(f"      {each.where}: {output.one_line(each.excerpt, 200)}")
        _tell_summaries(done.redacted, labels)
        for left in done.left:
            say(f"left: {labels.name(left.conversation)}: {_told_left(left)}")
        erased = output.counted(len(done.redacted.erased), "event")
        concerned = output.counted(len({target.conversation for target in done.redacted.erased}), "conversation")
        say(f"{erased} of {concerned} {'would go' if dry_run else 'erased'}")
    common.tell_erasure_due(store)


def _told_left(left: Left) -> str:
    text = output.one_line(left.text)
    if left.where == "name":
        return f"its name, {text} (`turnlog rename --erase` takes it)"
    return f"{left.where} {text} in {output.counted(left.events, 'event')} from version {left.first} on"


def _tell_retention(store: Store, done: Retention, dry_run: bool, as_json: bool) -> None:
    if as_json:
        print_json(done)
    else:
        for each in done.erased:
            say(f"{'would go' if dry_run else 'erased'}: {_told_expired(each)}")
        for each in done.kept:
            fork = store.stream(each.kept_for or "").label
            say(f"kept: {_told_expired(each)}: its fork {fork} goes on")
        if not done.erased:
            say("nothing to erase")
    common.tell_erasure_due(store)


def _told_expired(each: Expired) -> str:
    name = each.name or each.conversation
    return f"{name}, {output.counted(each.events, 'event')}, the last of {each.changed:%Y-%m-%d %H:%M:%S}"


def _tell_summaries(done: Redacted, labels: _Labels) -> None:
    for target in done.summaries:
        say(f"still tells of it: {labels.of(target)} (--summaries redacts it too)")


class _Labels:
    """What events and conversations are called in what is printed."""

    def __init__(self, store: Store, named: dict[str, str]) -> None:
        self._store = store
        self._named = named

    def name(self, identity: str) -> str:
        """Return the name of a conversation, or else its uuid."""
        if identity not in self._named:
            self._named[identity] = self._store.stream(identity).label
        return self._named[identity]

    def of(self, target: Target) -> str:
        """Return where and what an event is."""
        scope = "" if target.scope is None else f" of {target.scope}"
        article = "an" if target.type[0] in "aeiou" else "a"
        name = self.name(target.conversation)
        return f"{name} version {target.version}, {article} {target.type}{scope}"
