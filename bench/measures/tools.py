"""Runs Apache Kafka's ProducerPerformance and ConsumerPerformance.

The tools report the throughput. The experiment also measures the processor seconds of the broker.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from bench.environment import Contender, CpuMeter, Environment
from bench.figures import Figure, Quantity

RECORDS = 500_000
SIZE = 1000
PRODUCED = Quantity("ProducerPerformance", "MB/s", 1.0, higher_is_better=True)
PRODUCED_CPU = Quantity("ProducerPerformance, CPU", "s/GB", primary=False)
CONSUMED = Quantity("ConsumerPerformance", "MB/s", higher_is_better=True, primary=False)
CONSUMED_CPU = Quantity("ConsumerPerformance, CPU", "s/GB", 0.6)
QUANTITIES = [PRODUCED, PRODUCED_CPU, CONSUMED, CONSUMED_CPU]


def run(environment: Environment) -> list[Figure]:
    """Run the experiment, and return its figures."""
    records = environment.scaled(RECORDS)
    gigabytes = records * SIZE / 1e9

    def one_round(contender: Contender) -> Mapping[str, float]:
        with environment.topic(contender) as topic:
            meter = CpuMeter(contender.broker)
            sent = environment.tool(
                contender,
                "ProducerPerformance",
                *("--topic", topic, "--num-records", str(records), "--record-size", str(SIZE)),
                *("--throughput", "-1", "--command-property", "acks=all", "batch.size=65536"),
            )
            produce_seconds = meter.seconds()
            meter = CpuMeter(contender.broker)
            read = environment.tool(
                contender,
                "ConsumerPerformance",
                *("--topic", topic, "--num-records", str(records), "--hide-header"),
            )
            consume_seconds = meter.seconds()
        speeds = re.findall(r"^\d+ records sent, .*\(([\d.]+) MB/sec\)", sent, re.MULTILINE)
        # fetch.MB.sec does not include the time of the group's rebalance.
        fetched = read.strip().splitlines()[-1].split(", ")[8]
        return {
            PRODUCED.name: float(speeds[-1]),
            PRODUCED_CPU.name: produce_seconds / gigabytes,
            CONSUMED.name: float(fetched),
            CONSUMED_CPU.name: consume_seconds / gigabytes,
        }

    return environment.play("tools", QUANTITIES, one_round)
