"""`python -m compat`: tests with unmodified Kafka clients."""

from __future__ import annotations

import argparse
import fnmatch
import sys
import time
from collections.abc import Callable, Sequence

from compat import access_tokens, authenticated
from compat.clients import CLIENTS, TOOLS
from compat.lab.apache_kafka import ApacheKafka
from compat.lab.broker import Broker, BrokerFailed
from compat.lab.odradek_node import OdradekNode
from compat.lab.toolchain import ROOT, Missing, RequiredMissing
from compat.runner import LOGS, SETTINGS, Run
from compat.scenarios import SCENARIOS

BROKERS: dict[str, type[Broker]] = {"odradek": OdradekNode, "apache": ApacheKafka}
ALL = (TOOLS, *(client.name for client in CLIENTS))


def main(words: Sequence[str] | None = None) -> int:
    """Run the suite; 0 when nothing failed, 1 when something did, 2 when it could not start."""
    options = _parser().parse_args(words)
    if options.list:
        _list()
        return 0
    started = time.monotonic()
    try:
        listeners = [authenticated.listener()]
        settings = {**SETTINGS, **access_tokens.settings()}
        settings["sasl.enabled.mechanisms"] += ",OAUTHBEARER"
        broker = BROKERS[options.against](settings=settings, listeners=listeners)
        with broker:
            run = Run(
                broker, clients=options.clients, wanted=_wanted(options.only), jobs=options.jobs
            )
            results = run.play()
            alive = broker.alive()
    except (BrokerFailed, Missing, RequiredMissing) as reason:
        print(f"cannot start {options.against}: {reason}", file=sys.stderr)
        return 2
    print(f"\n{results.table()}\n")
    print(f"{results.summary()}, in {time.monotonic() - started:.0f} s")
    if options.json is not None:
        with open(options.json, "w", encoding="utf-8") as file:
            file.write(results.as_json() + "\n")
    if not results.succeeded:
        print(f"what the drivers said is in {LOGS.relative_to(ROOT)}", file=sys.stderr)
    if not alive:
        print("the broker did not live to see the end", file=sys.stderr)
    return 0 if results.succeeded and alive else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m compat",
        description="Other people's clients and tools against a node, started for the purpose.",
        epilog="example: python -m compat --clients java,kafkajs --only 'codec*' --only '*group*'",
    )
    parser.add_argument(
        "--against", choices=BROKERS, default="odradek", help="which broker (default: odradek)"
    )
    parser.add_argument(
        "--clients", type=_clients, default=ALL, metavar="A,B", help=f"of {', '.join(ALL)}"
    )
    parser.add_argument(
        "--only", action="append", metavar="PATTERN", help="scenarios by shell pattern; repeatable"
    )
    parser.add_argument("--jobs", type=int, default=4, help="clients at the same time (default: 4)")
    parser.add_argument("--json", metavar="FILE", help="write the result there, too")
    parser.add_argument("--list", action="store_true", help="name the scenarios and end")
    return parser


def _clients(text: str) -> tuple[str, ...]:
    names = tuple(text.split(","))
    for name in names:
        if name not in ALL:
            raise argparse.ArgumentTypeError(f"no client {name}; there are {', '.join(ALL)}")
    return names


def _wanted(patterns: Sequence[str] | None) -> Callable[[str], bool]:
    if not patterns:
        return lambda name: True
    return lambda name: any(fnmatch.fnmatch(name, pattern) for pattern in patterns)


def _list() -> None:
    from compat.tools import TOOL_CHECKS

    described = [(each.name, each.description) for each in SCENARIOS]
    described += [(each.name, each.description) for each in TOOL_CHECKS]
    width = max(len(name) for name, _ in described)
    for name, description in described:
        print(f"{name:{width}}  {description}")


if __name__ == "__main__":
    sys.exit(main())
