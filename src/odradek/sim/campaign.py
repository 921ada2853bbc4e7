"""Runs a seed with given options, and returns its result. `odradek simulate` uses it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from odradek.sim.cluster import NODES, ClusterScenario
from odradek.sim.scenario import Outcome, Scenario, simulate
from odradek.sim.story import story

KINDS = tuple(dict.fromkeys((*Scenario.faults, *ClusterScenario.faults)))
"""All kinds of faults."""


@dataclass(frozen=True, slots=True)
class Options:
    """What happens in the runs. `faults` is empty for the usual kinds of faults."""

    nodes: int = NODES
    faults: tuple[str, ...] = ()
    is_repeated: bool = True
    """Whether each run is repeated, to show that a seed gives one history."""

    def chosen(self) -> Sequence[str]:
        """Return the kinds of faults that occur in the runs."""
        return self.faults or (Scenario if self.nodes == 1 else ClusterScenario).faults

    def kinds(self) -> Sequence[str]:
        """Return the kinds of faults that can occur with this number of nodes."""
        kind = Scenario if self.nodes == 1 else ClusterScenario
        return (*kind.faults, *kind.rare_faults)


@dataclass(frozen=True, slots=True)
class Run:
    """The result of a seed."""

    seed: int
    violations: tuple[str, ...]
    counts: Mapping[str, int]
    """The numbers of events."""
    story: tuple[str, ...]
    """The shortened history, if there are violations."""


def run(seed: int, options: Options) -> Run:
    """Run a seed."""
    outcome = _simulate(seed, options)
    violations = list(outcome.violations)
    if options.is_repeated:
        again = _simulate(seed, options)
        if again.lines != outcome.lines:
            pairs = enumerate(zip(outcome.lines, again.lines, strict=False))
            place = next((at for at, (one, other) in pairs if one != other), -1)
            violations.append(f"the second history differs from the first in line {place}")
    told = story(outcome.lines, violations) if violations else []
    return Run(seed, tuple(violations), outcome.counts, tuple(told))


def _simulate(seed: int, options: Options) -> Outcome:
    faults = options.faults or None
    if options.nodes == 1:
        return simulate(seed, partial(Scenario, faults=faults))
    return simulate(seed, partial(ClusterScenario, faults=faults, nodes=options.nodes))
