"""The costs of handoffs that are kept beside a timeline, and go with it: numbers that are derived from texts.

The length of a text can be told from them. So a redaction deletes them, in its own transaction, and they are kept only
as long as nothing more has been redacted than they were counted for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

from .database import Database
from .derived_tables import forget_damaged, is_sound
from .events import Mode
from .migrations import statements_of
from .streams import Stream

_READ_WITH = ("costs", "timelines")


class CostRow(NamedTuple):
    """What a transfer costs in a mode on a wire: messages and tokens of the request after it, and what that keeps.

    `point` is the cache point up to which both requests agree, as JSON; `changed` and `by` are the section in which
    they no longer do, and the event that broke the prefix.
    """

    version: int
    mode: Mode
    wire: str
    messages: int
    tokens: int
    kept: int
    lost: int
    point: str | None
    changed: Literal["tools", "system", "messages"] | None
    by: int | None


_COLUMNS = ", ".join(CostRow._fields)


class Costs:
    """The kept costs of a store's file; `revision` is that of what counted them."""

    def __init__(self, db: Database, revision: int) -> None:
        self._db = db
        self._revision = revision

    def of(self, line: int, version: int, mode: str) -> list[CostRow]:
        """Return what is kept of a transfer of a timeline in a mode, by wire."""
        rows = self._db.rows(
            f"SELECT {_COLUMNS} FROM main.costs WHERE line = ? AND version = ? AND mode = ? AND revision = ?",
            (line, version, mode, self._revision),
        )
        return list(map(CostRow._make, rows))

    def of_timeline(self, line: int) -> list[CostRow]:
        """Return all that is kept of a timeline, by version and mode."""
        rows = self._db.rows(
            f"SELECT {_COLUMNS} FROM main.costs WHERE line = ? AND revision = ? ORDER BY version, mode, wire",
            (line, self._revision),
        )
        return list(map(CostRow._make, rows))

    def keep(self, line: int, rows: Sequence[CostRow]) -> None:
        """Keep costs, inside a transaction."""
        marks = ", ".join("?" * len(CostRow._fields))
        values = f"{line}, {self._revision}, {marks}"
        self._db.write_many(f"INSERT OR REPLACE INTO main.costs (line, revision, {_COLUMNS}) VALUES ({values})", rows)


def purge_costs(db: Database, stream: Stream) -> None:
    """Delete the costs of the conversation that owns what is redacted, and of all that were forked from it.

    Inside the transaction of the redaction; what cannot be read is dropped.
    """
    db.derived.pop("costs", None)
    there = db.rows(f"SELECT name FROM main.sqlite_schema WHERE type = 'table' AND name IN {_READ_WITH}")
    if ("costs",) not in there:
        return
    if not is_sound(db, _READ_WITH):
        forget_damaged(db, ("costs",))
        for statement in statements_of({"costs"}):
            db.rows(statement)
    elif len(there) < len(_READ_WITH):
        db.rows("DELETE FROM main.costs")
    else:
        # Whatever is not known to be of another conversation.
        db.rows(
            "WITH RECURSIVE touched (key) AS (VALUES (?) UNION"
            " SELECT conversations.key FROM conversations JOIN touched ON conversations.parent = touched.key)"
            " DELETE FROM main.costs WHERE line NOT IN"
            " (SELECT line FROM main.timelines WHERE conversation NOT IN (SELECT key FROM touched))",
            (stream.key,),
        )
