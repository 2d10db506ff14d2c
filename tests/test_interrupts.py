"""Whatever interrupts, wherever: nothing that was acknowledged is lost, nothing is half-written, nothing stays locked.

`INTERRUPTS=10000 pytest tests/test_interrupts.py` interrupts so often in each of the ways.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from interrupts import ByError, ByInstruction, BySignal, Rounds

ROUNDS = int(os.environ.get("INTERRUPTS", "0"))


# What is raised while Python frees a generator goes no further.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize(("interrupts", "rounds"), [(BySignal, 1000), (ByInstruction, 500), (ByError, 500)])
def test_interrupted_anywhere(
    tmp_path: Path, interrupts: type[BySignal] | type[ByInstruction] | type[ByError], rounds: int
) -> None:
    """After an interrupt anywhere, another connection reads what was acknowledged, whole, and can write at once."""
    world = Rounds(tmp_path / "s.db", 7, interrupts)
    world.run(ROUNDS or rounds)
    assert world.interrupted > (ROUNDS or rounds) / 4
