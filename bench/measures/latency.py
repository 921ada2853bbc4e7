"""Measures the end-to-end latency of single records, and of a thousand records per second.

With single records, the client sends a record, waits for the acknowledgement, and then waits until
the consumer has received the record. Apache Kafka's EndToEndLatency does the same, but reports only
whole milliseconds. With a thousand records per second, the latency is measured from the moment at
which a record was due. Otherwise a stall would delay the following records without an effect on
their latency.
"""

from __future__ import annotations

from collections.abc import Mapping

from bench.environment import Contender, Environment
from bench.figures import Figure, Quantity

SIZE = 100
ROUND_TRIPS = 5000
PACED = 10_000
RATE = 1000
LIMIT = 0.9
PROPERTIES = {"acks": "all", "linger.ms": "0"}
SINGLE_P50 = Quantity("one at a time, p50", "ms", LIMIT)
SINGLE_P99 = Quantity("one at a time, p99", "ms", LIMIT)
PACED_P50 = Quantity("1 000 a second, p50", "ms", LIMIT)
PACED_P99 = Quantity("1 000 a second, p99", "ms", LIMIT)


def run(environment: Environment) -> list[Figure]:
    """Run the experiment, and return its figures."""

    def single(contender: Contender) -> Mapping[str, float]:
        with environment.topic(contender) as topic:
            samples = environment.scaled(ROUND_TRIPS)
            done = environment.load(
                contender,
                "round_trips",
                topic=topic,
                samples=samples,
                size=SIZE,
                properties=PROPERTIES,
            )
        return {SINGLE_P50.name: done["p50_ms"], SINGLE_P99.name: done["p99_ms"]}

    def paced(contender: Contender) -> Mapping[str, float]:
        done = paced_latency(environment, contender, environment.scaled(PACED))
        return {PACED_P50.name: done["p50_ms"], PACED_P99.name: done["p99_ms"]}

    figures = environment.play("latency", [SINGLE_P50, SINGLE_P99], single)
    return figures + environment.play("latency", [PACED_P50, PACED_P99], paced)


def paced_latency(
    environment: Environment, contender: Contender, samples: int
) -> Mapping[str, float]:
    """Return `p50_ms`, `p99_ms` and `max_ms` of a steady load on a separate topic."""
    with environment.topic(contender) as topic:
        return environment.load(
            contender,
            "paced",
            topic=topic,
            samples=samples,
            rate=RATE,
            size=SIZE,
            properties=PROPERTIES,
        )
