"""The metrics of the node as a whole: its state and its input and output on disks."""

from __future__ import annotations

from collections.abc import Iterator

from odradek.env.process import disk_bytes
from odradek.node.metrics.sources import BrokerSources, MetricSources
from odradek.telemetry.mbeans import Metric, gauge, one

_RUNNING = 3
_READ = "linux-disk-read-bytes"
_WRITTEN = "linux-disk-write-bytes"


def disk(node: MetricSources) -> Iterator[Metric]:
    """Yield what the process has read from disks and written to them (Linux only)."""
    found = disk_bytes()
    if found is None:
        return
    kinds = []
    if node.of_broker is not None:
        kinds.append("KafkaServer")
    if node.of_controller is not None:
        kinds.append("ControllerServer")
    for kind in kinds:
        for name, text, value in (
            (_READ, "Bytes that the process has read from disks.", found[0]),
            (_WRITTEN, "Bytes that the process has written to disks.", found[1]),
        ):
            yield gauge(f"kafka.server:type={kind},name={name}", text, one(value))


def state(_node: BrokerSources) -> Iterator[Metric]:
    """Yield the state of the broker."""
    yield gauge(
        "kafka.server:type=KafkaServer,name=BrokerState",
        "3: the broker is running. It serves no metrics before and after that.",
        one(_RUNNING),
    )
