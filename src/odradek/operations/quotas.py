"""Quotas of clients: which there are, how their values are written, and which apply to a client."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from odradek.client.admin.quotas import IP, Entity
from odradek.core.quota.limits import Limits

_RATES = ("producer_byte_rate", "consumer_byte_rate")
OF_CLIENTS = (*_RATES, "request_percentage", "controller_mutation_rate")
"""The quotas of users and client ids."""
OF_ADDRESSES = ("connection_creation_rate",)
"""The quotas of IP addresses."""
_UNITS = {
    "": 1,
    "kB": 1000,
    "MB": 1000**2,
    "GB": 1000**3,
    "KiB": 1024,
    "MiB": 1024**2,
    "GiB": 1024**3,
}
_NUMBER = re.compile(r"(\d+(?:\.\d+)?)\s*([A-Za-z]*)")


class Applying(NamedTuple):
    """The quota that applies to a client: whose it is, its value, and who shares it."""

    entity: Entity
    value: float
    shared_by: str


def applying(
    quotas: Mapping[Entity, Mapping[str, float]], user: str, client_id: str
) -> dict[str, Applying]:
    """Return the quota of each name that applies to a client, from the quotas of all entities."""
    found: dict[str, Applying] = {}
    for name in OF_CLIENTS:
        limits = Limits()
        for entity, values in quotas.items():
            if name in values:
                limits.set(dict(entity), values[name])
        key = limits.key(user, client_id)
        limit = limits.find(key)
        if limit is not None:
            found[name] = Applying(limit.entity, limit.limit, _shared_by(*key))
    return found


def _shared_by(user: str, client_id: str | None) -> str:
    """Return which connections share the quota of a measurement."""
    if user and client_id:
        return f"user {user} with client-id {client_id}"
    return f"user {user}" if user else f"client-id {client_id}"


def quotas_of(entity: Entity) -> Sequence[str]:
    """Return the names of the quotas that an entity may have."""
    return OF_ADDRESSES if entity[0][0] == IP else OF_CLIENTS


def order(entity: Entity) -> list[tuple[str, bool, str]]:
    """Return the key of the order of entities: users first, names before defaults."""
    return [(kind, name is None, name or "") for kind, name in reversed(entity)]


def parse_value(name: str, text: str) -> float:
    """Parse the value of a quota. Byte rates may have a unit: `10MB`, `512KiB`.

    Raises:
        ValueError: it is not a number with a unit that this quota may have.
    """
    found = _NUMBER.fullmatch(text)
    units: Sequence[str] = tuple(_UNITS) if name in _RATES else ("",)
    if found is None or found[2] not in units:
        raise ValueError(f"{name}={text}: write a number" + " or 10MB" * (name in _RATES))
    return float(found[1]) * _UNITS[found[2]]


def value_text(value: float) -> str:
    """Format the value of a quota: a whole number without a fraction."""
    return str(int(value)) if value == int(value) else str(value)
