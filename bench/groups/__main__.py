"""`python -m bench.groups`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from compat.lab.broker import BrokerFailed
from compat.lab.toolchain import Missing

import bench.groups
from bench.build import add_mode
from bench.environment import Environment
from bench.figures import OURS, THEIRS, Figure
from bench.groups import commits, restart, settle
from bench.groups.trial import brokers
from bench.machine import facts
from bench.results import conclude

EXPERIMENTS: dict[str, Callable[[Environment], list[Figure]]] = {
    "settle": settle.run,
    "commits": commits.run,
    "restart": restart.run,
}


def main(words: Sequence[str] | None = None) -> int:
    """Run the experiments, and return the exit code.

    The code is 0 if all limits are kept, 1 if a limit is missed, and 2 if a broker cannot run.
    """
    options = _parser().parse_args(words)
    machine = facts()
    figures: list[Figure] = []
    names: dict[str, str] = {}
    setup: dict[str, object] = {}
    roles = [OURS] if options.alone else [OURS, THEIRS]
    try:
        for name in options.experiments:
            with brokers(
                roles, rounds=options.rounds, quick=options.quick, mode=options.mode
            ) as environment:
                names = environment.names
                setup = environment.described()
                figures += EXPERIMENTS[name](environment)
    except (BrokerFailed, Missing) as reason:
        print(f"cannot run: {reason}", file=sys.stderr)
        return 2
    trial = options.quick or options.alone
    return conclude(figures, names, machine, setup, is_trial=trial, output=options.output)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m bench.groups",
        description=bench.groups.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "experiments",
        nargs="*",
        default=[*EXPERIMENTS],
        help=f"of {', '.join(EXPERIMENTS)} (default: all)",
    )
    parser.add_argument("--rounds", type=int, default=3, help="measured rounds (default: 3)")
    parser.add_argument("--quick", action="store_true", help="a tenth of the work; to try it out")
    parser.add_argument("--alone", action="store_true", help="without Apache Kafka; to try it out")
    add_mode(parser)
    parser.add_argument("--output", type=Path, metavar="FILE", help="where to store the result")
    return parser


if __name__ == "__main__":
    sys.exit(main())
