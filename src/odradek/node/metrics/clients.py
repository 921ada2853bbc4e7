"""The metrics that clients push (KIP-714)."""

from __future__ import annotations

from collections.abc import Iterator

from odradek.node.metrics.sources import BrokerSources
from odradek.telemetry.mbeans import Metric, Row, own

_IDENTITY = ("client_id", "client_instance_id")


def clients(node: BrokerSources) -> Iterator[Metric]:
    """Yield the newest numbers of each client instance."""
    by_name: dict[tuple[str, tuple[str, ...]], list[Row]] = {}
    for client, numbers in list(node.broker.client_telemetry.numbers()):
        identity = tuple(client[each] for each in _IDENTITY)
        for (name, pairs), value in list(numbers.items()):
            labels = {_name(key): text for key, text in pairs}
            labels = {key: text for key, text in labels.items() if key not in _IDENTITY}
            family = by_name.setdefault((_name(name), (*labels, *_IDENTITY)), [])
            family.append(((*labels.values(), *identity), value))
    for (name, keys), rows in by_name.items():
        yield own(f"kafka_client_{name}", "Metric of clients (KIP-714).", rows, *keys)


def _name(text: str) -> str:
    return "".join(c if c.isascii() and c.isalnum() else "_" for c in text)
