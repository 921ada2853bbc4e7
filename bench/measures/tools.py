"""Throughput as Apache Kafka's ProducerPerformance and ConsumerPerformance tell it."""

from __future__ import annotations

import re
from collections.abc import Mapping

from bench.environment import Contender, Environment
from bench.figures import Figure, Quantity

RECORDS = 500_000
SIZE = 1000
PRODUCED = Quantity("ProducerPerformance", "MB/s", 1.0, higher_is_better=True)
CONSUMED = Quantity("ConsumerPerformance", "MB/s", 1.0, higher_is_better=True)


def run(environment: Environment) -> list[Figure]:
    """See the module."""
    records = str(environment.scaled(RECORDS))

    def one_round(contender: Contender) -> Mapping[str, float]:
        with environment.topic(contender) as topic:
            sent = environment.tool(
                contender,
                "ProducerPerformance",
                *("--topic", topic, "--num-records", records, "--record-size", str(SIZE)),
                *("--throughput", "-1", "--command-property", "acks=all", "batch.size=65536"),
            )
            read = environment.tool(
                contender,
                "ConsumerPerformance",
                *("--topic", topic, "--num-records", records, "--hide-header"),
            )
        speeds = re.findall(r"^\d+ records sent, .*\(([\d.]+) MB/sec\)", sent, re.MULTILINE)
        # fetch.MB.sec: without the time that the group took to form
        fetched = read.strip().splitlines()[-1].split(", ")[8]
        return {PRODUCED.name: float(speeds[-1]), CONSUMED.name: float(fetched)}

    return environment.play("tools", [PRODUCED, CONSUMED], one_round)
