"""Run the README's programs and commands and compare what they print with what the README says."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PYTHON = re.compile(r"```python\n(.*?)```\n\n```text\n(.*?)```", re.DOTALL)
CONSOLE = re.compile(r"```console\n(.*?)```", re.DOTALL)


def check(what: str, printed: str, promised: str) -> bool:
    """Whether the README promises what was printed; says so if not."""
    if printed.strip() == promised.strip():
        return True
    print(f"README: {what}\n--- the README says\n{promised}\n--- it prints\n{printed}", file=sys.stderr)
    return False


def main() -> int:
    """The number of programs and commands that do not print what the README says."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    results = []
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "docs").symlink_to(ROOT / "docs")
        environment = os.environ | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}

        def run(command: list[str]) -> str:
            done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
            return done.stdout + done.stderr

        for program, promised in PYTHON.findall(text):
            results.append(check(program, run([sys.executable, "-c", program]), promised))
        for block in CONSOLE.findall(text):
            for step in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
                command, _, promised = step.partition("\n")
                results.append(check(command, run(shlex.split(command)), promised))
    print(f"README: {sum(results)} of {len(results)} programs and commands print what it says")
    return 0 if results and all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
