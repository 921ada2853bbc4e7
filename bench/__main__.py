"""`python -m bench`: side by side with Apache Kafka."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from compat.lab.broker import BrokerFailed
from compat.lab.toolchain import Missing

from bench.environment import BROKERS, Environment
from bench.figures import Figure, table
from bench.machine import commit, facts
from bench.measures import MEASURES
from bench.warm_up import warm_up

RESULTS = Path(__file__).parent / "results"
LOCAL = RESULTS / "local"
"""Of quick runs and trials; not kept with the code."""


def main(words: Sequence[str] | None = None) -> int:
    """Run the chosen benches; 0 when no limit was missed, 1 when one was, 2 without brokers."""
    options = _parser().parse_args(words)
    machine = facts()
    try:
        with Environment(
            ours=options.ours, rounds=options.rounds, quick=options.quick
        ) as environment:
            setup = environment.described()
            warm_up(environment)
            figures = [figure for name in options.benches for figure in MEASURES[name](environment)]
            names = environment.names
    except (BrokerFailed, Missing) as reason:
        print(f"cannot run: {reason}", file=sys.stderr)
        return 2
    print(f"\n{table(figures, names)}")
    trial = options.quick or options.ours != "odradek"
    path = options.output or _result_path(str(machine["time"]), trial=trial)
    _store(path, [machine, setup, *(figure.as_json() for figure in figures)])
    print(f"\nstored in {path.name}")
    return 1 if any(_missed(figure) for figure in figures) else 0


def _missed(figure: Figure) -> bool:
    return figure.verdict == "MISSED"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m bench",
        description="Our node and Apache Kafka in turns, under the same load.",
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
    parser.add_argument("--output", type=Path, metavar="FILE", help="where to store the result")
    return parser


def _result_path(time: str, *, trial: bool) -> Path:
    stamp = time[:16].replace(":", "").replace("-", "").replace("T", "-")
    directory = LOCAL if trial else RESULTS
    return directory / f"{stamp}-{commit().rstrip('+')}.jsonl"


def _store(path: Path, lines: Sequence[dict[str, object]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
    path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
