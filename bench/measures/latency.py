"""End-to-end latency: one record at a time, and a steady thousand a second.

The first sends a record, waits for its acknowledgement, then for the consumer to have it, as Apache
Kafka's EndToEndLatency does (which reports whole milliseconds only). The second counts from the
moment at which a record was due, so that a stall is not hidden by the wait that it causes.
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
    """See the module."""

    def single(contender: Contender) -> Mapping[str, float]:
        with environment.topic(contender) as topic:
            samples = environment.scaled(ROUND_TRIPS)
            done = environment.load(
                contender, "round_trips", topic=topic, samples=samples, size=SIZE,
                properties=PROPERTIES,
            )  # fmt: skip
        return {SINGLE_P50.name: done["p50_ms"], SINGLE_P99.name: done["p99_ms"]}

    def paced(contender: Contender) -> Mapping[str, float]:
        done = paced_latency(environment, contender, environment.scaled(PACED))
        return {PACED_P50.name: done["p50_ms"], PACED_P99.name: done["p99_ms"]}

    figures = environment.play("latency", [SINGLE_P50, SINGLE_P99], single)
    return figures + environment.play("latency", [PACED_P50, PACED_P99], paced)


def paced_latency(
    environment: Environment, contender: Contender, samples: int
) -> Mapping[str, float]:
    """Percentiles of a steady load on a topic of its own: `p50_ms`, `p99_ms`, `max_ms`."""
    with environment.topic(contender) as topic:
        return environment.load(
            contender, "paced", topic=topic, samples=samples, rate=RATE, size=SIZE,
            properties=PROPERTIES,
        )  # fmt: skip
