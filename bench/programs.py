"""What the programs beside `python -m bench` share: options, one environment, and exit codes.

Each program measures both brokers in an `Environment` of its own: `bench.isolation`, `bench.quotas`
and `bench.tls`. The exit code is 0 if all limits are kept, 1 if a limit is missed, and 2 if a broker
cannot run.
"""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NoReturn

from compat.lab.broker import BrokerFailed
from compat.lab.toolchain import Missing

from bench.build import add_mode
from bench.environment import Environment
from bench.figures import Figure
from bench.machine import facts
from bench.results import conclude
from bench.warm_up import warm_up

CANNOT_RUN = 2


def add_common_options(parser: argparse.ArgumentParser, rounds: int) -> None:
    """Add the options that all programs have. `rounds` is the default of `--rounds`."""
    parser.add_argument(
        "--rounds", type=int, default=rounds, help=f"measured rounds (default: {rounds})"
    )
    add_mode(parser)
    parser.add_argument("--output", type=Path, metavar="FILE", help="where to store the result")


def parse_options(
    bench: str, description: str | None, rounds: int, quick: str = "a tenth of the work"
) -> argparse.Namespace:
    """Parse the options of a program. `quick` says what `--quick` does."""
    parser = argparse.ArgumentParser(prog=f"python -m bench.{bench}", description=description)
    parser.add_argument("--quick", action="store_true", help=f"{quick}; to try it out")
    add_common_options(parser, rounds)
    return parser.parse_args()


def compare(
    measure: Callable[[Environment], list[Figure]],
    options: argparse.Namespace,
    facts_of_setup: Mapping[str, object] | None = None,
    **environment: Any,
) -> int:
    """Warm up both brokers, measure them, store the result, and return the exit code.

    `environment` are further arguments of `Environment`.
    """
    machine = facts()
    try:
        with Environment(
            ours="odradek",
            rounds=options.rounds,
            quick=options.quick,
            mode=options.mode,
            **environment,
        ) as running:
            setup = {**running.described(), **(facts_of_setup or {})}
            warm_up(running)
            figures = measure(running)
            names = running.names
    except (BrokerFailed, Missing) as reason:
        print(f"cannot run: {reason}", file=sys.stderr)
        return CANNOT_RUN
    return conclude(figures, names, machine, setup, is_trial=options.quick, output=options.output)


def run(main: Callable[[], int]) -> NoReturn:
    """Call the main function of a program, and exit. SIGTERM ends the brokers, too, as Ctrl-C does."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    sys.exit(main())
