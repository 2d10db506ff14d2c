"""What turnlog raises. Every error carries its facts as fields; its text is one line that names them."""

from __future__ import annotations


class TurnlogError(Exception):
    """Anything turnlog refuses or cannot do."""


def shown(value: object, limit: int = 80) -> str:
    """Return a value on one line, cut to `limit` characters, for the text of an error."""
    text = ascii(value) if isinstance(value, str) and not value.isprintable() else repr(value)
    return text if len(text) <= limit else text[: limit - 1] + "…"


def printable(text: str) -> str:
    """Return a text without line ends and without what a terminal obeys, for the text of an error."""
    return text if text.isprintable() else ascii(text)[1:-1]


class InvalidArgument(TurnlogError):
    """An argument is not what it has to be; nothing was done. `field` names it, `value` is what was given."""

    def __init__(self, field: str, value: object, why: str) -> None:
        self.field = field
        self.value = value
        self.why = why
        name = printable(field)
        super().__init__(f"{name} {why}" if value is None else f"{name}: {shown(value)} {why}")


class InvalidEvent(InvalidArgument):
    """An event breaks a rule of section 3 of the design; nothing was written.

    `index` is the event's place in its batch, from 0, where there is one.
    """

    def __init__(self, field: str, value: object, why: str, index: int | None = None) -> None:
        super().__init__(field, value, why)
        self.index = index

    def __str__(self) -> str:
        where = "" if self.index is None else f"event {self.index + 1} of the batch: "
        return where + super().__str__()


class VersionConflict(TurnlogError):
    """The conversation is not as `expected` said; nothing was written.

    `found` is the version found or, for `Unchanged`, the version of the first event that broke it.
    """

    def __init__(self, conversation: str, expected: object, found: int) -> None:
        self.conversation = conversation
        self.expected = expected
        self.found = found
        super().__init__(f"conversation {shown(conversation)}: expected {expected}, found version {found}")


class DuplicateEvent(TurnlogError):
    """Some ids of the batch are taken, but not by this same batch; nothing was written."""

    def __init__(self, conversation: str, ids: list[str]) -> None:
        self.conversation = conversation
        self.ids = ids
        super().__init__(
            f"conversation {shown(conversation)}: id {', '.join(map(shown, ids))} is taken by another event"
        )


class StoreBusy(TurnlogError):
    """Another process held the store's write lock for all of `seconds`; nothing was written."""

    def __init__(self, path: str, seconds: float) -> None:
        self.path = path
        self.seconds = seconds
        super().__init__(f"store {printable(path)}: still locked by another process after {seconds:g} s")


class StoreReadOnly(TurnlogError):
    """The store was opened with `read_only=True`; nothing was written."""

    def __init__(self, path: str) -> None:
        self.path = path
        super().__init__(f"store {printable(path)}: opened read-only")


class StoreUnusable(TurnlogError):
    """The file is not a store that this build can open; it was left as it is."""

    def __init__(self, path: str, why: str) -> None:
        self.path = path
        self.why = " ".join(why.split())  # SQLite quotes what it cannot read as it is, on as many lines.
        super().__init__(f"store {printable(path)}: {self.why}")


class NewerStore(StoreUnusable):
    """The store was written by a newer turnlog; `migrations` are those that this build does not know."""

    def __init__(self, path: str, migrations: list[str]) -> None:
        self.migrations = migrations
        super().__init__(
            path, f"written by a newer turnlog (it has {', '.join(migrations)}); upgrade turnlog to open it"
        )


class NotFound(TurnlogError):
    """What was asked for does not exist. `kind` is `conversation`, `version`, `scope` …"""

    def __init__(self, kind: str, value: object, why: str = "does not exist") -> None:
        self.kind = kind
        self.value = value
        super().__init__(f"{kind} {shown(value)} {why}")


class NameTaken(TurnlogError):
    """Another conversation has this name."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(f"name {shown(name)} is taken by another conversation")


class RestoreRefused(TurnlogError):
    """An exported event does not fit what stands before it or is not what was exported; nothing was written.

    `conversation` is its uuid and `version` the event's version.
    """

    def __init__(self, conversation: str, version: object, why: str) -> None:
        self.conversation = conversation
        self.version = version
        self.why = why
        super().__init__(f"conversation {shown(conversation)}, version {shown(version)}: {why}")


class Damaged(TurnlogError):
    """A conversation cannot be read as far as was asked, since rows of it are damaged; `verify` says what is wrong.

    `conversation` is its uuid, and `version` that of the event, or None if the row of the conversation is damaged.
    """

    def __init__(self, conversation: str, version: int | None, why: str) -> None:
        self.conversation = conversation
        self.version = version
        self.why = why
        at = "" if version is None else f", version {version}"
        super().__init__(f"conversation {shown(conversation)}{at} is damaged: {why}")
