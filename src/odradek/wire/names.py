"""Converts names of Kafka's schemas to Python names."""

from __future__ import annotations

import re


def snake_case(name: str) -> str:
    """Convert a name to snake case, such as `KRaftVersionRecord` to `kraft_version_record`."""
    name = name.replace("KRaft", "Kraft")
    name = re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", name)
    return re.sub(r"([A-Z]+)([A-Z][a-z])", r"\1_\2", name).lower()
