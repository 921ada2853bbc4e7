"""The experiments. Each module is an experiment with a function `run(environment)`."""

from __future__ import annotations

from collections.abc import Callable

from bench.environment import Environment
from bench.figures import Figure
from bench.measures import (
    clients,
    consume,
    first_message,
    idle_connections,
    latency,
    loop_pause,
    many_clients,
    memory,
    mixed_day,
    produce,
    raw_fetch,
    requests,
    single_records,
    slow_reader,
    tools,
    transactions,
    varied,
)

MEASURES: dict[str, Callable[[Environment], list[Figure]]] = {
    "varied": varied.run,
    "produce": produce.run,
    "single_records": single_records.run,
    "requests": requests.run,
    "clients": clients.run,
    "raw_fetch": raw_fetch.run,
    "consume": consume.run,
    "latency": latency.run,
    "tools": tools.run,
    "mixed_day": mixed_day.run,
    "many_clients": many_clients.run,
    "transactions": transactions.run,
    "slow_reader": slow_reader.run,
    "loop_pause": loop_pause.run,
    "memory": memory.run,
    "idle_connections": idle_connections.run,
    "first_message": first_message.run,
}
"""The experiments in their order. `loop_pause` is after the experiments that load the shared
brokers. The experiments after `loop_pause` start separate brokers."""
