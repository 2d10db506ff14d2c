"""The rows of timelines: spans and what is kept beside them, in the store's file or in memory.

A timeline is a projection of one scope of one conversation under one set of modes. Its rows are derived from the log,
and may be dropped at any time. They hold no text. Rows are added as events are applied, and never change but for their
end, so that whoever reads the view at a version sees the same whatever is applied meanwhile.
"""

from .rows import (
    BITS,
    FINAL,
    HIDES,
    INTERIM,
    NEVER,
    ORIGINS,
    OTHER,
    PLACES,
    ROLES,
    RULES_THAT_HIDE,
    SHOWS,
    TEXT,
    TEXT_ONLY,
    HidingRow,
    LineRow,
    SpanRow,
    TimelineKey,
    UseRow,
    form_of,
    hash_of,
    is_blank,
    version_of,
)
from .writing import Writing as Spans

__all__ = [
    "BITS",
    "FINAL",
    "HIDES",
    "INTERIM",
    "NEVER",
    "ORIGINS",
    "OTHER",
    "PLACES",
    "ROLES",
    "RULES_THAT_HIDE",
    "SHOWS",
    "TEXT",
    "TEXT_ONLY",
    "HidingRow",
    "LineRow",
    "SpanRow",
    "Spans",
    "TimelineKey",
    "UseRow",
    "form_of",
    "hash_of",
    "is_blank",
    "version_of",
]
