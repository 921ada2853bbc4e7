"""Records that share groups deliver later."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from odradek.client.cluster import Cluster
from odradek.client.consuming.to_ends import read_to_ends, records_of
from odradek.client.errors import ClientError
from odradek.core.share.schedule import NO_TIME, deliver_at_ms
from odradek.model.topic_partition import TopicPartition
from odradek.operations.group_settings import read_setting
from odradek.records.record import Record

SETTING = "odradek.share.delay.enable"


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
    for batch in read_to_ends(cluster, starts):
        now = now_ms()
        for record in records_of(batch):
            due_ms = deliver_at_ms(record.headers)
            if due_ms != NO_TIME and due_ms > now:
                found.append(Waiting(due_ms, batch.topic_partition, record))
    return sorted(found, key=lambda each: (each.due_ms, each.partition, each.record.offset))
