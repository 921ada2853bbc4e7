"""Measures the broker's CPU time for small Produce requests.

Each request has one record of 100 bytes and acks=all. Up to five requests are in flight.
"""

from __future__ import annotations

from collections.abc import Mapping

from bench.environment import Contender, CpuMeter, Environment
from bench.figures import Figure, Quantity

REQUESTS = 100_000
SIZE = 100
PROPERTIES = {"acks": "all", "batch.size": "0", "linger.ms": "0"}
CPU = Quantity("CPU per 100 000 requests", "s", 0.45)
RATE = Quantity("requests", "1/s", higher_is_better=True)


def run(environment: Environment) -> list[Figure]:
    """Run the experiment, and return its figures."""
    requests = environment.scaled(REQUESTS)

    def one_round(contender: Contender) -> Mapping[str, float]:
        with environment.topic(contender) as topic:
            meter = CpuMeter(contender.broker)
            done = environment.load(
                contender,
                "produce",
                topic=topic,
                records=requests,
                size=SIZE,
                properties=PROPERTIES,
            )
            spent = meter.seconds()
        return {CPU.name: spent / requests * 100_000, RATE.name: requests / done["seconds"]}

    return environment.play("requests", [CPU, RATE], one_round)
