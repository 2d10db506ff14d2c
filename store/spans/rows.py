"""What the rows of timelines are, and what their numbers mean."""

from __future__ import annotations

from functools import lru_cache
from hashlib import blake2b
from typing import Literal, NamedTuple, TypeAlias, get_args

import msgspec

Origin = Literal["message", "response", "summary", "prompt", "first_message", "destination_message"]
ORIGINS: tuple[Origin, ...] = get_args(Origin)
ROLES = ("user", "assistant", "tool", "system")
# What may end a span or hide a message; a number of these is stored, so new ones are added at the end.
RULES_THAT_HIDE = (
    "rewind",
    "summary",
    "clear",
    "assistant",
    "orphan-result",
    "duplicate-result",
    "replaced-result",
    "summary-covers-nothing-visible",
    "transfer:rolling-history",
    "transfer:swap-system-message-in-history",
    "transfer:swap-system-message-in-history-and-remove-transfer-tool-messages",
    "transfer:delete-history",
    "context:all",
    "context:lastNMessages",
    "context:userAndAssistantMessages",
    "context:previousAssistantMessages",
    "context:none",
)
TEXT, OTHER, TEXT_ONLY = 1, 2, 4  # Bits of `parts`: it has text, other parts, and shows its text alone.
SHOWS, HIDES = 0, 1  # Kinds of blocks.
BITS = 8  # A block has 256 places, which are 64 versions.
NEAR = 4  # Blocks that are looked through at once for the last messages of a view.
MAX_BLOCKS = 64  # Blocks that are looked through at once for what is hidden.
STEP = 6  # One of the level above has 64 of these.
MANY = 1000  # Rows from which on a page is read in one go.
PLACES = 4  # Places a version has: its destination message, message or summary, then prompt, then first message.
NEVER = 2**62
SHARED_BIT = 32  # In `form`.
HAS_CALLS = 512  # The least `form` of a message with calls.

TABLES = (
    "spans",
    "segments",
    "hidings",
    "uses",
    "meanings",
    "facts",
    "blocks",
    "counts",
    "notes",
    "names",
    "costs",
    "timelines",
)
Schema = Literal["main", "temp"]
SHOWN_COLUMNS = "place, form, assistant, version, source, removed"
SPAN_COLUMNS = "place, since, until, why, form, assistant, version, source, removed, why_by, rule, by"


class SpanRow(NamedTuple):
    """A span: a message that is held from `since` until before `until`, in one form and at one place.

    `version` is None where it follows from the place, `source` where it is the version. `why` (with `why_by`) is the
    rule that keeps it from being visible; `rule` (with `by`, None where it is `until`) what ended the span. Names are
    stored as numbers: places in the tuples of this module, and of the timeline's own assistants.
    """

    place: int
    since: int
    until: int | None
    why: int | None
    form: int
    assistant: int | None
    version: int | None
    source: int | None
    removed: str | None
    why_by: int | None
    rule: int | None
    by: int | None

    @property
    def origin(self) -> int:
        """Return what the message is of the event that placed it: a place in ORIGINS."""
        return read_form(self.form).origin

    @property
    def role(self) -> int:
        """Return who says it: a place in ROLES."""
        return read_form(self.form).role

    @property
    def shared(self) -> bool:
        """Return whether it is of shared memory."""
        return read_form(self.form).shared

    @property
    def parts(self) -> int:
        """Return what it has and shows: TEXT, OTHER, TEXT_ONLY."""
        return read_form(self.form).parts

    @property
    def calls(self) -> int:
        """Return how many calls it was written with, taken ones included."""
        return read_form(self.form).calls


# A message of a view: place, form, assistant, version, source and removed calls as in its `SpanRow`, the body of the
# event whose text it shows, None once that is redacted, and the digest of that event, if it was asked for.
ShownRow: TypeAlias = tuple[int, int, int | None, int | None, int | None, str | None, str | None, bytes | None]


class Moment(NamedTuple):
    """What held after a version: the active assistant and what was known of it, as facts, and how many messages were
    visible and how many entries the hidden list had."""

    active: str | None
    known: str | None
    visible: int
    hidden: int


class HidingRow(NamedTuple):
    """Why a message that is not held is hidden from `since` on, and what ended it, where no span says it."""

    version: int
    origin: int
    since: int
    rule: int
    by: int
    shared: int
    ended: int
    ended_by: int


class UseRow(NamedTuple):
    """A tool call (`part` is its index in its message) or a result (`part` is FINAL or INTERIM) on the log.

    `id` is a hash of the call's id. A result's row says which call it is paired with, from `since` on.
    """

    id: int
    version: int
    part: int
    since: int
    call: int | None
    call_part: int | None
    open: int | None


FINAL, INTERIM = -1, -2


class LineRow(NamedTuple):
    """A timeline: its key, the version it is caught up to, and the secret that its hashes of call ids are made with."""

    line: int
    version: int
    secret: bytes


class TimelineKey(msgspec.Struct, frozen=True, gc=False):
    """What a timeline is of: a conversation (its number in the store), a scope, a what-if, and the rules' revision."""

    conversation: int
    scope: str
    what_if: str
    rules: int


LATE = "since <> place / 4"


class Form(NamedTuple):
    """What the column `form` of a span holds: see the properties of `SpanRow`."""

    origin: int
    role: int
    shared: bool
    parts: int
    calls: int

    def packed(self) -> int:
        """Return it as the column holds it."""
        return self.origin | self.role << 3 | (SHARED_BIT if self.shared else 0) | self.parts << 6 | self.calls << 9

    @property
    def is_blank(self) -> bool:
        """Return whether the message was written without text, other parts and calls."""
        return not self.parts and not self.calls


@lru_cache(1000)
def read_form(form: int) -> Form:
    """Return what the column `form` of a span holds."""
    return Form(form & 7, form >> 3 & 3, bool(form & SHARED_BIT), form >> 6 & 7, form >> 9)


def hash_of(call_id: str, secret: bytes) -> int:
    """Return the number that stands for a call's id; whoever does not know the secret finds no two of one number."""
    return int.from_bytes(blake2b(call_id.encode(), digest_size=8, key=secret).digest(), "big", signed=True)


def block_of(place: int) -> int:
    """Return the block that a place is in."""
    return place >> BITS


def places_of(block: int) -> tuple[int, int]:
    """Return the first and the last place of a block."""
    return block << BITS, (block + 1 << BITS) - 1


def versions_of(blocks: list[int]) -> tuple[int, int]:
    """Return the first and the last version whose places are in some blocks, which are in order."""
    return places_of(blocks[0])[0] // PLACES, places_of(blocks[-1])[1] // PLACES


def version_of(row: SpanRow) -> int:
    """Return the version of the event that placed the message of a span."""
    return row.place // PLACES if row.version is None else row.version


def source_of(row: SpanRow) -> int:
    """Return the version of the event whose text a span shows."""
    return version_of(row) if row.source is None else row.source


def by_time(row: SpanRow) -> tuple[int, int]:
    return row.since, row.place


def by_place(row: SpanRow) -> int:
    return row.place
