"""`python -m bench.proofs.pythons`: the tests and the demo on every Python of this machine, from 3.11 on.

For each Python this makes an environment of its own in `build/pythons`, compiles the wheel, runs all tests
of `make test` on it, and the demo.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from compat.lab.pythons import LATEST, find
from compat.lab.toolchain import ROOT

OLDEST = 11

_OF_MAKE = ("MAKEFLAGS", "MAKEOVERRIDES", "MFLAGS", "MAKELEVEL", "ARGS")


def main() -> int:
    """Return 0 if everything passed on each Python."""
    outcomes = {}
    for minor in range(OLDEST, LATEST + 1):
        found = find(minor)
        if found is not None:
            outcomes[found.version] = passes(found.path, minor)
    for version, passed in outcomes.items():
        print(f"tests/ on Python {version}: {'passed' if passed else 'failed'}", flush=True)
    print(f"{sum(outcomes.values())} of {len(outcomes)} Pythons")
    return 0 if outcomes and all(outcomes.values()) else 1


def passes(path: Path, minor: int) -> bool:
    """Return whether the environment, the wheel, the tests and the demo are in order."""
    environment = f"VENV=build/pythons/3.{minor}"
    # `make proofs ARGS=pythons` hands its own ARGS down, which would be taken for the tests to run.
    variables = {name: value for name, value in os.environ.items() if name not in _OF_MAKE}
    for target in ("test", "demo"):
        command = ["make", target, f"PYTHON={path}", environment, *sys.argv[1:]]
        print(" ".join(map(str, command)), flush=True)
        if subprocess.run(command, cwd=ROOT, env=variables, check=False).returncode != 0:
            return False
    return True


if __name__ == "__main__":
    sys.exit(main())
