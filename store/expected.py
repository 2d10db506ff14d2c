"""What an append may expect of its conversation (DESIGN section 3)."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias


class Expected(Enum):
    """`ANY` state; `NONE_YET`: the conversation does not exist; `MUST_EXIST`."""

    ANY = "any version"
    NONE_YET = "no conversation yet"
    MUST_EXIST = "an existing conversation"

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True)
class Unchanged:
    """No event of these `types` in this `scope`, or in all scopes at once, after version `since`."""

    since: int
    types: Collection[str]
    scope: str = "chat"

    def is_sound(self) -> bool:
        """Whether the fields are what they should be: a version, names of types, and a scope."""
        named = not isinstance(self.types, str) and all(isinstance(each, str) for each in self.types)
        since = isinstance(self.since, int) and not isinstance(self.since, bool) and self.since >= 0
        return named and since and isinstance(self.scope, str)

    def __str__(self) -> str:
        return f"no {', '.join(sorted(self.types))} in {self.scope} after version {self.since}"


ANY = Expected.ANY
NONE_YET = Expected.NONE_YET
MUST_EXIST = Expected.MUST_EXIST

ExpectedVersion: TypeAlias = Expected | Unchanged | int
