"""The `turnlog` command (DESIGN section 8)."""

from . import read, write
from .common import main

__all__ = ["main", "read", "write"]
