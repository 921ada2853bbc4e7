"""The machines of a producer, and the parts of its methods that do not wait.

The blocking producer and that of `odradek.client.aio` are shells around this.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from odradek.client.cluster import Cluster
from odradek.client.core.client_metrics import ProducerMeter
from odradek.client.core.operation import Operation
from odradek.client.core.producer import ProducerMachine
from odradek.client.core.producer_batch import ProducerBatch, Waiter
from odradek.client.core.producer_settings import ProducerSettings
from odradek.client.core.routes import Routes
from odradek.client.core.topic_queues import TopicQueues
from odradek.client.core.transaction import TransactionMachine
from odradek.client.deadline import monotonic_ms
from odradek.client.errors import (
    BufferFullError,
    ClientError,
    NoSuchTopicError,
    NotDeliveredError,
    RecordTooLargeError,
    RequestTimeoutError,
    TransactionStateError,
)
from odradek.client.group_metadata import CommittedOffset, GroupMetadata
from odradek.client.producer.options import given_settings, producer_settings
from odradek.client.producer.serializing import serializers
from odradek.client.shell.driver import Driver, Machine, in_thread
from odradek.client.shell.settings import connection_of
from odradek.client.shell.telemetry import telemetry_of
from odradek.model.topic_partition import TopicPartition

if TYPE_CHECKING:
    from odradek.arrow.encoding import EncodedRecords

Headers = Iterable[tuple[str, bytes | None]] | Mapping[str, bytes | None]
Offsets = Mapping[TopicPartition, int | CommittedOffset]

_RECORD_OVERHEAD = 32
"""More than the size of a record without key, value and headers."""
CLOSE_SECONDS = 30.0
ABORT_MS = 2_000
"""How long `close` waits for the end of a transaction at least."""


class Positions(Protocol):
    """A consumer whose progress can be a part of a transaction."""

    @property
    def consumed_offsets(self) -> Mapping[TopicPartition, CommittedOffset]:
        """The offset of the next record of each partition, with the leader epoch of the last one."""
        ...

    @property
    def group_metadata(self) -> GroupMetadata:
        """The identity of the member."""
        ...


class ProducerState:
    """What a producer has besides its connections and its way to wait."""

    def __init__(
        self,
        cluster: Cluster | Mapping[str, object] | None,
        settings: Mapping[str, object] | None,
        keywords: Mapping[str, object],
        waiter: Waiter,
        on_batch: Callable[[ProducerBatch], None] | None,
    ) -> None:
        """Raise a ValueError if a setting is wrong, and a TypeError if a serializer is none."""
        if isinstance(cluster, Cluster):
            given = given_settings(settings or {}, keywords)
            options = producer_settings(given, cluster.timeout_ms)
            self._connection = connection_of(cluster)
        else:
            given = given_settings({**(cluster or {}), **(settings or {})}, keywords)
            options = producer_settings(given)
            self._connection = given.connection()
        self._options: ProducerSettings = options
        self._serializers = serializers(given)
        self._failed_count = 0
        self._first_error: ClientError | None = None
        self._user_hook = on_batch
        self._routes = Routes(
            _random_number,
            request_timeout_ms=options.request_timeout_ms,
            retry_backoff_ms=options.retry_backoff_ms,
            retry_backoff_max_ms=options.retry_backoff_ms_max,
            metadata_max_age_ms=given.number_or("metadata.max.age.ms", 300_000),
            creates_topics=options.creates_topics,
            recovery=self._connection.recovery,
        )
        self._machine = ProducerMachine(
            options, self._routes, _random_number, waiter=waiter, on_batch=self._batch_done
        )
        self._records = self._machine.records
        self._meter = ProducerMeter(self._machine.queue_times, options.transactional_id)
        self._telemetry = telemetry_of(given, self._routes, self._meter)

    def _make_driver(self, run_aside: Callable[[Callable[[], None]], None] = in_thread) -> Driver:
        machines: list[Machine] = [self._machine, self._telemetry]
        return Driver(self._connection, self._routes, machines, run_aside, self._meter)

    # -- records --------------------------------------------------------------------------------

    def _size_of(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        headers: bytes | None,
        timestamp: int,
    ) -> int:
        """Return about how much room a record needs.

        Raises:
            RecordTooLargeError, ValueError: see `send`.
        """
        size = len(key or b"") + len(value or b"") + len(headers or b"")
        if size > self._options.request_bytes_max:
            raise RecordTooLargeError(
                f"a record for {topic} has {size:,} bytes; max.request.size is "
                f"{self._options.request_bytes_max:,}"
            )
        if timestamp < 0:
            raise ValueError(f"timestamp is {timestamp}; it must be ms since 1970")
        return size + _RECORD_OVERHEAD

    def _check_may_send(self) -> None:
        if self._machine.error is not None:
            raise self._machine.error
        if self._machine.transaction is not None:
            self._machine.transaction.check_send()

    def _partition_of(
        self, topic: str, found: TopicQueues, partition: int | None, key: bytes | None
    ) -> int:
        """Return the partition of a record; -1 for the one of records without a key."""
        if partition is None:
            return self._records.partition_of(found, key)
        if not 0 <= partition < len(found.queues):
            raise NoSuchTopicError(topic, partition)
        return partition

    def _no_room(self, timeout_ms: int) -> BufferFullError:
        reason = self._routes.last_error
        return BufferFullError(
            f"{self._records.buffered_bytes:,} bytes wait for being sent, and buffer.memory is "
            f"{self._options.buffer_bytes:,}; no room after {timeout_ms} ms "
            f"(max.block.ms){'' if reason is None else f'; the last failure was: {reason}'}"
        )

    def _arrow_batches(
        self, table: Any, topic: TopicQueues, partition: int | None
    ) -> Iterator[tuple[int, EncodedRecords]]:
        """Yield the partitions (-1: the sticky one) and records of the batches of a table.

        Raises:
            ImportError, RecordTooLargeError, NoSuchTopicError: see `send_arrow`.
        """
        try:
            from odradek.arrow.rows import encoded, rows_of
        except ImportError as error:
            raise ImportError(
                f"send_arrow needs pyarrow and numpy: pip install 'odradek[arrow]' ({error})"
            ) from error
        if self._serializers is not None:
            raise ValueError("send_arrow writes bytes: this producer has serializers")
        options = self._options
        if partition is not None and not 0 <= partition < len(topic.queues):
            raise NoSuchTopicError(topic.name, partition)
        batch_bytes = max(1, min(options.batch_bytes, options.request_bytes_max))
        for chosen, records in encoded(
            rows_of(table),
            partition,
            lambda key: self._records.partition_of(topic, key),
            batch_bytes,
        ):
            if records.record_count == 1 and len(records.data) > options.request_bytes_max:
                raise RecordTooLargeError(
                    f"a record for {topic.name} has {len(records.data):,} bytes; max.request.size is "
                    f"{options.request_bytes_max:,}"
                )
            yield chosen, records.compressed(options.codec, options.compression_level)

    def _add_arrow(
        self, topic: TopicQueues, partition: int, records: EncodedRecords, timestamp: int
    ) -> ProducerBatch:
        """Add a batch of a table, for which there is room."""
        sticks = partition < 0
        if sticks:
            partition = topic.choose()
        batch = self._records.add_encoded(topic, partition, *records, timestamp, monotonic_ms())
        if sticks:
            topic.sticky.sent(batch.size, is_full=True)
        return batch

    # -- delivery -------------------------------------------------------------------------------

    def _batch_done(self, batch: ProducerBatch) -> None:
        if batch.parts:
            return  # they were noted themselves
        if batch.error is not None:
            self._failed_count += batch.count
            self._first_error = self._first_error or batch.error
        if self._user_hook is not None:
            self._user_hook(batch)

    def _forget_failures(self) -> NotDeliveredError | None:
        """Return the error of the records that were not written since the last call."""
        count, error = self._failed_count, self._first_error
        self._first_error, self._failed_count = None, 0
        if error is None:
            return None
        records = "1 record was" if count == 1 else f"{count} records were"
        failure = NotDeliveredError(f"{records} not written: {error}", error.advice)
        failure.__cause__ = error
        return failure

    # -- transactions ---------------------------------------------------------------------------

    def _transactions(self) -> TransactionMachine:
        if self._machine.transaction is None:
            raise TransactionStateError(
                "the producer has no transactions", "Set transactional.id, a name of its own."
            )
        return self._machine.transaction

    def _no_answer(self, operation: Operation, limit_ms: int) -> RequestTimeoutError:
        reason = operation.last_error or self._routes.last_error
        return RequestTimeoutError(
            f"{operation.name} has no answer after {limit_ms} ms (max.block.ms)"
            f"{'' if reason is None else f'; the last failure was: {reason}'}",
            "Call the same method again.",
        )


def all_done(batches: list[ProducerBatch]) -> Callable[[], bool]:
    """Return a function that tells whether all batches are done. It looks at each one once."""

    def is_done() -> bool:
        while batches and batches[-1].done:
            batches.pop()
        return not batches

    return is_done


def committed_offsets(offsets: Offsets) -> dict[TopicPartition, CommittedOffset]:
    """Return offsets as they are committed."""
    return {TopicPartition(*each): _committed(offset) for each, offset in offsets.items()}


def _committed(offset: int | CommittedOffset) -> CommittedOffset:
    return offset if isinstance(offset, CommittedOffset) else CommittedOffset(offset)


def _random_number() -> int:
    return random.getrandbits(31)
