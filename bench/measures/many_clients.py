"""Measures 100 producers and 100 consumers at the same time. Each pair has a separate partition."""

from __future__ import annotations

from collections.abc import Mapping

from bench.environment import Contender, CpuMeter, Environment
from bench.figures import Figure, Quantity

PAIRS = 100
RECORDS = 1000
SIZE = 1000
PROPERTIES = {"acks": "all", "linger.ms": "5", "buffer.memory": str(4 << 20)}
SECONDS = Quantity("100 producers, 100 consumers", "s")
CPU = Quantity("CPU", "s")


def run(environment: Environment) -> list[Figure]:
    """Run the rounds. The client reports an error if a record does not arrive."""
    records = environment.scaled(RECORDS)

    def one_round(contender: Contender) -> Mapping[str, float]:
        with environment.topic(contender, PAIRS) as topic:
            meter = CpuMeter(contender.broker)
            done = environment.load(
                contender,
                "fleet",
                topic=topic,
                pairs=PAIRS,
                records=records,
                size=SIZE,
                properties=PROPERTIES,
            )
            return {SECONDS.name: done["seconds"], CPU.name: meter.seconds()}

    return environment.play("many_clients", [SECONDS, CPU], one_round)
