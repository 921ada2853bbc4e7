"""Measures the memory of 1 000 idle connections. Each connection has sent one request before."""

from __future__ import annotations

import contextlib
import resource
import time

from compat.lab.wire_client import WireClient

from bench.environment import Contender, Environment
from bench.figures import OURS, THEIRS, Figure, Quantity

CONNECTIONS = 1000
SETTLE_SECONDS = 2.0
MEMORY = Quantity("memory of 1 000 idle connections", "MB")


def run(environment: Environment) -> list[Figure]:
    """Measure a fresh process of each broker."""
    _allow_many_files()
    figure = Figure("idle_connections", MEMORY)
    for role in (OURS, THEIRS):
        with environment.fresh(role) as contender:
            figure.values[role] = [_cost(contender)]
            text = f"{figure.values[role][0]:.1f} MB"
            print(f"{'idle_connections':16} {contender.broker.name}: {text}", flush=True)
    return [figure]


def _cost(contender: Contender) -> float:
    broker = contender.broker
    with contextlib.ExitStack() as stack:
        for _ in range(10):  # the memory that the first connections allocate is not counted
            stack.enter_context(WireClient(broker.port)).metadata()
        time.sleep(SETTLE_SECONDS)
        before = broker.rss_bytes()
        for _ in range(CONNECTIONS):
            stack.enter_context(WireClient(broker.port)).metadata()
        time.sleep(SETTLE_SECONDS)
        return (broker.rss_bytes() - before) / 1e6


def _allow_many_files() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = CONNECTIONS * 2
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(wanted, hard), hard))
