"""`python -m tests.sim [--cluster] [COUNT] [FIRST]`: runs COUNT seeds, each twice.

This is `odradek simulate`. With --cluster, the runs have three nodes, else one. The default of FIRST
is computed from the seed of the run (`tests.support.run_seed`).
"""

from __future__ import annotations

import sys

from tests.support.run_seed import seeds

from odradek.cli import main


def command(words: list[str]) -> list[str]:
    """Return the arguments of `odradek`."""
    numbers = [each for each in words if each != "--cluster"]
    count = int(numbers[0]) if numbers else 200
    first = int(numbers[1]) if len(numbers) > 1 else seeds(count).start
    nodes = 3 if "--cluster" in words else 1
    return ["simulate", "--seeds", str(count), "--first", str(first), "--nodes", str(nodes)]


if __name__ == "__main__":
    sys.exit(main.run(command(sys.argv[1:])))
