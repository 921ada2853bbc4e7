"""Measures the broker's CPU time for batches of one record, with five partitions in a request.

The Java producer makes a batch of each record (`batch.size` 0), and sends the records to five
partitions, one after the other. The batches wait for requests in flight, so most requests have a batch for each
partition. The result has the number of batches per request. `requests` measures one partition.
"""

from __future__ import annotations

from collections.abc import Mapping

from bench.environment import Contender, CpuMeter, Environment
from bench.figures import Figure, Quantity
from bench.measures.requests import PROPERTIES

PARTITIONS = 5
BATCHES = 200_000
SIZE = 100
CPU = Quantity("CPU per 100 000 batches", "s", 0.45)
PER_REQUEST = Quantity("batches in a request", "", primary=False)
RATE = Quantity("batches", "1/s", higher_is_better=True, primary=False)


def run(environment: Environment) -> list[Figure]:
    """Run the experiment, and return its figures."""
    batches = environment.scaled(BATCHES)

    def one_round(contender: Contender) -> Mapping[str, float]:
        with environment.topic(contender, PARTITIONS) as topic:
            meter = CpuMeter(contender.broker)
            done = environment.load(
                contender,
                "produce",
                topic=topic,
                records=batches,
                size=SIZE,
                partitions=PARTITIONS,
                properties=PROPERTIES,
            )
            spent = meter.seconds()
        return {
            CPU.name: spent / batches * 100_000,
            PER_REQUEST.name: batches / done["requests"],
            RATE.name: batches / done["seconds"],
        }

    return environment.play("single_records", [CPU, PER_REQUEST, RATE], one_round)
