"""How an application runs as a process."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from odradek.core.streams.task import TaskSettings


class WorkerSettings(NamedTuple):
    """How an application runs."""

    connection: Mapping[str, Any]
    """Settings of the client: `bootstrap.servers`, TLS, SASL."""
    reset: str = "earliest"
    exactly_once: bool = False
    commit_interval_ms: int = 30_000
    replication_factor: int = -1
    tasks: TaskSettings = TaskSettings()
