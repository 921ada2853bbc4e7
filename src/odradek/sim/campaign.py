"""Runs a seed with given options, and returns its result. `odradek simulate` uses it.

If a run fails, the same seed is run with fewer faults: with none, with only the first one, and so
on. The first of these runs that fails too has the shortest history.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from odradek.sim.cluster import NODES, ClusterScenario
from odradek.sim.scenario import LONG, SHORT, Outcome, Scenario, simulate
from odradek.sim.story import story

KINDS = tuple(dict.fromkeys((*Scenario.faults, *ClusterScenario.faults)))
"""All kinds of faults."""


@dataclass(frozen=True, slots=True)
class Options:
    """What happens in the runs. `faults` is empty for the usual kinds of faults."""

    nodes: int = NODES
    faults: tuple[str, ...] = ()
    repeat_every: int = 1
    """The seeds that are divisible by this number are run twice, to check that the histories are
    equal. With 0, no seed is run twice."""
    is_short: bool = False
    """Whether the runs have fewer faults, and less time between them."""
    faults_max: int | None = None
    """The greatest number of faults in a run; None for no limit."""

    def chosen(self) -> Sequence[str]:
        """Return the kinds of faults that occur in the runs."""
        return self.faults or (Scenario if self.nodes == 1 else ClusterScenario).faults

    def kinds(self) -> Sequence[str]:
        """Return the kinds of faults that can occur with this number of nodes."""
        kind = Scenario if self.nodes == 1 else ClusterScenario
        return (*kind.faults, *kind.rare_faults)

    def is_repeated(self, seed: int) -> bool:
        """Whether this seed is run twice."""
        return self.repeat_every > 0 and seed % self.repeat_every == 0


@dataclass(frozen=True, slots=True)
class Run:
    """The result of a seed."""

    seed: int
    violations: tuple[str, ...]
    counts: Mapping[str, int]
    """The numbers of events."""
    story: tuple[str, ...]
    """The shortened history, if there are violations."""
    faults_max: int | None = None
    """The number of faults that are enough for a violation; None if the run was not shortened."""
    was_repeated: bool = False


def run(seed: int, options: Options) -> Run:
    """Run a seed."""
    outcome = _simulate(seed, options)
    violations = list(outcome.violations)
    was_repeated = options.is_repeated(seed)
    if was_repeated:
        again = _simulate(seed, options)
        if again.lines != outcome.lines:
            pairs = enumerate(zip(outcome.lines, again.lines, strict=False))
            place = next((at for at, (one, other) in pairs if one != other), -1)
            violations.append(f"the second history differs from the first in line {place}")
    if not violations:
        return Run(seed, (), outcome.counts, (), None, was_repeated)
    shorter, faults_max = _shortened(seed, options, outcome)
    told = story(shorter.lines, shorter.violations or violations)
    found = shorter.violations if faults_max is not None else violations
    return Run(seed, tuple(found), outcome.counts, tuple(told), faults_max, was_repeated)


def _shortened(seed: int, options: Options, outcome: Outcome) -> tuple[Outcome, int | None]:
    """Return the run with the fewest faults that fails, and their number.

    The number is None if no run with fewer faults fails.
    """
    count = sum(count for what, count in outcome.counts.items() if what in _FAULTS)
    for faults_max in range(count if outcome.violations else 0):
        shorter = _simulate(seed, replace(options, faults_max=faults_max))
        if shorter.violations:
            return shorter, faults_max
    return outcome, options.faults_max


_FAULTS = frozenset(f"fault {kind}" for kind in (*KINDS, *ClusterScenario.rare_faults))
"""The counters of faults."""


def _simulate(seed: int, options: Options) -> Outcome:
    faults, limit = options.faults or None, options.faults_max
    pace = SHORT if options.is_short else LONG
    if options.nodes == 1:
        return simulate(seed, partial(Scenario, faults=faults, pace=pace, faults_max=limit))
    return simulate(
        seed,
        partial(ClusterScenario, faults=faults, nodes=options.nodes, pace=pace, faults_max=limit),
    )
