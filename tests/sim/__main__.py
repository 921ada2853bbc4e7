"""`python -m tests.sim [--cluster | --long-cluster] [COUNT] [FIRST]`: runs COUNT seeds.

This is `odradek simulate`. The runs have one node, each twice. With --cluster they have three nodes and
are short, and the seeds that are divisible by ten are run twice. With --long-cluster they have three
nodes, and each is run twice. Without arguments, 200 seeds of one node are run and then 300 seeds of
a cluster. The default of FIRST is computed from the seed of the run (`tests.support.run_seed`).
"""

from __future__ import annotations

import sys

from tests.support.run_seed import seeds

from odradek.cli import main

COUNT, CLUSTER_COUNT = 200, 300
KINDS = {
    "--cluster": ["--nodes", "3", "--short", "--repeat-every", "10"],
    "--long-cluster": ["--nodes", "3"],
}


def commands(words: list[str]) -> list[list[str]]:
    """Return the arguments of `odradek`, for each of its runs."""
    if not words:
        return [*commands([str(COUNT)]), *commands(["--cluster", str(CLUSTER_COUNT)])]
    kinds = [each for each in words if each in KINDS]
    numbers = [each for each in words if each not in KINDS]
    options = KINDS[kinds[0]] if kinds else ["--nodes", "1"]
    count = int(numbers[0]) if numbers else CLUSTER_COUNT if kinds else COUNT
    first = int(numbers[1]) if len(numbers) > 1 else seeds(count).start
    return [["simulate", "--seeds", str(count), "--first", str(first), *options]]


def run(words: list[str]) -> int:
    """Run the seeds. Return 0 if all hold."""
    return max(main.run(each) for each in commands(words))


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
