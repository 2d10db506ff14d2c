"""The store: append events to conversations, read them back, follow them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from types import TracebackType
from typing import Any

from . import streams
from .append import Receipt, append
from .arguments import instance_of
from .checkpoint import Checkpoint, checkpoint
from .conversation import Conversation
from .database import Database, Durability
from .events import NewEvent
from .exchange import Exported, Restored, restore
from .expected import ANY, ExpectedVersion
from .faults import Verified
from .forget import Forgotten, forget
from .fork import fork
from .reading import Reader
from .redact import Redacted, erase_conversation, redact
from .retention import Retention, erase_older_than
from .searching import Index
from .verify import verify


class Store(Reader):
    """A turnlog store in one SQLite file, made if it does not exist. It may be shared between threads.

    `durability` is `"full"` (an append is on the disk when it returns) or `"normal"` (it survives a crash of the
    process, and a power loss may take the last ones). `timeout` is how long, in seconds, a write waits for another
    process's. A relative path leads to the same file wherever the process goes later. A store whose file is moved,
    replaced or deleted refuses the next write; one that is opened read-only refuses the next read.

    :raises StoreUnusable: the file is not a turnlog store; `NewerStore` if a newer turnlog wrote it.
    :raises InvalidArgument: an argument is not what it has to be.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] = "turnlog.db",
        *,
        durability: Durability = "full",
        read_only: bool = False,
        timeout: float = 30.0,
    ) -> None:
        self.db = Database(path, durability, read_only, timeout)
        self.index = Index(self.db)

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self, type: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the store; closing it twice is nothing."""
        self.index.close()
        self.db.close()

    @property
    def path(self) -> str:
        """Return the absolute path of the file, or `:memory:`."""
        return self.db.path

    def conversation(self, name: str) -> Conversation:
        """A handle on the conversation of this name or uuid, which begins with its first event."""
        return Conversation(self, streams.checked_name(name))

    def append(
        self,
        conversation: str,
        events: Sequence[NewEvent | Mapping[str, Any]],
        *,
        expected: ExpectedVersion = ANY,
    ) -> Receipt:
        """Append a batch, all or nothing (DESIGN section 3). `conversation` is a name or uuid; a new name begins one.

        A name is new, too, if its conversation was renamed or erased: `expected=MUST_EXIST`, a version or the uuid keep
        a writer from beginning another one.

        The same batch with the same ids again gives its first receipt, whatever `expected` says.

        :raises InvalidEvent: a field, a name or a batch is not allowed.
        :raises DuplicateEvent: some of its ids are taken, but not by this same batch.
        :raises VersionConflict: the conversation is not as `expected` says.
        :raises StoreBusy: the store stayed locked.
        """
        return append(self.db, conversation, events, expected)

    def transaction(self) -> AbstractContextManager[None]:
        """Make several appends one: all or nothing. Other writers wait meanwhile.

        :raises StoreBusy: the store stayed locked.
        :raises StoreReadOnly: the store was opened read-only.
        """
        return self.db.transaction(explains=False)

    def restore(self, lines: Iterable[Exported], name: str | None = None) -> list[Restored]:
        """Put exported events back verbatim, all or nothing; those that are here already are compared.

        `name` names the conversation, else the export does. A fork's parent is restored up to where it forks.

        :raises RestoreRefused: an event was changed, does not follow the one before, or differs from the store's.
        :raises NameTaken: another conversation has the name.
        """
        with self.db.transaction():
            return restore(self.db, lines, name)

    def fork(self, conversation: str, at: int | None = None, name: str | None = None) -> Receipt:
        """Begin a conversation that shares another's events up to version `at` (its latest, if not given).

        It costs one event; later events on either side are never seen on the other, redactions of what both share
        aside. The receipt's `conversation` is the new uuid.

        :raises NotFound: there is no such conversation or version.
        :raises NameTaken: another conversation has the name.
        """
        return fork(self.db, conversation, at, name)

    def redact(
        self,
        conversation: str,
        versions: Sequence[int],
        *,
        reason: str,
        replacement: str | None = None,
        summaries: bool = False,
        dry_run: bool = False,
    ) -> Redacted:
        """Erase what the events of these versions said, for good and from every file; their frames stay verifiable.

        A version that a fork's parent owns is redacted there, and every fork shows it. The summaries that cover one
        are named, and with `summaries` redacted too; `dry_run` only tells what would go.

        :raises NotFound: there is no such conversation or version; nothing was erased.
        :raises InvalidArgument: the reason or the replacement is not text.
        """
        return redact(self.db, conversation, versions, reason, replacement, summaries, dry_run)

    def erase(self, conversation: str, *, reason: str = "erased", dry_run: bool = False) -> Redacted:
        """Erase all that a conversation says, its name included, and leave its chain; `dry_run` only tells.

        Doing it again does nothing: the `reason` stays in the log, and those of earlier redactions go. What a fork
        shares with its parent is the parent's, and stays. The name is free: an append by it begins a new conversation.

        :raises NotFound: there is no such conversation.
        :raises InvalidArgument: the reason is not text.
        """
        return erase_conversation(self.db, conversation, reason, dry_run)

    def forget(
        self,
        match: Sequence[str] = (),
        *,
        actor: str | None = None,
        conversations: Sequence[str] | None = None,
        reason: str,
        replacement: str | None = None,
        summaries: bool = False,
        dry_run: bool = False,
        progress: Callable[[int, int], None] = lambda done, total: None,
    ) -> Forgotten:
        """Redact every event that says certain words in any field, or that has this `actor`, in one transaction.

        An event is found if it says all the words of one text of `match`, wherever it does. Words are those of
        full-text search: whole, without regard to case and accents. Everything that an event says is read, without
        escapes and, where it is JSON, decoded: contents, arguments, results, prompts, tools, reasons, `meta`, `extra`.
        Nothing is asked of the search index. Only `conversations`, with what they share, if they are given.

        What a redaction cannot take, such as the names of conversations and assistants, is named as `left`. The
        summaries that cover what goes are named, and with `summaries` redacted too; `dry_run` only tells, with
        excerpts. `progress` hears positions of the log done and in all.

        :raises NotFound: there is no such conversation.
        :raises InvalidArgument: there is nothing to look for, or the reason or the replacement says it again.
        """
        return forget(self.db, match, actor, conversations, reason, replacement, summaries, dry_run, progress)

    def erase_older_than(self, time: datetime, *, reason: str = "retention", dry_run: bool = False) -> Retention:
        """Erase the conversations whose last event, redactions aside, is older than a time, in one transaction.

        The time of an event is when it happened, if its writer said so, else when it was recorded. A conversation that
        a younger fork goes on from is kept, and named. `dry_run` only tells.

        :raises InvalidArgument: the time has no time zone, or the reason is not text.
        """
        return erase_older_than(self.db, time, reason, dry_run)

    def checkpoint(self, key: bytes | None = None) -> Checkpoint:
        """Where every conversation stands; kept elsewhere, it makes truncation, rollback and loss show in `verify`.

        With a `key` its root is an HMAC, which nobody without the key can make anew.
        """
        return checkpoint(self.db, None if key is None else instance_of("key", key, bytes, "bytes"))

    def verify(
        self,
        against: Checkpoint | None = None,
        key: bytes | None = None,
        progress: Callable[[int, int], None] = lambda done, total: None,
        derived: Callable[[], Iterable[str]] = tuple,
    ) -> Verified:
        """Recompute every digest of the store; the first bad event of each conversation is named.

        SQLite's own check is run, the schema is compared with `schema.sql`, and what is derived from the log with the
        log. Reads one state of the store, whatever is written meanwhile, in memory that does not grow with it.
        `progress` hears events done and in all. `derived` gives further differences of what is derived from the log:
        `turnlog.projections.differences` those of timelines.

        :raises StoreBusy: the store stayed locked.
        """
        if key is not None:
            instance_of("key", key, bytes, "bytes")
        if against is not None:
            instance_of("against", against, Checkpoint, "a checkpoint")
        return verify(self.db, against, key, progress, derived)

    def rename(self, conversation: str, name: str | None, *, erase: bool = False) -> None:
        """Give a conversation another name, or none: its uuid stays.

        Copies of the old name stay in the store's files until something is erased. With `erase` they leave them now,
        as what is redacted does; `erasure_due` says if they have not.

        :raises NotFound: there is no such conversation.
        :raises NameTaken: another conversation has the name.
        """
        with self.db.transaction():
            streams.rename(self.db, conversation, name)
            if erase:
                self.db.erasure.begin()

    def backup(self, target: str | os.PathLike[str], progress: Callable[[int, int], None] | None = None) -> None:
        """Copy the live store, as it is at one moment, to a new file that the same people may read.

        `progress` hears the pages left and the pages in all. The copy is compared with the store.

        :raises StoreUnusable: the store is closed, or the target exists or cannot be written; nothing is left of it.
        """
        self.db.backup(target, progress)
