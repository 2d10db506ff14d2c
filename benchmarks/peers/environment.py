"""The peers' virtual environment: made once in the user's cache folder, anew when what they require changes."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

REQUIREMENTS = Path(__file__).with_name("requirements.txt")
CONTESTANTS = (
    ("openai_agents",),
    ("eventsourcing_library",),
    ("eventsourcing_library", "rows"),
    ("langgraph_saver",),
    ("adk",),
)


def python() -> Path:
    """The Python of the environment, which is made if it is not there."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    wanted = hashlib.sha256(REQUIREMENTS.read_bytes() + sys.version.encode()).hexdigest()[:12]
    folder = cache / "turnlog-benchmarks" / f"peers-{wanted}"
    found = folder / ("Scripts" if os.name == "nt" else "bin") / "python"
    complete = folder / "complete"
    if not complete.exists():
        shutil.rmtree(folder, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        install = [
            str(found),
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            "-r",
            str(REQUIREMENTS),
        ]
        subprocess.run(install, check=True)
        complete.touch()
    return found
