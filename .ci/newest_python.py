"""Prints the path of the newest Python of this machine, if it is 3.12 or newer; prints nothing otherwise.

Looks for `python3.N` in the directories of PATH and in those of pyenv. A command that does not start, or that
cannot create environments, is not considered.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

OLDEST, LATEST = 12, 30
QUESTION = "import ensurepip, ssl, sys, venv; assert sys.version_info.releaselevel == 'final'"


def main() -> None:
    """Print the path."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    directories = [
        *(Path(each) for each in os.environ.get("PATH", "").split(os.pathsep) if each),
        *sorted(pyenv.glob("3.*/bin"), reverse=True),
    ]
    for minor in range(LATEST, OLDEST - 1, -1):
        for directory in directories:
            found = directory / f"python3.{minor}"
            if found.exists() and works(found):
                print(found)
                return


def works(python: Path) -> bool:
    """Whether the command starts and can create environments."""
    try:
        done = subprocess.run([python, "-c", QUESTION], capture_output=True, check=False)
    except OSError:
        return False
    return done.returncode == 0


if __name__ == "__main__":
    main()
