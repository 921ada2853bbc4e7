"""The experiments: a module each, with `run(environment)`, in the order in which they are run."""

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
"""`loop_pause` comes after what loads the brokers; those after it start brokers of their own."""
