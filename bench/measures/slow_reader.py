"""Measures the latency of a producer while other connections do not read their responses.

Ten connections request 50 MB each and read nothing. The latency of a steady load is measured with
and without these connections.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Mapping

from compat.lab.wire_client import WireClient

from bench.environment import Contender, Environment
from bench.figures import Figure, Quantity
from bench.measures.latency import paced_latency
from bench.measures.producing import PROPERTIES as PRODUCER_PROPERTIES

READERS = 10
BYTES = 100_000_000
SIZE = 1000
SAMPLES = 5000
QUIET = Quantity("p99 without slow readers", "ms")
BESIDE = Quantity("p99 beside 10 slow readers", "ms", 1.0)


def run(environment: Environment) -> list[Figure]:
    """Run the experiment, and return its figures."""
    with contextlib.ExitStack() as stack:
        topics = {}
        for contender in environment.contenders:
            topic = stack.enter_context(environment.topic(contender))
            environment.load(
                contender,
                "produce",
                topic=topic,
                records=BYTES // SIZE,
                size=SIZE,
                properties=PRODUCER_PROPERTIES,
            )
            topics[contender.role] = topic

        def one_round(contender: Contender) -> Mapping[str, float]:
            samples = environment.scaled(SAMPLES)
            quiet = paced_latency(environment, contender, samples)
            with contextlib.ExitStack() as readers:
                for _ in range(READERS):
                    readers.enter_context(_stuck(contender, topics[contender.role]))
                beside = paced_latency(environment, contender, samples)
            return {QUIET.name: quiet["p99_ms"], BESIDE.name: beside["p99_ms"]}

        return environment.play("slow_reader", [QUIET, BESIDE], one_round)


def _stuck(contender: Contender, topic: str) -> WireClient:
    """Return a connection that has requested 50 MB and reads nothing."""
    client = WireClient(contender.broker.port)
    client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.ask_for_batches(topic, 0, max_bytes=50 << 20)
    return client
