"""Decodes the acquired records of a partition in a ShareFetch response.

The response has whole batches, and the ranges of offsets that the member has acquired, each with a
delivery count. Records outside these ranges belong to other members. An acquired offset without a
record is a gap: compaction has removed the record, or it is a control record.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from odradek.client.errors import BrokerError
from odradek.client.share.acknowledgements import AcknowledgeType, TopicIdPartition
from odradek.model.errors import ErrorCode
from odradek.model.topic_partition import TopicPartition
from odradek.records.batch import RecordBatch, iterate_batches
from odradek.records.errors import RecordsError
from odradek.records.record import Headers, iterate_records
from odradek.wire.generated.share_fetch_response import AcquiredRecords


class ShareRecord(NamedTuple):
    """A record that this member has acquired. `delivery_count` is 1 in the first delivery."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers
    delivery_count: int

    @property
    def topic_partition(self) -> TopicPartition:
        """The topic and the partition."""
        return TopicPartition(self.topic, self.partition)


class CorruptRecordsError(BrokerError):
    """A batch is corrupt. Unlike other errors with the code CORRUPT_MESSAGE, this is permanent."""

    retriable = False


class Acquired:
    """The acquired records of one partition, and what is acknowledged without the user.

    Bad data is no exception but an `error`. The records in a batch with a wrong checksum are
    rejected, as in Kafka, because they can never be read. If the boundaries of the batches are not
    known, the remaining records are released.
    """

    def __init__(
        self, partition: TopicIdPartition, data: memoryview, ranges: Iterable[AcquiredRecords]
    ) -> None:
        self.partition = partition
        self.records: list[ShareRecord] = []
        self.types: dict[int, AcknowledgeType] = {}
        """Gaps, records in corrupt batches (rejected), and records after them (released)."""
        self.error: BrokerError | None = None
        """The first error in the data."""
        self._counts = {
            offset: each.delivery_count
            for each in ranges
            for offset in range(each.first_offset, each.last_offset + 1)
        }
        """The delivery counts of the offsets that were not found yet."""
        try:
            for batch in iterate_batches(data):
                self._read(batch)
        except RecordsError as error:
            self._note(error)
            rest = AcknowledgeType.RELEASE
        else:
            rest = AcknowledgeType.GAP
        self.types.update(dict.fromkeys(self._counts, rest))

    def _read(self, batch: RecordBatch) -> None:
        counts = self._counts
        if batch.is_control and batch.is_valid:
            return
        topic, index = self.partition.topic, self.partition.partition
        try:
            batch.check()
            found = [
                ShareRecord(
                    topic,
                    index,
                    record.offset,
                    record.timestamp,
                    record.key,
                    record.value,
                    record.headers,
                    counts[record.offset],
                )
                for record in iterate_records(batch)
                if record.offset in counts
            ]
        except RecordsError as error:
            self._note(error)
            for offset in range(batch.base_offset, batch.last_offset + 1):
                if counts.pop(offset, None) is not None:
                    self.types[offset] = AcknowledgeType.REJECT
            return
        for each in found:
            del counts[each.offset]
        self.records += found

    def _note(self, error: RecordsError) -> None:
        if self.error is None:
            subject = f"partition {self.partition.topic}-{self.partition.partition}"
            self.error = CorruptRecordsError(ErrorCode.CORRUPT_MESSAGE, str(error), subject)
