"""`python -m tests.sim.planted [NAME...]`: looks for planted bugs with short runs of a cluster.

For each bug the seeds 1, 2, ... are run until one fails as `planted_bugs.BUGS` says. A line tells the
first seed that fails, and its violation. The exit code is 1 if a bug is not found within its number
of seeds.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from typing import NamedTuple

import click
import pytest

from odradek.sim.cluster import ClusterScenario
from odradek.sim.scenario import SHORT, Outcome, simulate

from .planted_bugs import BUGS

WIDTH = 110


class Search(NamedTuple):
    """The result of the search for a bug. `seed` is 0 if it was not found."""

    name: str
    seed: int
    violation: str


def run(seed: int) -> Outcome:
    """Run a seed as `python -m tests.sim --cluster` does."""
    return simulate(seed, partial(ClusterScenario, pace=SHORT))


def search(name: str) -> Search:
    """Look for a bug."""
    bug = BUGS[name]
    others = []
    with pytest.MonkeyPatch.context() as patch:
        bug.plant(patch)
        for seed in range(1, bug.seeds + 1):
            violations = run(seed).violations
            found = [each for each in violations if bug.found in each]
            if found:
                return Search(name, seed, found[0])
            others += violations
    return Search(name, 0, f"not within {bug.seeds} seeds; others: {others[:2]}")


def main(arguments: Sequence[str]) -> int:
    """Look for the bugs that are named, or for all."""
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*", metavar="NAME", choices=[*BUGS, []])
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    options = parser.parse_args(arguments)
    names = options.names or list(BUGS)
    missed = []
    with ProcessPoolExecutor(options.processes) as pool:
        for each in pool.map(search, names):
            seed = f"seed {each.seed}" if each.seed else "MISSED"
            click.echo(f"{each.name:60} {seed:>8}: {each.violation[:WIDTH]}")
            if not each.seed:
                missed.append(each.name)
    click.echo(f"{len(names) - len(missed)} of {len(names)} planted bugs are found")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
