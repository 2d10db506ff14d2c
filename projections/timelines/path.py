"""Rule 1: the path of a scope, as rewinds leave it."""

from __future__ import annotations

from bisect import bisect_right

END = 2**62
Range = tuple[int, int]  # The first and the last version of what is on a path.


class Path:
    """The path of one scope, as ranges of versions: what no rewind has abandoned, now or after any version."""

    def __init__(self) -> None:
        self._rewinds: list[tuple[int, int]] = []
        self.ranges: list[Range] = [(1, END)]

    def rewind(self, version: int, to: int) -> int:
        """Put the path back to what it was at `to`, and return the last version up to which it is as it was before."""
        before = self.ranges
        kept = self.at(to)
        self._rewinds.append((version, to))
        self.ranges = [*kept, (version, END)]
        return _common(before, self.ranges, version)

    def at(self, version: int) -> list[Range]:
        """Return the ranges that were on the path after `version`, in order."""
        found: list[Range] = []
        while version > 0:
            number = bisect_right(self._rewinds, (version, END)) - 1
            if number < 0:
                found.append((1, version))
                break
            rewound, to = self._rewinds[number]
            found.append((rewound, version))
            version = to
        return found[::-1]

    def is_rewind(self, version: int) -> bool:
        """Return whether an event is a rewind of this scope."""
        number = bisect_right(self._rewinds, (version, END)) - 1
        return number >= 0 and self._rewinds[number][0] == version

    def has(self, version: int) -> bool:
        """Return whether an event is on the path now."""
        return is_in(self.ranges, version)


def is_in(ranges: list[Range], version: int) -> bool:
    """Return whether ranges in order have a version."""
    number = bisect_right(ranges, (version, END)) - 1
    return number >= 0 and ranges[number][1] >= version


def _common(one: list[Range], other: list[Range], before: int) -> int:
    """Return the last version up to which two paths have the same, and which is below `before`."""
    for (first, last), (first_, last_) in zip(one, other, strict=False):
        if first != first_:
            return min(first, first_) - 1
        if last != last_:
            return min(last, last_, before - 1)
    return before - 1
