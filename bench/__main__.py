"""`python -m bench`: compares Odradek with Apache Kafka."""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from compat.lab.broker import BrokerFailed
from compat.lab.dialogue import Refused
from compat.lab.toolchain import Missing

from bench.build import add_mode
from bench.environment import BROKERS, OTHER_WORK_SECONDS, Environment
from bench.machine import facts
from bench.measures import MEASURES
from bench.results import conclude
from bench.warm_up import warm_up


def main(words: Sequence[str] | None = None) -> int:
    """Run the chosen experiments, and return the exit code.

    The code is 0 if all limits are kept, 1 if a limit is missed or an experiment ended early, and 2
    if the brokers cannot run.
    """
    options = _parser().parse_args(words)
    machine = facts()
    unfinished: list[str] = []
    try:
        with Environment(
            ours=options.ours,
            rounds=options.rounds,
            quick=options.quick,
            mode=options.mode,
            other_work_seconds=options.other_work_seconds,
        ) as environment:
            setup = environment.described()
            environment.watch_pauses()
            warm_up(environment)
            figures = []
            for name in options.benches:
                try:
                    figures += MEASURES[name](environment)
                except Refused as reason:  # The results of the other experiments are kept.
                    unfinished.append(name)
                    print(f"{name} ended early: {reason}", file=sys.stderr)
            names = environment.names
    except (BrokerFailed, Missing) as reason:
        print(f"cannot run: {reason}", file=sys.stderr)
        return 2
    trial = options.quick or options.ours != "odradek"
    code = conclude(figures, names, machine, setup, is_trial=trial, output=options.output)
    return 1 if unfinished else code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m bench",
        description="Compares Odradek with Apache Kafka under the same load.",
        epilog="example: python -m bench produce consume --rounds 7",
    )
    parser.add_argument(
        "benches", nargs="*", default=[*MEASURES], help=f"of {', '.join(MEASURES)} (default: all)"
    )
    parser.add_argument("--rounds", type=int, default=5, help="measured rounds (default: 5)")
    parser.add_argument("--quick", action="store_true", help="a tenth of the work; to try it out")
    parser.add_argument(
        "--ours", choices=BROKERS, default="odradek", help="`apache`: it against itself, the noise"
    )
    add_mode(parser)
    parser.add_argument(
        "--other-work-seconds",
        type=int,
        default=OTHER_WORK_SECONDS,
        metavar="N",
        help="of `raw_fetch`: how long other work lasts (default: 60; an hour is 3600)",
    )
    parser.add_argument("--output", type=Path, metavar="FILE", help="where to store the result")
    return parser


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # remove the brokers' directories
    sys.exit(main())
