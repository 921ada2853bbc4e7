"""Measures the time from the start of the process to the first acknowledged record.

The data directory is empty in each round. Apache Kafka's directory is formatted before the measured
time. Odradek formats its directory during the measured time. The client is a plain socket. It
repeats a Metadata request, which creates the topic, until the topic has a leader. Then it writes
one record with acks=all.
"""

from __future__ import annotations

import time

from compat.lab.wire_client import WireClient

from bench.environment import Contender, Environment
from bench.figures import OURS, THEIRS, Figure, Quantity

TOPIC = "first"
PATIENCE_SECONDS = 60.0
POLL_SECONDS = 0.002
SECONDS = Quantity("start to first acknowledgement", "s", 0.2)


def run(environment: Environment) -> list[Figure]:
    """Run the rounds. Each round starts both brokers, one after the other."""
    figure = Figure("first_message", SECONDS)
    for index in range(environment.rounds):
        for role in (OURS, THEIRS):
            with environment.fresh(role, started=False) as contender:
                contender.broker.launch()
                seconds = _seconds_to_first_message(contender)
                figure.values.setdefault(role, []).append(seconds)
                text = f"{index + 1}/{environment.rounds} {contender.broker.name}: {seconds:.3f} s"
                print(f"{'first_message':16} {text}", flush=True)
    return [figure]


def _seconds_to_first_message(contender: Contender) -> float:
    broker = contender.broker
    deadline = broker.started_at + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        try:
            with WireClient(broker.port, timeout=PATIENCE_SECONDS) as client:
                while not client.has_leader(TOPIC):
                    time.sleep(POLL_SECONDS)
                while client.produce_one(TOPIC, b"hello") != 0:
                    time.sleep(POLL_SECONDS)
                return time.monotonic() - broker.started_at
        except ConnectionError:
            time.sleep(POLL_SECONDS)
    raise RuntimeError(f"{broker.name} took no message in {PATIENCE_SECONDS:g} s")
