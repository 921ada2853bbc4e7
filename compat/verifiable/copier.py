"""Copies records from a topic to another one in transactions, together with the offsets."""

from __future__ import annotations

import datetime
import random
from collections.abc import Sequence

from compat.verifiable.events import Stop, parser, show
from odradek.client import Consumer, Producer
from odradek.client.core.consumed_batch import Batch
from odradek.client.errors import BrokerError, ClientError
from odradek.model.errors import ErrorCode
from odradek.model.topic_partition import TopicPartition

POLL_SECONDS = 0.2
UNLIMITED = 2**63 - 1
FATAL = (ErrorCode.PRODUCER_FENCED, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
"""Errors after which the program fails."""


class Abort(Exception):
    """The transaction is aborted for the test."""


class Copier:
    """A consumer and a producer, and how far they are."""

    def __init__(self, words: Sequence[str]) -> None:
        options = parser("copier", "--input-topic", "--output-topic", "--broker-list")
        options.add_argument("--input-partition", type=int, required=True)
        options.add_argument("--consumer-group", default="-1")
        options.add_argument("--transaction-size", type=int, default=200)
        options.add_argument("--transaction-timeout", type=int, default=60_000)
        options.add_argument("--transactional-id", required=True)
        options.add_argument("--enable-random-aborts", action="store_true")
        options.add_argument("--group-mode", action="store_true")
        options.add_argument("--use-group-metadata", action="store_true")
        self.given = given = options.parse_args(words)
        self.producer = Producer(
            {"bootstrap.servers": given.broker_list, "transactional.id": given.transactional_id},
            batch_size=512,
            transaction_timeout_ms=given.transaction_timeout,
        )
        self.consumer = Consumer(
            {"bootstrap.servers": given.broker_list, "group.id": given.consumer_group},
            isolation_level="read_committed",
            enable_auto_commit=False,
            max_poll_records=given.transaction_size,
            session_timeout_ms=10_000,
            max_poll_interval_ms=180_000,
            auto_offset_reset="earliest",
        )
        self.remaining = UNLIMITED if given.max_messages < 0 else given.max_messages
        self.consumed = 0
        self.total = 0
        self.draw = random.Random()

    def run(self) -> None:
        """Copy until nothing is left, or SIGTERM."""
        given, consumer = self.given, self.consumer
        stop = Stop()
        if given.group_mode:
            consumer.subscribe(given.input_topic, on_assigned=self._assigned)
        else:
            partition = TopicPartition(given.input_topic, given.input_partition)
            consumer.assign([partition])
            self.remaining = min(self.remaining, self._left(partition))
        self.producer.init_transactions()
        while self.remaining > 0 and not stop.is_set:
            self._tell("progress", stage="ProcessLoop")
            batch = consumer.poll(POLL_SECONDS)
            if batch is not None:
                self._copy(batch)

    def _copy(self, batch: Batch) -> None:
        try:
            with self.producer.transaction(self.consumer):
                records = batch.records()
                for each in records:
                    self.producer.send(
                        self.given.output_topic,
                        each.value,
                        key=each.key,
                        partition=each.partition,
                    )
                if self.given.enable_random_aborts and self.draw.random() < 1 / 3:
                    raise Abort
        except Abort:
            self._go_back()
        except ClientError as error:
            if isinstance(error, BrokerError) and error.code in FATAL:
                raise
            self._go_back()
        else:
            self.remaining -= len(records)
            self.consumed += len(records)
            self.total += len(records)

    def _go_back(self) -> None:
        """Read again what was not committed."""
        assigned = list(self.consumer.assignment)
        committed = self.consumer.committed(assigned)
        for each in assigned:
            if each in committed:
                self.consumer.seek(each, committed[each])
            else:
                self.consumer.seek_to_beginning(each)

    def _assigned(self, partitions: Sequence[TopicPartition]) -> None:
        self.remaining = sum(self._left(each) for each in partitions)
        self.consumed = 0
        self._tell("progress", stage="RebalanceComplete")

    def _left(self, partition: TopicPartition) -> int:
        end = self.consumer.end_offsets(partition)[partition]
        return end - self.consumer.position(partition)

    def _tell(self, what: str, **more: str) -> None:
        show(
            {
                what: self.given.transactional_id,
                "totalProcessed": self.total,
                "consumed": self.consumed,
                "remaining": self.remaining,
                "time": datetime.datetime.now().strftime("%Y/%m/%d %H:%M:%S:%f")[:-3],  # noqa: DTZ005
                **more,
            }
        )

    def close(self) -> None:
        """Close both, and tell the end."""
        self.producer.close()
        self.consumer.close()
        self._tell("shutdown_complete")


def main(words: Sequence[str]) -> int:
    """Run the copier."""
    copier = Copier(words)
    try:
        copier.run()
    finally:
        copier.close()
    return 0
