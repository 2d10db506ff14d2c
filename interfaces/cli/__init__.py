"""The `turnlog` command (DESIGN section 8)."""

from . import audit, compact, forget, query, read, trace, write
from .common import main

__all__ = ["audit", "compact", "forget", "main", "query", "read", "trace", "write"]
