"""The metrics of the node as a whole: its state and its input and output on disks."""

from __future__ import annotations

from collections.abc import Iterator

from odradek.env.process import input_and_output
from odradek.node.metrics.sources import BrokerSources, MetricSources
from odradek.telemetry.mbeans import Metric, gauge, one

_RUNNING = 3
_COUNTERS = {
    "read_bytes": "Bytes that the process has read from disks.",
    "write_bytes": "Bytes that the process has written to disks.",
    "rchar": "Bytes that the process has read, also from memory and sockets.",
    "wchar": "Bytes that the process has written, also to memory and sockets.",
    "syscr": "System calls of the process that read.",
    "syscw": "System calls of the process that write.",
    "cancelled_write_bytes": "Bytes that were not written to disks, because they were deleted before.",
}
"""The names in Linux, and what they count."""


def disk(node: MetricSources) -> Iterator[Metric]:
    """Yield what the process has read and written (Linux only)."""
    found = input_and_output()
    kinds = []
    if node.of_broker is not None:
        kinds.append("KafkaServer")
    if node.of_controller is not None:
        kinds.append("ControllerServer")
    for kind in kinds:
        for name, text in _COUNTERS.items():
            if name in found:
                shown = f"linux-disk-{name.replace('_', '-')}"
                yield gauge(f"kafka.server:type={kind},name={shown}", text, one(found[name]))


def state(_node: BrokerSources) -> Iterator[Metric]:
    """Yield the state of the broker."""
    yield gauge(
        "kafka.server:type=KafkaServer,name=BrokerState",
        "3: the broker is running. It serves no metrics before and after that.",
        one(_RUNNING),
    )
