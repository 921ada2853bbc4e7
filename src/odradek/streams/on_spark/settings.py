"""How an application runs on Spark."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from odradek.core.streams.task import TaskSettings
from odradek.streams.process.settings import CLASSIC, EXACTLY_ONCE, WorkerSettings, worker_settings

_TIMEOUT = "transaction.timeout.ms"
_OF_PROCESSES = (
    "application.server",
    "client.tag.",
    "group.protocol",
    "num.standby.replicas",
    "state.cleanup.delay.ms",
)
"""The beginnings of settings that mean nothing on Spark."""
TIMEOUT_MS = 60_000
"""The default of `transaction.timeout.ms`. Nobody waits that long for a task that was killed: the next
run ends its transaction."""


class SparkSettings(NamedTuple):
    """Where the query runs."""

    master: str | None = None
    """The address of a cluster, or `local[4]`; by default all cores of this machine."""
    checkpoint: str | None = None
    """The directory of Spark's checkpoint; by default a temporary one."""
    conf: Mapping[str, str] = {}
    """Settings of Spark."""


def spark_worker_settings(
    given: Mapping[str, Any], bootstrap_servers: str, reset: str | None, tasks: TaskSettings
) -> WorkerSettings:
    """Return the settings of the tasks, as `worker_settings` does for a process.

    Raises:
        ValueError: a name is unknown, or may not be set, or a value is malformed.
    """
    settings = dict(given)
    names = {name.replace("_", ".") for name in given}
    for name in sorted(names):
        if name.startswith(_OF_PROCESSES):
            raise ValueError(f"{name} is for processes: it has no effect on Spark")
    if "processing.guarantee" not in names:
        settings["processing_guarantee"] = EXACTLY_ONCE
    if not any(name.endswith(_TIMEOUT) for name in names):
        settings[f"producer.{_TIMEOUT}"] = TIMEOUT_MS
    found = worker_settings(settings, bootstrap_servers, reset, tasks)
    if not found.exactly_once:
        raise ValueError(f'on Spark, processing_guarantee is always "{EXACTLY_ONCE}"')
    if found.group_protocol != CLASSIC:
        raise ValueError(
            "on Spark there are no members of a group, so group_protocol has no effect"
        )
    return found
