"""Measures transactions of ten records in five partitions, with twenty producers.

First the producers commit as many transactions as they can. Then they commit a thousand per second.
The time of such a transaction is the time from the moment at which it was due to the response to
its commit. The Java client uses transactions of version 2 (KIP-890), in which the broker adds
partitions to the transaction.

The Java client (4.3.0) can send EndTxn before the records. Its sender thread looks for unsent
batches before it takes the next request. Between these steps the application may begin a
transaction, send records and commit. Then both brokers reject the end of a transaction that has not
begun. In this case the measurement is repeated.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from compat.lab.dialogue import Refused

from bench.environment import Contender, CpuMeter, Environment
from bench.figures import Figure, Quantity

TRANSACTIONS = 10_000
RATE = 1000
UNPACED = 1_000_000
ATTEMPTS = 3
LOAD = {"producers": 20, "records": 10, "partitions": 5, "size": 100}
PROPERTIES = {"acks": "all", "linger.ms": "0"}
THROUGHPUT = Quantity("transactions, unpaced", "1/s", 1.2, higher_is_better=True)
P50 = Quantity("commit, p50", "ms")
P99 = Quantity("commit, p99", "ms", 1.0)
CPU = Quantity("CPU per 1 000 transactions", "s", 0.7)


def run(environment: Environment) -> list[Figure]:
    """Run the experiment, and return its figures."""
    transactions = environment.scaled(TRANSACTIONS)

    def load(contender: Contender, topic: str, rate: int) -> dict[str, Any]:
        return environment.load(
            contender,
            "transactions",
            topic=topic,
            transactions=transactions,
            rate=rate,
            properties=PROPERTIES,
            **LOAD,
        )

    def committed(contender: Contender, rate: int) -> dict[str, Any]:
        with environment.topic(contender, LOAD["partitions"]) as topic:
            for _ in range(ATTEMPTS - 1):
                try:
                    return load(contender, topic, rate)
                except Refused as reason:
                    if reason.name != "INVALID_TXN_STATE":
                        raise
                    print(f"  {contender.broker.name}: {reason}; once more", flush=True)
            return load(contender, topic, rate)

    def one_round(contender: Contender) -> Mapping[str, float]:
        unpaced = committed(contender, UNPACED)
        meter = CpuMeter(contender.broker)
        paced = committed(contender, RATE)
        return {
            THROUGHPUT.name: unpaced["transactions"] / unpaced["seconds"],
            P50.name: paced["p50_ms"],
            P99.name: paced["p99_ms"],
            CPU.name: meter.seconds() / paced["transactions"] * 1000,
        }

    return environment.play("transactions", [THROUGHPUT, P50, P99, CPU], one_round, warm_ups=2)
