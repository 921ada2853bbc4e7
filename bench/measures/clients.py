"""Measures the broker's CPU time for three client libraries: the Java client, librdkafka, franz-go.

Each client produces records of 40 to 160 bytes to six partitions, and consumes these records. The
settings are acks=all, `linger.ms` 5, no compression, and otherwise the defaults of the library. The
libraries differ in the size of batches, in the number of partitions in a request, and in whether
producers are idempotent.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping
from typing import Any

from bench.clients import PROGRAMS
from bench.environment import Contender, CpuMeter, Environment
from bench.figures import Figure, Quantity
from bench.payloads import UNIFORM, draw_values

PARTITIONS = 6
AMOUNT = 100_000_000
JAVA_PROPERTIES = {"acks": "all", "linger.ms": "5"}
Ask = Callable[..., dict[str, Any]]
"""Sends a command to a client: `ask(contender, verb, **arguments)`."""


def run(environment: Environment) -> list[Figure]:
    """Run the experiment, and return its figures."""

    def java(contender: Contender, verb: str, **arguments: Any) -> dict[str, Any]:
        return environment.load(contender, verb, properties=JAVA_PROPERTIES, **arguments)

    figures = _measure(environment, "Java", java)
    for name, command in PROGRAMS.items():
        with environment.client(command()) as ask:
            figures += _measure(environment, name, ask)
    return figures


def _measure(environment: Environment, client: str, ask: Ask) -> list[Figure]:
    produced = Quantity(f"produce with {client}", "s/GB")
    consumed = Quantity(f"consume with {client}", "s/GB")
    records = int(environment.scaled(AMOUNT) / statistics.mean(map(len, draw_values(UNIFORM))))
    payloads = str(environment.payloads(UNIFORM))

    def one_round(contender: Contender) -> Mapping[str, float]:
        with environment.topic(contender, PARTITIONS) as topic:
            work = {"topic": topic, "records": records}
            meter = CpuMeter(contender.broker)
            done = ask(contender, "produce", payloads=payloads, **work)
            spent = meter.seconds()
            meter = CpuMeter(contender.broker)
            ask(contender, "consume", partitions=PARTITIONS, **work)
            read = meter.seconds()
        return {
            produced.name: spent / done["bytes"] * 1e9,
            consumed.name: read / done["bytes"] * 1e9,
        }

    return environment.play("clients", [produced, consumed], one_round)
