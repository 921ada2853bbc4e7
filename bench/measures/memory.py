"""Measures the resident memory of the broker process, after the start and after load."""

from __future__ import annotations

import time

from bench.environment import Contender, Environment
from bench.figures import OURS, THEIRS, Figure, Quantity
from bench.measures.producing import PROPERTIES

SETTLE_SECONDS = 5.0
BYTES = 500_000_000
SIZE = 1000
IDLE = Quantity("idle", "MB", 0.2)
LOADED = Quantity("after producing and consuming 0.5 GB", "MB")


def run(environment: Environment) -> list[Figure]:
    """Measure a fresh process of each broker."""
    idle, loaded = Figure("memory", IDLE), Figure("memory", LOADED)
    for role in (OURS, THEIRS):
        with environment.fresh(role) as contender:
            time.sleep(SETTLE_SECONDS)
            idle.values[role] = [contender.broker.rss_bytes() / 1e6]
            _load(environment, contender)
            loaded.values[role] = [contender.broker.rss_bytes() / 1e6]
            text = f"{idle.values[role][0]:.0f} MB idle, {loaded.values[role][0]:.0f} MB loaded"
            print(f"{'memory':16} {contender.broker.name}: {text}", flush=True)
    return [idle, loaded]


def _load(environment: Environment, contender: Contender) -> None:
    records = environment.scaled(BYTES) // SIZE
    with environment.topic(contender, 4) as topic:
        arguments = {"topic": topic, "records": records}
        environment.load(contender, "produce", size=SIZE, properties=PROPERTIES, **arguments)
        environment.load(contender, "consume", **arguments)
