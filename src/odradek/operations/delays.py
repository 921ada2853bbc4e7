"""Records that share groups deliver later."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from odradek.client.cluster import Cluster
from odradek.client.consumer import Consumer
from odradek.client.errors import ClientError
from odradek.client.offsets import EARLIEST, LATEST, offsets_at
from odradek.core.share.schedule import NO_TIME, deliver_at_ms
from odradek.model.topic_partition import TopicPartition
from odradek.operations.group_settings import read_setting
from odradek.records.record import Record

SETTING = "odradek.share.delay.enable"
_POLL_MS = 500


class Waiting(NamedTuple):
    """A record that is not due yet, when it is due, and where it is."""

    due_ms: int
    partition: TopicPartition
    record: Record


def is_enabled(cluster: Cluster, group_id: str) -> bool:
    """Return whether a share group delivers records later if their header says so.

    Raises:
        ClientError: the setting cannot be read.
    """
    found = read_setting(cluster, [group_id], SETTING)[group_id]
    if isinstance(found, ClientError):
        raise found
    return found == "true"


def read_waiting(
    cluster: Cluster, starts: Mapping[TopicPartition, int], now_ms: Callable[[], int]
) -> list[Waiting]:
    """Read partitions from these offsets to their ends; return the records that are not due.

    The records that are due first come first.

    Raises:
        ClientError: a partition cannot be read.
    """
    found: list[Waiting] = []
    if not starts:
        return found
    ends = offsets_at(cluster, starts, LATEST)
    consumer = Consumer(cluster, reset_to=EARLIEST)
    consumer.assign(dict(starts))
    while True:
        positions = consumer.positions
        consumer.drop([key for key in list(positions) if positions[key] >= ends[key]])
        if not consumer.positions:
            return sorted(found, key=lambda each: (each.due_ms, each.partition, each.record.offset))
        for key, records in consumer.poll(_POLL_MS).items():
            now = now_ms()
            for record in records:
                due_ms = deliver_at_ms(record.headers)
                if due_ms != NO_TIME and due_ms > now and record.offset < ends[key]:
                    found.append(Waiting(due_ms, key, record))
