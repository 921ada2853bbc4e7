"""Finds the Pythons of this machine: `python3.N` in the directories of PATH and in those of pyenv.

`python -m compat.lab.pythons` prints the path of the newest one, if it is 3.12 or newer; otherwise it
prints nothing. It runs before there is an environment, so it needs the standard library only.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import NamedTuple

LATEST = 30
"""No minor version of Python is higher."""
NEWER_THAN_OLDEST = 12
"""The minor version after the oldest that Odradek supports."""
QUESTION = (
    "import ensurepip, platform, ssl, sys, venv; assert sys.version_info.releaselevel == 'final'; "
    "print(platform.python_version())"
)


class Python(NamedTuple):
    """A command that starts, is a final release, and can create environments."""

    path: Path
    version: str
    """Such as 3.12.1."""


def find(minor: int) -> Python | None:
    """Return Python 3.`minor`; None if this machine has none that works."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    directories = [
        *(Path(each) for each in os.environ.get("PATH", "").split(os.pathsep) if each),
        *sorted(pyenv.glob("3.*/bin"), reverse=True),
    ]
    for directory in directories:
        path = directory / f"python3.{minor}"
        version = _version(path) if path.exists() else None
        if version is not None:
            return Python(path, version)
    return None


def _version(path: Path) -> str | None:
    try:
        done = subprocess.run([path, "-c", QUESTION], capture_output=True, text=True, check=False)
    except OSError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def main() -> None:
    """Print the path of the newest Python."""
    for minor in range(LATEST, NEWER_THAN_OLDEST - 1, -1):
        found = find(minor)
        if found is not None:
            print(found.path)
            return


if __name__ == "__main__":
    main()
