"""`python -m bench.proofs.pythons`: the tests and the demo on every Python of this machine, from 3.11 on.

For each Python this makes an environment of its own in `build/pythons`, compiles the wheel, runs all tests
of `make test` on it, and the demo. `python3.N` is looked for in the directories of PATH and in those of
pyenv.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from compat.lab.toolchain import ROOT

OLDEST, LATEST = 11, 30
QUESTION = (
    "import ensurepip, platform, ssl, sys, venv; assert sys.version_info.releaselevel == 'final'; "
    "print(platform.python_version())"
)


def main() -> int:
    """Return 0 if everything passed on each Python."""
    outcomes = {}
    for minor in range(OLDEST, LATEST + 1):
        found = find(minor)
        if found is not None:
            path, version = found
            outcomes[version] = passes(path, minor)
    for version, passed in outcomes.items():
        print(f"tests/ on Python {version}: {'passed' if passed else 'failed'}", flush=True)
    print(f"{sum(outcomes.values())} of {len(outcomes)} Pythons")
    return 0 if outcomes and all(outcomes.values()) else 1


def find(minor: int) -> tuple[Path, str] | None:
    """Return the path and the version of Python 3.`minor`; None if this machine has none that works."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    directories = [
        *(Path(each) for each in os.environ.get("PATH", "").split(os.pathsep) if each),
        *sorted(pyenv.glob("3.*/bin"), reverse=True),
    ]
    for directory in directories:
        path = directory / f"python3.{minor}"
        if path.exists():
            done = subprocess.run(
                [path, "-c", QUESTION], capture_output=True, text=True, check=False
            )
            if done.returncode == 0:
                return path, done.stdout.strip()
    return None


def passes(path: Path, minor: int) -> bool:
    """Return whether the environment, the wheel, the tests and the demo are in order."""
    environment = f"VENV=build/pythons/3.{minor}"
    for target in ("test", "demo"):
        command = ["make", target, f"PYTHON={path}", environment, *sys.argv[1:]]
        print(" ".join(map(str, command)), flush=True)
        if subprocess.run(command, cwd=ROOT, check=False).returncode != 0:
            return False
    return True


if __name__ == "__main__":
    sys.exit(main())
