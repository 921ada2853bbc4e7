"""Sends encoded records to the leaders in rounds, and retries failed batches.

A round has at most one batch per partition (the limit of Produce), and is sent as one request per
leader. `Sender` waits for responses when `ROUNDS_IN_FLIGHT` rounds are in flight. After a retriable
error it waits for all rounds in flight. Then it retries the failed batches in order, one round at a
time. With a producer id the broker detects a retried batch by its sequence number, so that retries
write no duplicates (KIP-98). A broker accepts any first sequence number of a producer. Therefore
the second batch of a partition is sent only after the first batch is acknowledged.

In a transaction, several senders may share a producer id if each partition has only one sender, or
if they send in turns and continue each other's sequence numbers (`sharing`).
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from odradek.client.cluster import Cluster
from odradek.client.connection import Connection, Pending
from odradek.client.deadline import Deadline
from odradek.client.errors import BrokerError, ClientError, check
from odradek.client.transactions import CLASSIC, TransactionalProducer, add_partitions, rules
from odradek.model.errors import ErrorCode
from odradek.model.topic_partition import TopicPartition
from odradek.records.batch import add_to_sequence
from odradek.spark.encoding import EncodedRecords, record_batch
from odradek.spark.options import WriteOptions
from odradek.wire.generated.init_producer_id_request import InitProducerIdRequest
from odradek.wire.generated.init_producer_id_response import InitProducerIdResponse
from odradek.wire.generated.produce_request import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from odradek.wire.generated.produce_response import ProduceResponse
from odradek.wire.primitives import Message

ROUNDS_IN_FLIGHT = 5
"""The number of batches per producer and partition whose sequence numbers a broker keeps."""

Round = dict[TopicPartition, bytearray]
Failures = dict[TopicPartition, ClientError]


@dataclass(slots=True)
class Sent:
    """A request in flight, and its partitions."""

    connection: Connection
    pending: Pending[ProduceResponse]
    partitions: list[TopicPartition]


@dataclass(slots=True)
class RoundInFlight:
    """A round that waits for responses. `failures` has the batches that could not be sent."""

    round: Round
    sent: list[Sent]
    failures: Failures


class Sender:
    """Writes batches to partitions. Call `flush` at the end to wait until all are written."""

    def __init__(
        self,
        cluster: Cluster,
        options: WriteOptions,
        transaction: TransactionalProducer | None = None,
    ) -> None:
        """Raise ClientError if no producer id can be obtained."""
        self._cluster = cluster
        self._options = options
        self._transaction = transaction
        self._rules = CLASSIC if transaction is None else rules(cluster.any())
        self._in_flight: deque[RoundInFlight] = deque()
        self._sequences: dict[TopicPartition, int] = {}
        self._acknowledged: set[TopicPartition] = set()
        self._last_failure: ClientError | None = None
        if transaction is not None:
            self._producer = (transaction.producer_id, transaction.epoch)
        else:
            self._producer = self._init_producer() if options.idempotent else (-1, -1)

    def _init_producer(self) -> tuple[int, int]:
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)

        def attempt(deadline: Deadline) -> tuple[int, int]:
            connection = self._cluster.any()
            response = connection.request(request, InitProducerIdResponse, deadline.remaining_ms)
            check(response.error_code, subject="producer id")
            return response.producer_id, response.producer_epoch

        return self._cluster.retrying(attempt)

    @property
    def partitions(self) -> frozenset[TopicPartition]:
        """The partitions to which batches were sent with sequence numbers."""
        return frozenset(self._sequences)

    @property
    def sequences(self) -> dict[TopicPartition, int]:
        """The next sequence number of each partition to which batches were sent."""
        return dict(self._sequences)

    def resume(self, sequences: dict[TopicPartition, int]) -> None:
        """Continue with these sequence numbers, below which all batches are acknowledged.

        No round may be in flight.
        """
        assert not self._in_flight, "the caller has waited for all rounds"
        self._sequences.update(sequences)
        self._acknowledged.update(sequences)

    def send(self, records: dict[TopicPartition, EncodedRecords], timestamp_ms: int) -> None:
        """Send one batch for each partition.

        Raises:
            ClientError: an earlier batch was rejected, or not written in time.
        """
        if self._transaction is not None and not self._rules.adds_partitions:
            unknown = records.keys() - self._sequences.keys()
            if unknown:
                add_partitions(self._cluster, self._transaction, sorted(unknown))
        round_: Round = {}
        for partition, encoded in records.items():
            sequence = -1
            if self._options.idempotent:
                sequence = self._sequences.get(partition, 0)
                self._sequences[partition] = add_to_sequence(sequence, encoded.record_count)
            producer = (*self._producer, sequence)
            round_[partition] = record_batch(
                encoded,
                timestamp_ms,
                self._options.codec,
                producer,
                is_transactional=self._transaction is not None,
            )
        new = records.keys() - self._acknowledged
        if any(new & each.round.keys() for each in self._in_flight):
            self.flush()
        if len(self._in_flight) == ROUNDS_IN_FLIGHT:
            self._settle(self._in_flight.popleft())
        self._in_flight.append(self._dispatch(round_))

    def flush(self) -> None:
        """Wait until all batches are written.

        Raises:
            ClientError: a batch was rejected, or not written in time.
        """
        while self._in_flight:
            self._settle(self._in_flight.popleft())

    # -- one round --------------------------------------------------------------------------

    def _dispatch(self, round_: Round) -> RoundInFlight:
        """Send a round's requests. A request that cannot be sent is a failure of its batches."""
        failures: Failures = {}
        by_connection: dict[Connection, list[TopicPartition]] = {}
        for partition in round_:
            try:
                connection = self._cluster.node(self._cluster.leader(partition), "produce")
            except ClientError as error:
                failures[partition] = error
            else:
                by_connection.setdefault(connection, []).append(partition)
        sent = []
        for connection, partitions in by_connection.items():
            request = self._request({each: round_[each] for each in partitions})
            try:
                if self._options.acks == 0:
                    connection.send_unanswered(request)
                else:
                    pending = self._send(connection, request)
                    sent.append(Sent(connection, pending, partitions))
            except ClientError as error:
                failures.update(dict.fromkeys(partitions, error))
        return RoundInFlight(round_, sent, failures)

    def _send(self, connection: Connection, request: Message) -> Pending[ProduceResponse]:
        if self._transaction is None:
            return connection.send(request, ProduceResponse)
        return connection.send(request, ProduceResponse, self._rules.produce_version_max)

    def _request(self, round_: Round) -> Message:
        topics: dict[str, list[PartitionProduceData]] = {}
        for (topic, index), records in round_.items():
            topics.setdefault(topic, []).append(PartitionProduceData(index=index, records=records))
        transaction = self._transaction
        return ProduceRequest(
            transactional_id=None if transaction is None else transaction.transactional_id,
            acks=self._options.acks,
            timeout_ms=self._options.connection.request_timeout_ms,
            topic_data=[TopicProduceData(name=t, partition_data=p) for t, p in topics.items()],
        )

    def _gather(self, in_flight: RoundInFlight, deadline: Deadline) -> Round:
        """Wait for a round's responses, and return the batches to send again.

        Raises:
            ClientError: a batch was rejected with a fatal error.
        """
        failures = dict(in_flight.failures)
        for sent in in_flight.sent:
            try:
                response = sent.connection.receive(sent.pending, deadline.remaining_ms)
            except ClientError as error:
                failures.update(dict.fromkeys(sent.partitions, error))
            else:
                failures.update(_refused(response))
        again: Round = {}
        for partition, failure in failures.items():
            if not self._may_pass(partition, failure):
                raise failure
            self._cluster.forget_topic(partition.topic)
            again[partition] = in_flight.round[partition]
            self._last_failure = failure
        return again

    def _may_pass(self, partition: TopicPartition, error: ClientError) -> bool:
        """Return whether to retry. A gap in the sequence is the result of an earlier failure.

        The first batch of a partition has no earlier batches. If its sequence is wrong, another
        sender of the transaction has written to the partition.
        """
        if isinstance(error, BrokerError) and error.code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
            return partition in self._acknowledged
        return error.retriable

    # -- retries -------------------------------------------------------------------------

    def _settle(self, oldest: RoundInFlight) -> None:
        """Complete a round. If a batch failed, complete all rounds in flight, in order.

        Raises:
            ClientError: a batch was rejected with a fatal error, or not written in time.
        """
        deadline = Deadline(self._options.connection.request_timeout_ms)
        again = self._gather(oldest, deadline)
        if again:
            rounds = [again]
            while self._in_flight:
                rounds.append(self._gather(self._in_flight.popleft(), deadline))
            for each in rounds:
                self._repeat(each)
        self._acknowledged.update(oldest.round)

    def _repeat(self, round_: Round) -> None:
        left = round_

        def attempt(deadline: Deadline) -> None:
            nonlocal left
            if not left:
                return
            in_flight = self._dispatch(left)
            left = self._gather(in_flight, deadline)
            if left:
                raise BrokerError(
                    ErrorCode.REQUEST_TIMED_OUT,
                    f"not written in time; the last failure was: {self._last_failure}",
                    _named(left),
                )

        self._cluster.retrying(attempt, self._options.connection.request_timeout_ms)


def _refused(response: ProduceResponse) -> Failures:
    """Return the errors of the partitions whose batch was rejected."""
    failures: Failures = {}
    for topic in response.responses:
        for each in topic.partition_responses:
            if each.error_code:
                partition = TopicPartition(topic.name, each.index)
                try:
                    check(each.error_code, each.error_message, f"partition {partition}")
                except BrokerError as error:
                    failures[partition] = error
    return failures


def _named(round_: Round) -> str:
    return "partitions " + ", ".join(map(str, sorted(round_)))
