"""What `Database.transaction` returns."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .database import Database


class Transaction:
    """A write transaction: `with` begins it, and ends it or, after an error, undoes it."""

    __slots__ = ("_database", "_nested")

    def __init__(self, database: Database) -> None:
        self._database = database
        self._nested = False

    def __enter__(self) -> None:
        self._nested = self._database.begin()

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if error is None:
            self._database.commit(self._nested)
        else:
            self._database.roll_back(self._nested, error)
