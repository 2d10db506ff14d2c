"""What the tests share: how hypothesis draws, and an empty store.

Examples are drawn anew wherever people run the tests, and the same each time in CI, so that a run can be repeated.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from hypothesis import settings

from turnlog.store import Store

settings.register_profile("ci", derandomize=True, database=None)
if os.environ.get("CI"):
    settings.load_profile("ci")


@pytest.fixture
def store() -> Iterator[Store]:
    """An empty store in memory."""
    with Store(":memory:") as store:
        yield store
