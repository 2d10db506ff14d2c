"""Files that commands write."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable
from pathlib import Path

from turnlog.store import Store, StoreUnusable


def write_file(store: Store, target: str, lines: Iterable[str]) -> int:
    """Write lines to a file, all or nothing; how many they were.

    :raises StoreUnusable: the file is the store's own.
    """
    path = Path(target)
    for own in ("", "-wal", "-shm"):
        if Path(store.path + own).exists() and path.exists() and path.samefile(store.path + own):
            raise StoreUnusable(target, "is the store itself, and is not written over")
    count = 0
    with tempfile.NamedTemporaryFile(
        "w", encoding="utf-8", newline="\n", dir=path.resolve().parent, prefix=path.name, delete=False
    ) as file:
        try:
            for line in lines:
                file.write(line + "\n")
                count += 1
            file.close()
            os.replace(file.name, path.resolve())
        except BaseException:
            os.unlink(file.name)
            raise
    return count
