"""Warms up both brokers and the client. A JVM is fast only after tens of thousands of requests."""

from __future__ import annotations

from bench.environment import Environment
from bench.measures.producing import PROPERTIES as LARGE_BATCHES
from bench.measures.requests import PROPERTIES as SINGLE_RECORDS

REQUESTS = 60_000
BYTES = 300_000_000
SIZE = 1000
ROUND_TRIPS = 3000
PASSES = 2


def warm_up(environment: Environment) -> None:
    """Send small and large requests, fetches and long polls to both brokers alternately."""
    for number in range(PASSES):
        for contender in environment.contenders:
            print(f"{'warm-up':16} {number + 1}/{PASSES} {contender.broker.name}", flush=True)
            with environment.topic(contender) as topic:
                many = {"topic": topic, "records": environment.scaled(REQUESTS), "size": 100}
                environment.load(contender, "produce", properties=SINGLE_RECORDS, **many)
            with environment.topic(contender) as topic:
                records = environment.scaled(BYTES) // SIZE
                large = {"topic": topic, "records": records, "size": SIZE}
                environment.load(contender, "produce", properties=LARGE_BATCHES, **large)
                environment.load(contender, "consume", topic=topic, records=records)
            with environment.topic(contender) as topic:
                trips = {"topic": topic, "samples": environment.scaled(ROUND_TRIPS), "size": 100}
                environment.load(contender, "round_trips", **trips)
