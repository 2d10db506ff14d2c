"""How hypothesis draws: anew wherever people run the tests, the same each time in CI, so that a run can be repeated."""

from __future__ import annotations

import os

from hypothesis import settings

settings.register_profile("ci", derandomize=True, database=None)
if os.environ.get("CI"):
    settings.load_profile("ci")
