"""A thousand transactions a second: ten records each, to five partitions, by twenty producers.

The time of a transaction counts from the moment at which it was due to the answer to its commit.
The Java client speaks version 2 of the protocol: partitions are added by the broker.
"""

from __future__ import annotations

from collections.abc import Mapping

from bench.environment import Contender, CpuMeter, Environment
from bench.figures import Figure, Quantity

TRANSACTIONS = 10_000
LOAD = {"producers": 20, "records": 10, "partitions": 5, "rate": 1000, "size": 100}
PROPERTIES = {"acks": "all", "linger.ms": "0"}
RATE = Quantity("transactions", "1/s", 1.0, higher_is_better=True)
P50 = Quantity("commit, p50", "ms")
P99 = Quantity("commit, p99", "ms", 1.0)
CPU = Quantity("CPU per 1 000 transactions", "s", 0.7)


def run(environment: Environment) -> list[Figure]:
    """See the module."""
    transactions = environment.scaled(TRANSACTIONS)

    def one_round(contender: Contender) -> Mapping[str, float]:
        with environment.topic(contender, LOAD["partitions"]) as topic:
            meter = CpuMeter(contender.broker)
            done = environment.load(
                contender, "transactions", topic=topic, transactions=transactions,
                properties=PROPERTIES, **LOAD,
            )  # fmt: skip
            spent = meter.seconds()
        return {
            RATE.name: done["transactions"] / done["seconds"],
            P50.name: done["p50_ms"],
            P99.name: done["p99_ms"],
            CPU.name: spent / done["transactions"] * 1000,
        }

    return environment.play("transactions", [RATE, P50, P99, CPU], one_round, warm_ups=2)
