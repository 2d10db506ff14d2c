"""The `turnlog` command (DESIGN section 8)."""

from . import audit, compact, query, read, trace, write
from .common import main

__all__ = ["audit", "compact", "main", "query", "read", "trace", "write"]
