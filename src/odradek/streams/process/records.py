"""What runners of tasks do with their clients: records, offsets, and the end."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from odradek.client.admin.admin import Admin
from odradek.client.core.partitioners import partition_for_key
from odradek.client.errors import ClientError
from odradek.client.group_metadata import CommittedOffset
from odradek.client.producer import Producer
from odradek.core.streams.model.records import Produced
from odradek.core.streams.partition_group import Consumed
from odradek.core.streams.task import Task
from odradek.model.topic_partition import TopicPartition
from odradek.streams.process.positions import encode
from odradek.streams.process.settings import ADMIN, WorkerSettings

log = logging.getLogger(__name__)


def consumed(record: Any) -> Consumed:
    """Return a record of a consumer as tasks want it."""
    return Consumed(
        record.offset, record.timestamp, record.key, record.value, tuple(record.headers)
    )


def send(producer: Producer, records: Iterable[Produced], count: Callable[[str], int]) -> None:
    """Send what a task has produced. `count` returns the number of partitions of a topic."""
    for each in records:
        partition = each.partition
        if each.partition_key is not None:
            partition = partition_for_key(each.partition_key, count(each.topic))
        producer.send(
            each.topic,
            each.value,
            key=each.key,
            headers=each.headers or None,
            partition=partition,
            timestamp=each.timestamp,
        )


def committed_offset(task: Task, place: tuple[str, int], offset: int) -> CommittedOffset:
    """Return the offset to commit of a partition of a task, with the metadata of Kafka Streams."""
    return CommittedOffset(offset, -1, encode(task.partition_time(*place), task.context.metadata))


def delete_read(settings: WorkerSettings, before: Mapping[TopicPartition, int]) -> None:
    """Delete the records of repartition topics before these offsets. If it fails, the log says so."""
    try:
        with Admin(settings.clients[ADMIN]) as admin:
            admin.delete_records(dict(before))
    except ClientError as error:
        log.warning("records of repartition topics are not deleted yet: %s", error)


def quietly(close: Callable[[], None]) -> None:
    """Close a client. If it fails, the log says so."""
    try:
        close()
    except ClientError as error:
        log.warning("not closed properly: %s", error)


def now_ms() -> int:
    """Return the time in milliseconds since 1970."""
    return time.time_ns() // 1_000_000
