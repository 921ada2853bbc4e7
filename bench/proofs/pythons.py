"""`python -m bench.proofs.pythons 3.N`: the tests and the demo on one Python of this machine.

This makes an environment of its own in `build/pythons`, compiles the wheel, runs all tests of `make test` on
it, and the demo.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from compat.lab.pythons import find
from compat.lab.toolchain import ROOT

_OF_MAKE = ("MAKEFLAGS", "MAKEOVERRIDES", "MFLAGS", "MAKELEVEL", "ARGS")


def main() -> int:
    """Return 0 if everything passed."""
    minor = int(sys.argv[1].removeprefix("3."))
    found = find(minor)
    if found is None:
        print(f"Python 3.{minor} is not on this machine.", flush=True)
        return 1
    passed = passes(found.path, minor)
    outcome = "passed" if passed else "failed"
    print(f"environment, wheel, tests/ and demo on Python {found.version}: {outcome}", flush=True)
    return 0 if passed else 1


def passes(path: Path, minor: int) -> bool:
    """Return whether the environment, the wheel, the tests and the demo are in order."""
    environment = f"VENV=build/pythons/3.{minor}"
    # `make proofs ARGS=pythons` hands its own ARGS down, which would be taken for the tests to run.
    variables = {name: value for name, value in os.environ.items() if name not in _OF_MAKE}
    for target in ("test", "demo"):
        command = ["make", target, f"PYTHON={path}", environment, *sys.argv[2:]]
        print(" ".join(map(str, command)), flush=True)
        if subprocess.run(command, cwd=ROOT, env=variables, check=False).returncode != 0:
            return False
    return True


if __name__ == "__main__":
    sys.exit(main())
