"""Reads partitions up to their current ends, and no further."""

from __future__ import annotations

from collections.abc import Generator, Mapping

from odradek.client.cluster import Cluster
from odradek.client.consuming.consumer import Consumer
from odradek.client.core.consumed_batch import Batch
from odradek.client.core.fetch_settings import READ_COMMITTED, READ_UNCOMMITTED
from odradek.client.deadline import Deadline
from odradek.client.errors import RequestTimeoutError
from odradek.client.offsets import LATEST, offsets_at
from odradek.model.topic_partition import TopicPartition
from odradek.records.errors import RecordsError
from odradek.records.record import Record, iterate_records

POLL_SECONDS = 0.5


def assigned_consumer(
    cluster: Cluster, starts: Mapping[TopicPartition, int], isolation: int = READ_UNCOMMITTED
) -> Consumer:
    """Return a consumer of these partitions from these offsets on, or from the first one after."""
    level = "read_committed" if isolation == READ_COMMITTED else "read_uncommitted"
    consumer = Consumer(
        cluster,
        auto_offset_reset="earliest",
        isolation_level=level,
        allow_auto_create_topics=False,
    )
    consumer.assign([(*each, offset) for each, offset in starts.items()])
    return consumer


class Patience:
    """Ends the wait for brokers that do not answer."""

    def __init__(self, consumer: Consumer, timeout_ms: int) -> None:
        self._consumer = consumer
        self._timeout_ms = timeout_ms
        self._deadline = Deadline(timeout_ms)

    def check(self, *, has_progress: bool) -> None:
        """Note whether something has arrived.

        Raises:
            ClientError: nothing has for the whole time, and requests fail.
        """
        error = self._consumer.last_error
        if has_progress or error is None:
            self._deadline = Deadline(self._timeout_ms)
        elif self._deadline.expired:
            raise error


def read_to_ends(
    cluster: Cluster,
    starts: Mapping[TopicPartition, int],
    isolation: int = READ_UNCOMMITTED,
    ends: Mapping[TopicPartition, int] | None = None,
) -> Generator[Batch]:
    """Yield the batches from these offsets up to `ends`, by default up to the current ends.

    The last batch of a partition may go on after its end.

    Raises:
        ClientError: a partition cannot be read.
    """
    if not starts:
        return
    if ends is None:
        ends = offsets_at(cluster, starts, LATEST, isolation=isolation)
    left = {each: start for each, start in starts.items() if start < ends[each]}
    if not left:
        return
    with assigned_consumer(cluster, left, isolation) as consumer:
        patience = Patience(consumer, cluster.timeout_ms)
        stuck = Deadline(cluster.timeout_ms)
        positions = dict(left)
        while True:
            batch = consumer.poll(POLL_SECONDS)
            if batch is not None:
                yield batch
            found = consumer.positions
            has_progress = batch is not None or found != positions
            patience.check(has_progress=has_progress)
            if has_progress:
                stuck = Deadline(cluster.timeout_ms)
            elif stuck.expired:
                first = next(iter(left))
                raise RequestTimeoutError(f"partition {first}: nothing arrives up to its end")
            positions = found
            remaining = [each for each in left if positions.get(each, -1) < ends[each]]
            if not remaining:
                return
            if len(remaining) < len(left):
                left = dict.fromkeys(remaining, 0)
                consumer.assign(remaining)


def records_of(batch: Batch) -> list[Record]:
    """Return the records of a batch as `odradek.records` has them.

    Raises:
        CorruptRecordsError: they cannot be decoded.
    """
    try:
        return [
            record
            for record in iterate_records(batch.data)
            if batch.first_offset <= record.offset < batch.next_offset
        ]
    except RecordsError as error:
        raise batch.corrupt(error) from error
