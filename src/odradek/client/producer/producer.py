"""Writes records: the blocking shell of the producer's machines.

    with Producer(bootstrap_servers="localhost:9092") as producer:
        producer.send("greetings", b"hello", key=b"k")

A thread that is in a call drives the machines: it sends and receives. While nobody is in a call, the
keeper does, so that lingering records are sent and callbacks are called. No record crosses a thread.
`core` decides, `driver` has the connections.

Any number of threads may use one producer. Callbacks are called without the lock.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from types import TracebackType
from typing import Any, Self

from odradek.client.cluster import Cluster
from odradek.client.core.operation import Operation
from odradek.client.core.producer_batch import Delivery, ProducerBatch
from odradek.client.core.record_encoder import bytes_of, encode_headers
from odradek.client.core.topic_queues import TopicQueues
from odradek.client.core.transaction import TransactionState
from odradek.client.deadline import Deadline, monotonic_ms
from odradek.client.errors import ClosedError, RequestTimeoutError
from odradek.client.group_metadata import GroupMetadata
from odradek.client.producer.state import (
    ABORT_MS,
    CLOSE_SECONDS,
    Headers,
    Offsets,
    Positions,
    ProducerState,
    all_done,
    committed_offsets,
)
from odradek.client.producer.topic_wait import Reaching, TopicWait
from odradek.client.shell.keeper import Shell
from odradek.client.shell.telemetry import last_push
from odradek.records.compiled import COMPILED

__all__ = ["Delivery", "Producer", "ProducerBatch"]


class Producer(Shell, ProducerState):
    """A producer. At the end of a `with` statement it is flushed and closed.

    After an exception in the `with` statement, what was not sent is not sent, and an open transaction is
    aborted.
    """

    def __init__(
        self,
        cluster: Cluster | Mapping[str, object] | None = None,
        settings: Mapping[str, object] | None = None,
        *,
        on_batch: Callable[[ProducerBatch], None] | None = None,
        **keywords: object,
    ) -> None:
        """Make a producer, which connects when it is first used.

        Settings have Kafka's names in a mapping (`{"linger.ms": 20}`), or are keywords with
        underscores (`linger_ms=20`). Instead of settings for connections, a `Cluster` may be given
        first; its own connections are not used. `on_batch` is called with each batch that is done, in the thread that
        notices, and must not call the producer.

        Raises:
            ValueError: a setting is unknown or malformed, or settings contradict each other.
            TypeError: a serializer is none.
        """
        ProducerState.__init__(self, cluster, settings, keywords, self, on_batch)
        Shell.__init__(self, self._make_driver(), "producer")
        self._plain: AbstractContextManager[object] = self._lock
        """The lock for what is one call of compiled code."""
        if COMPILED:
            self._plain = self._lock.plain

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is not None or self._problem is not None:
            self.close(0)
            return
        try:
            self.flush()
        finally:
            self.close()

    # -- records --------------------------------------------------------------------------------

    def send(
        self,
        topic: str,
        value: Any = None,
        *,
        key: Any = None,
        headers: Headers | None = None,
        partition: int | None = None,
        timestamp: int | None = None,
        on_delivery: Callable[[Delivery], None] | None = None,
    ) -> Delivery:
        """Add a record to the batch of its partition, and return its delivery.

        The batch is sent when it is full (`batch.size`), `linger.ms` after its first record, or when
        somebody waits for it. Keys and values are bytes, or what the serializers take (`key_serializer`,
        `value_serializer`). `timestamp` is in ms since 1970; by default it is now. `on_delivery` is
        called with the delivery when it is done.

        Raises:
            TypeError: a key, a value or a header is not bytes.
            ValueError: the timestamp is negative.
            SerializationError: a serializer refuses the key or the value.
            ClosedError: the producer is closed, or was made before a fork.
            NoSuchTopicError: the topic does not exist and may not be created, or it has no such
                partition.
            RecordTooLargeError: the record is larger than `max.request.size`.
            BufferFullError: the buffer (`buffer.memory`) was full for `max.block.ms`.
            TransactionStateError: the producer is transactional, and no transaction is open.
            ClientError: no broker is reachable, or the transaction must be aborted.
        """
        if self._problem is not None:
            raise self._problem
        if self._serializers is not None:
            key = self._serializers.key(topic, key)
            value = self._serializers.value(topic, value)
        if value is not None and type(value) is not bytes:
            value = bytes_of(value, "a value")
        if key is not None and type(key) is not bytes:
            key = bytes_of(key, "a key")
        encoded = None
        if headers:
            encoded = encode_headers(headers.items() if isinstance(headers, Mapping) else headers)
        if timestamp is None:
            timestamp = int(time.time() * 1000)
        with self._plain:
            delivery = self._records.offer(
                topic, partition, key, value, encoded, timestamp, on_delivery
            )
        if delivery is None:
            with self._lock:
                delivery = self._send_slowly(
                    topic, partition, key, value, encoded, timestamp, on_delivery
                )
        if self._machine.has_done:
            self._call_back()
        return delivery

    def send_values(self, topic: str, values: Iterable[Any]) -> list[ProducerBatch]:
        """Add records that have only a value. Return their batches, in order.

        This costs a fraction of a call of `send` for each value. A batch that is returned has other
        records, too, if they are sent to the same partition at the same time.

        Raises:
            TypeError: a value is not bytes.
            ClientError: see `send`. Earlier values have been added.
        """
        self._check_usable()
        listed = values if isinstance(values, list) else list(values)
        if self._serializers is not None:
            listed = [self._serializers.value(topic, each) for each in listed]
        for each in listed:
            if type(each) is not bytes and each is not None:
                raise TypeError(f"a value is bytes or None, not {type(each).__name__}")
        batches: dict[ProducerBatch, None] = {}
        position, end = 0, len(listed)
        timestamp = int(time.time() * 1000)
        with self._lock:
            while position < end:
                delivery = self._send_slowly(topic, None, None, listed[position], None, timestamp)
                batches[delivery.batch] = None
                position, batch = self._records.offer_values(topic, listed, position + 1, timestamp)
                if batch is not None:
                    batches[batch] = None
        self._call_back()
        return list(batches)

    def send_arrow(
        self, topic: str, table: Any, *, partition: int | None = None
    ) -> list[ProducerBatch]:
        """Add the rows of a table of Arrow. Return their batches, in order (see `wait`).

        `table` is a `pyarrow.Table` or `RecordBatch`, or another object with Arrow's interface, such as a data
        frame of Polars, with a column `value`, and perhaps `key` and `headers` (lists of structs of key and
        value). Without `partition`, rows with a key go where `send` would put them. All rows get the
        current time. Serializers are not used.

        Raises:
            ImportError: pyarrow is not installed (`pip install 'odradek[arrow]'`).
            TypeError, ValueError: it is no such table, or the producer has serializers.
            ClientError: see `send`. Earlier batches have been added.
        """
        self._check_usable()
        batches: list[ProducerBatch] = []
        timestamp = int(time.time() * 1000)
        with self._lock:
            self._check_sending()
            found = self._topic(topic, Deadline(self._options.block_ms_max))
            for chosen, records in self._arrow_batches(table, found, partition):
                self._make_room(len(records.data), Deadline(self._options.block_ms_max))
                self._check_sending()
                batches.append(self._add_arrow(found, chosen, records, timestamp))
                self._work()
            self._keep()
        self._call_back()
        return batches

    def _send_slowly(
        self,
        topic: str,
        partition: int | None,
        key: bytes | None,
        value: bytes | None,
        headers: bytes | None,
        timestamp: int,
        callback: Callable[[Delivery], None] | None = None,
    ) -> Delivery:
        """Add a record that begins a batch, or must wait. The caller has the lock."""
        machine = self._machine
        size = self._size_of(topic, key, value, headers, timestamp)
        deadline = Deadline(self._options.block_ms_max)
        self._check_sending()
        if machine.records.has_due:
            self._work()
        found = self._topic(topic, deadline)
        partition = self._partition_of(topic, found, partition, key)
        self._make_room(size, deadline)
        delivery = machine.records.append(
            found, partition, key, value, headers, timestamp, monotonic_ms(), callback
        )
        if machine.records.has_due:
            self._work()
        self._keep()
        return delivery

    def _check_sending(self) -> None:
        if self._problem is not None:
            raise self._problem
        self._check_may_send()

    def _topic(self, name: str, deadline: Deadline) -> TopicQueues:
        """Return the queues of a topic. Wait until it is known."""
        found = self._machine.records.topic(name, monotonic_ms())
        if found is not None:
            return found
        waiting = TopicWait(self._routes, name, creates=self._options.creates_topics)
        if not self._wait_until(waiting.is_known, deadline):
            raise waiting.too_late(deadline.timeout_ms, "max.block.ms")
        found = self._machine.records.topic(name, monotonic_ms())
        assert found is not None, "it was known when the wait ended"
        return found

    def _make_room(self, size: int, deadline: Deadline) -> None:
        machine = self._machine
        limit = max(self._options.buffer_bytes - size, 0)
        if machine.records.buffered_bytes <= limit:
            return
        machine.records.flush()
        if not self._wait_until(lambda: machine.records.buffered_bytes <= limit, deadline):
            raise self._no_room(deadline.timeout_ms)
        self._check_sending()

    # -- delivery -------------------------------------------------------------------------------

    def poll(self) -> None:
        """Send the batches that are due and process responses that have arrived; do not wait."""
        self._check_usable()
        with self._lock:
            self._work()
        self._call_back()

    def flush(self, timeout: float | None = None) -> None:
        """Send all batches and wait until each is written or has failed; at most `timeout` seconds.

        Their callbacks have returned then.

        Raises:
            NotDeliveredError: some records since the last flush were not written.
            RequestTimeoutError: not all are done after `timeout`.
            ClosedError: the producer is closed.
        """
        self._check_usable()
        self._check_no_callback("flush")
        machine = self._machine
        deadline = None if timeout is None else Deadline(round(timeout * 1000))
        with self._lock:
            machine.records.flush()
            done = self._wait_until(all_done(machine.unfinished()), deadline)
        self._finish_calls(deadline)
        self._raise_failures()
        if not done:
            raise RequestTimeoutError(f"records are not written after {timeout} s")

    def _raise_failures(self) -> None:
        with self._lock:
            error = self._forget_failures()
        if error is not None:
            raise error

    def wait(self, batch: ProducerBatch, timeout_s: float | None) -> None:
        """Wait until a batch is done (see `Delivery.wait`)."""
        self._check_usable()
        self._check_no_callback("wait")
        deadline = None if timeout_s is None else Deadline(round(timeout_s * 1000))
        with self._lock:
            self._machine.records.hurry(batch)
            done = self._wait_until(lambda: batch.done, deadline)
        self._call_back()
        if not done:
            raise RequestTimeoutError(
                f"partition {batch.topic_partition}: not written after {timeout_s} s"
            )

    def block(self, batch: ProducerBatch, timeout_s: float | None) -> None:
        """See `Delivery.wait`."""
        self.wait(batch, timeout_s)

    def call_later(self, delivery: Delivery, callback: Callable[[Delivery], None]) -> bool:
        """See `Delivery.add_callback`."""
        with self._lock:
            if delivery.done:
                return False
            delivery.callback_later(callback)
        return True

    def awaiting(self, delivery: Delivery) -> Generator[Any, None, Delivery]:
        """Refuse: only producers of `odradek.client.aio` can be awaited."""
        raise TypeError("this producer blocks: call delivery.wait(), or use odradek.client.aio")

    def _has_work(self) -> bool:
        """See `Shell`."""
        return self._machine.has_batches or self._telemetry.is_active

    def _has_calls(self) -> bool:
        """See `Shell`."""
        return self._machine.has_done

    def _take_calls(self) -> list[ProducerBatch]:
        """See `Shell`."""
        with self._lock:
            return self._machine.take_done()

    # -- transactions ---------------------------------------------------------------------------

    @contextmanager
    def transaction(self, consumer: Positions | None = None) -> Iterator[None]:
        """Begin a transaction, and commit it at the end of the `with` statement.

        With `consumer`, the transaction also has the offsets of the records that the consumer has
        returned, under the identity of its member (KIP-447). After an exception it is aborted.

        Raises:
            ClientError: see `begin_transaction` and `commit_transaction`. If the commit is refused, the
                transaction is aborted first.
        """
        if self._transactions().state == TransactionState.UNINITIALIZED:
            self.init_transactions()
        self.begin_transaction()
        try:
            yield
            if consumer is not None:
                self.send_offsets_to_transaction(consumer.consumed_offsets, consumer.group_metadata)
            self.commit_transaction()
        except BaseException:
            if self._transactions().must_abort:
                self.abort_transaction()
            raise

    def init_transactions(self, timeout: float | None = None) -> None:
        """Fence earlier producers with the same `transactional.id`, and end their transaction.

        `timeout` is in seconds, in all methods of transactions; by default it is `max.block.ms`.

        Raises:
            TransactionStateError: the producer has no `transactional.id`, or this was called before.
            RequestTimeoutError: it takes longer; call the method again.
            ClientError: the coordinator refuses, for example because of a missing right.
        """
        self._operate(lambda: self._transactions().init(), timeout)

    def begin_transaction(self) -> None:
        """Begin a transaction. No broker is asked.

        Raises:
            TransactionStateError: there is one, or `init_transactions` was not called.
            ClientError: the producer has failed, for example because it is fenced.
        """
        self._check_usable()
        with self._lock:
            self._machine.records.must_check()
            self._transactions().begin()

    def send_offsets_to_transaction(
        self,
        offsets: Offsets,
        group_metadata: GroupMetadata,
        timeout: float | None = None,
    ) -> None:
        """Commit offsets of a group with the transaction. They are those of the next records to read.

        Raises:
            ClientError: the transaction must be aborted, for example because the member lost its
                partitions in a rebalance.
        """
        wanted = committed_offsets(offsets)
        if wanted:
            self._operate(lambda: self._transactions().add_offsets(wanted, group_metadata), timeout)

    def commit_transaction(self, timeout: float | None = None) -> None:
        """Send all records, and commit.

        Raises:
            RequestTimeoutError: it takes longer; call the method again. Until then it is unknown whether
                the transaction is committed.
            ClientError: a record was not written, or the producer is fenced. Nothing is committed; call
                `abort_transaction`, unless the producer has failed.
        """
        self._operate(lambda: self._transactions().end(is_commit=True), timeout)
        with self._lock:
            self._forget_failures()

    def abort_transaction(self, timeout: float | None = None) -> None:
        """Abort. Records that are not in flight are not sent any more.

        Raises:
            RequestTimeoutError: it takes longer; call the method again.
            ClientError: the producer is fenced or has failed.
        """
        self._operate(lambda: self._transactions().end(is_commit=False), timeout)
        with self._lock:
            self._forget_failures()

    def _operate(self, begin: Callable[[], Operation], timeout: float | None) -> None:
        self._check_usable()
        self._check_no_callback("a transaction")
        limit_ms = self._options.block_ms_max if timeout is None else round(timeout * 1000)
        deadline = Deadline(limit_ms)
        routes = self._routes
        reaching = Reaching(routes)
        with self._lock:
            self._machine.records.must_check()
            operation = begin()

            def is_done() -> bool:
                if not operation.done:
                    reaching.check()
                return operation.done

            done = self._wait_until(is_done, deadline)
            self._machine.records.must_check()
        self._call_back()
        if operation.error is not None:
            raise operation.error
        if not done:
            raise self._no_answer(operation, limit_ms)

    # -- the end --------------------------------------------------------------------------------

    def close(self, timeout: float = CLOSE_SECONDS) -> None:
        """Send all records, abort an open transaction, and close the connections.

        What is not written after `timeout` seconds fails: its deliveries have an error. A second call
        does nothing.
        """
        if self._problem is not None:
            return
        deadline = Deadline(0 if self._is_in_callback() else round(timeout * 1000))
        machine = self._machine
        with self._lock:
            machine.records.flush()
            if not deadline.expired:
                self._wait_until(lambda: not machine.has_batches, deadline)
            transaction = machine.transaction
            if transaction is not None and transaction.must_abort:
                operation = transaction.end(is_commit=False)
                self._wait_until(
                    lambda: operation.done, Deadline(max(deadline.remaining_ms, ABORT_MS))
                )
            machine.fail_all(ClosedError("the producer was closed before the record was written"))
            self._telemetry.terminate()
            self._wait_until(self._telemetry.has_ended, last_push(deadline))
        self._finish_calls(deadline)
        self._end(ClosedError("the producer is closed", "Make a new one."))
