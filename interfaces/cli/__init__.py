"""The `turnlog` command (DESIGN section 8)."""

from . import audit, read, write
from .common import main

__all__ = ["audit", "main", "read", "write"]
