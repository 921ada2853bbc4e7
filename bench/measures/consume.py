"""Measures the broker's CPU seconds per consumed gigabyte, with fetches of 1 MB."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping

from bench.environment import Contender, CpuMeter, Environment
from bench.figures import Figure, Quantity
from bench.measures.producing import PROPERTIES as PRODUCER_PROPERTIES

BYTES = 1_000_000_000
SIZE = 1000
PROPERTIES = {"max.partition.fetch.bytes": str(1 << 20), "max.poll.records": "5000"}
CPU = Quantity("CPU", "s/GB", 0.7)
SPEED = Quantity("throughput", "MB/s", higher_is_better=True)


def run(environment: Environment) -> list[Figure]:
    """Run the experiment, and return its figures."""
    records = environment.scaled(BYTES) // SIZE
    with contextlib.ExitStack() as stack:
        topics = {}
        for contender in environment.contenders:
            topic = stack.enter_context(environment.topic(contender))
            environment.load(
                contender,
                "produce",
                topic=topic,
                records=records,
                size=SIZE,
                properties=PRODUCER_PROPERTIES,
            )
            topics[contender.role] = topic

        def one_round(contender: Contender) -> Mapping[str, float]:
            meter = CpuMeter(contender.broker)
            done = environment.load(
                contender,
                "consume",
                topic=topics[contender.role],
                records=records,
                properties=PROPERTIES,
            )
            spent = meter.seconds()
            speed = done["bytes"] / done["seconds"] / 1e6
            return {CPU.name: spent / done["bytes"] * 1e9, SPEED.name: speed}

        return environment.play("consume", [CPU, SPEED], one_round, warm_ups=2)
