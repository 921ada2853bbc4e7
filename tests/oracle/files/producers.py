"""A producer that stores its sequence numbers, so that it can continue with another broker."""

from __future__ import annotations

from collections.abc import Sequence

from tests.oracle.files.protocol import Client

from odradek.model.errors import ErrorCode
from odradek.records.builder import RecordBatchBuilder
from odradek.records.compression import Codec
from odradek.wire.generated.end_txn_request import EndTxnRequest
from odradek.wire.generated.init_producer_id_request import InitProducerIdRequest
from odradek.wire.generated.produce_request import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from odradek.wire.generated.txn_offset_commit_request import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

TIMEOUT_MS = 20_000
TRANSACTION_TIMEOUT_MS = 800_000
"""Transactions do not time out during a test."""
Record = tuple[int, bytes | None, bytes | None]
"""Timestamp, key and value."""


def write(
    client: Client,
    topic: str,
    index: int,
    builder: RecordBatchBuilder,
    records: Sequence[Record],
    *expected: ErrorCode,
    transactional_id: str | None = None,
) -> int:
    """Write a batch, and return the offset of its first record."""
    for number, (timestamp, key, value) in enumerate(records):
        headers = [("number", b"%d" % number)] if number % 3 == 0 else ()
        builder.append(timestamp, key, value, headers)
    data = PartitionProduceData(index=index, records=builder.build())
    request = ProduceRequest(
        transactional_id=transactional_id,
        acks=-1,
        timeout_ms=TIMEOUT_MS,
        topic_data=[TopicProduceData(name=topic, partition_data=[data])],
    )
    answer = client.ask(request, 12, *expected)
    offset: int = answer.responses[0].partition_responses[0].base_offset
    return offset


class StoredProducer:
    """An idempotent or transactional producer: its id, epoch and sequence numbers."""

    def __init__(self, transactional_id: str | None = None) -> None:
        self.transactional_id = transactional_id
        self.producer_id = -1
        self.epoch = -1
        self.sequences: dict[tuple[str, int], int] = {}
        """The next sequence number of each partition."""

    def initialize(self, client: Client) -> None:
        """Get a new id, or a new epoch for the transactional id. An open transaction is aborted."""
        request = InitProducerIdRequest(
            transactional_id=self.transactional_id, transaction_timeout_ms=TRANSACTION_TIMEOUT_MS
        )
        answer = client.ask(request, 4)
        self._become(answer.producer_id, answer.producer_epoch)

    def produce(
        self,
        client: Client,
        topic: str,
        index: int,
        records: Sequence[Record],
        *expected: ErrorCode,
        codec: Codec = Codec.NONE,
        is_repeated: bool = False,
    ) -> int:
        """Write the next batch, or the last batch again. Return the offset of its first record."""
        place = topic, index
        sequence = self.sequences.get(place, 0) - (len(records) if is_repeated else 0)
        builder = RecordBatchBuilder(
            codec=codec,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            base_sequence=sequence,
            is_transactional=self.transactional_id is not None,
        )
        offset = write(
            client, topic, index, builder, records, *expected,
            transactional_id=self.transactional_id,
        )  # fmt: skip
        if not expected:
            self.sequences[place] = sequence + len(records)
        return offset

    def commit_offset(self, client: Client, group: str, topic: str, offset: int) -> None:
        """Commit an offset for partition 0 in the transaction."""
        partition = TxnOffsetCommitRequestPartition(
            partition_index=0, committed_offset=offset, committed_metadata="in a transaction"
        )
        request = TxnOffsetCommitRequest(
            transactional_id=self.transactional_id,
            group_id=group,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            topics=[TxnOffsetCommitRequestTopic(name=topic, partitions=[partition])],
        )
        client.ask(request, 5)

    def end(self, client: Client, is_commit: bool) -> None:
        """Commit or abort the transaction. The response has the next epoch."""
        request = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            committed=is_commit,
        )
        answer = client.ask(request, 5)
        self._become(answer.producer_id, answer.producer_epoch)

    def _become(self, producer_id: int, epoch: int) -> None:
        self.producer_id, self.epoch = producer_id, epoch
        self.sequences.clear()
