"""What an append may expect of its conversation (DESIGN section 3)."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from .arguments import text, texts, whole_number
from .errors import InvalidArgument


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
        try:
            whole_number("since", self.since, 0)
            texts("types", self.types)
            text("scope", self.scope)
        except InvalidArgument:
            return False
        return True

    def __str__(self) -> str:
        return f"no {', '.join(sorted(map(str, self.types)))} in {self.scope} after version {self.since}"


ANY = Expected.ANY
NONE_YET = Expected.NONE_YET
MUST_EXIST = Expected.MUST_EXIST

ExpectedVersion: TypeAlias = Expected | Unchanged | int
