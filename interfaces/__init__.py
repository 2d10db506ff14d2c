"""The front door of turnlog: an event-sourced store for conversations with language models.

`turnlog.store` holds the log, `turnlog.projections` what can be read from it. Their public names can be imported from
here too; each is loaded when it is first used, so that importing one part does not load the others.
"""

from __future__ import annotations

from importlib import import_module, metadata
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .projections import *  # noqa: F403
    from .store import *  # noqa: F403

_ROOMS = ("turnlog.store", "turnlog.projections")


def __getattr__(name: str) -> Any:
    """Return a public name of the store or of the projections.

    :raises AttributeError: neither has it.
    """
    if name == "__version__":
        return metadata.version("turnlog")
    if not name.startswith("_"):
        for room in map(import_module, _ROOMS):
            if name in room.__all__:
                return getattr(room, name)
    raise AttributeError(f"module 'turnlog' has no attribute {name!r}")


def __dir__() -> list[str]:
    """Return every name that can be imported from here."""
    return sorted({"__version__", *(name for room in map(import_module, _ROOMS) for name in room.__all__)})
