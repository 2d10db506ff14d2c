"""Forgetting: redact, in one go, every event of every conversation that says certain words (DESIGN section 7)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass

from . import arguments, streams
from .database import Database
from .errors import InvalidArgument
from .events import Redaction
from .mentions import Left, Mention, Mentions
from .redact import Redacted, append_redactions, redaction
from .targets import Target, covering_summaries
from .terms import Terms

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Forgotten:
    """What was, or would be, redacted, where the words were said, and where they are left.

    A redaction takes what events say, and neither the names of conversations and assistants nor the ids and scopes of
    events: those are in `left`. The mentions of a dry run alone have excerpts, so that nothing repeats what was erased.
    """

    mentions: list[Mention]
    left: list[Left]
    redacted: Redacted


def forget(
    db: Database,
    match: Sequence[str],
    actor: str | None,
    conversations: Sequence[str] | None,
    reason: str,
    replacement: str | None,
    summaries: bool,
    dry_run: bool,
    progress: Progress,
) -> Forgotten:
    """See `Store.forget`."""
    how = redaction(reason, replacement)
    names = None if conversations is None else arguments.texts("conversations", conversations)
    only = None if names is None else [streams.get(db, name) for name in names]
    with closing(Terms(arguments.texts("match", match))) as terms:
        _check_sense(terms, actor, how)
        found = Mentions(db, terms, actor, only, with_excerpts=dry_run)
        found.look(progress)
        if dry_run:
            return Forgotten(found.mentions(), found.left(), _planned(db, found.targets(), summaries))
        with db.transaction():
            # What was said, and what was redacted, since the search began.
            found.look(progress)
            found.drop_redacted()
            planned = _planned(db, found.targets(), summaries)
            receipts = append_redactions(db, planned.erased, how)
            db.erasure.notice()
        redacted = Redacted(planned.erased, planned.summaries, receipts, db.erasure.told())
        return Forgotten(found.mentions(), found.left(), redacted)


def _check_sense(terms: Terms, actor: str | None, how: Redaction) -> None:
    if actor is not None and not arguments.text("actor", actor):
        raise InvalidArgument("actor", actor, "is empty")
    if actor is None and not terms:
        raise InvalidArgument("match", None, "has no words, and no actor is given")
    for name, text in (("reason", how.reason), ("replacement", how.replacement)):
        if text is not None and terms.said_in([text]):
            raise InvalidArgument(name, text, "says again what is to be forgotten")


def _planned(db: Database, wanted: list[Target], with_summaries: bool) -> Redacted:
    covering = covering_summaries(db, wanted)
    return Redacted([*wanted, *covering], [], []) if with_summaries else Redacted(wanted, covering, [])
