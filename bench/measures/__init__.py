"""The experiments: a module each, with `run(environment)`, in the order in which they are run."""

from __future__ import annotations

from collections.abc import Callable

from bench.environment import Environment
from bench.figures import Figure
from bench.measures import (
    consume,
    first_message,
    idle_connections,
    latency,
    loop_pause,
    many_clients,
    memory,
    produce,
    requests,
    slow_reader,
    tools,
    transactions,
)

MEASURES: dict[str, Callable[[Environment], list[Figure]]] = {
    "produce": produce.run,
    "requests": requests.run,
    "consume": consume.run,
    "latency": latency.run,
    "tools": tools.run,
    "many_clients": many_clients.run,
    "transactions": transactions.run,
    "slow_reader": slow_reader.run,
    "loop_pause": loop_pause.run,
    "memory": memory.run,
    "idle_connections": idle_connections.run,
    "first_message": first_message.run,
}
"""`loop_pause` comes after what loads the brokers; those after it start brokers of their own."""
