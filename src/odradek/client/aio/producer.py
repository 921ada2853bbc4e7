"""Writes records: the asyncio shell of the producer's machines.

    async with Producer(bootstrap_servers="localhost:9092") as producer:
        delivery = await producer.send("greetings", b"hello", key=b"k")   # is in a batch
        await delivery                                                    # is written

A record costs no future: those who await deliveries of one batch wait for the batch. The batch of an awaited
delivery is sent when all tasks that can run have run, if its partition is not busy; so tasks that send at the
same time share batches.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Generator, Iterable, Mapping
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Any, Self

from odradek.client.aio.shell import AsyncShell
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
from odradek.client.shell.telemetry import last_push

__all__ = ["Delivery", "Producer", "ProducerBatch"]


class Producer(AsyncShell, ProducerState):
    """A producer. At the end of an `async with` statement it is flushed and closed.

    After an exception in the `async with` statement, what was not sent is not sent, and an open
    transaction is aborted. Each method may be cancelled.
    """

    def __init__(
        self,
        settings: Mapping[str, object] | None = None,
        *,
        on_batch: Callable[[ProducerBatch], None] | None = None,
        **keywords: object,
    ) -> None:
        """Make a producer, which connects when it is first used.

        The settings are those of `odradek.client.Producer`. `on_batch` is called with each batch that is
        done, and must not call the producer.

        Raises:
            ValueError: a setting is unknown or malformed, or settings contradict each other.
            TypeError: a serializer is none.
        """
        self._awaited: dict[ProducerBatch, list[asyncio.Future[None]]] = {}
        self._hurried: list[ProducerBatch] = []
        """Batches that somebody has begun to wait for."""
        ProducerState.__init__(self, None, settings, keywords, self, on_batch)
        AsyncShell.__init__(self, self._make_driver, "producer")

    async def __aenter__(self) -> Self:
        self._enter()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is not None or self._problem is not None:
            await self.close(0)
            return
        try:
            await self.flush()
        finally:
            await self.close()

    # -- records --------------------------------------------------------------------------------

    async def send(
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
        """Add a record to the batch of its partition, and return its delivery, which can be awaited.

        Usually this does not wait. It waits while the topic is unknown or the buffer is full. If it is cancelled, the
        record is not added. The arguments and errors are those of `odradek.client.Producer.send`.
        """
        if self._problem is not None:
            raise self._problem
        if asyncio.get_running_loop() is not self._loop:
            self._enter()
        if self._serializers is not None:
            key, value = await self._serialized(topic, key, value)
        if value is not None and type(value) is not bytes:
            value = bytes_of(value, "a value")
        if key is not None and type(key) is not bytes:
            key = bytes_of(key, "a key")
        encoded = None
        if headers:
            encoded = encode_headers(headers.items() if isinstance(headers, Mapping) else headers)
        if timestamp is None:
            timestamp = int(time.time() * 1000)
        delivery = self._records.offer(
            topic, partition, key, value, encoded, timestamp, on_delivery
        )
        if delivery is None:
            delivery = await self._send_slowly(
                topic, partition, key, value, encoded, timestamp, on_delivery
            )
        return delivery

    async def send_values(self, topic: str, values: Iterable[Any]) -> list[ProducerBatch]:
        """Add records that have only a value. Return their batches, in order (see `wait`).

        This costs a fraction of a call of `send` for each value. If it is cancelled, earlier values have
        been added. The arguments and errors are those of `odradek.client.Producer.send_values`.
        """
        self._enter()
        listed = values if isinstance(values, list) else list(values)
        if self._serializers is not None:
            listed = [(await self._serialized(topic, None, each))[1] for each in listed]
        for each in listed:
            if type(each) is not bytes and each is not None:
                raise TypeError(f"a value is bytes or None, not {type(each).__name__}")
        batches: dict[ProducerBatch, None] = {}
        position, end = 0, len(listed)
        timestamp = int(time.time() * 1000)
        while position < end:
            delivery = await self._send_slowly(topic, None, None, listed[position], None, timestamp)
            batches[delivery.batch] = None
            position, batch = self._records.offer_values(topic, listed, position + 1, timestamp)
            if batch is not None:
                batches[batch] = None
        return list(batches)

    async def send_arrow(
        self, topic: str, table: Any, *, partition: int | None = None
    ) -> list[ProducerBatch]:
        """Add the rows of a table of Arrow. Return their batches, in order (see `wait`).

        If it is cancelled, earlier batches have been added. The arguments and errors are those of
        `odradek.client.Producer.send_arrow`.
        """
        self._enter()
        batches: list[ProducerBatch] = []
        timestamp = int(time.time() * 1000)
        self._check_may_send()
        found = await self._topic(topic, Deadline(self._options.block_ms_max))
        for chosen, records in self._arrow_batches(table, found, partition):
            await asyncio.sleep(0)  # once a batch, other tasks get their turn
            await self._make_room(len(records.data), Deadline(self._options.block_ms_max))
            if self._problem is not None:
                raise self._problem
            self._check_may_send()
            batches.append(self._add_arrow(found, chosen, records, timestamp))
            self._soon()
        return batches

    async def _serialized(self, topic: str, key: Any, value: Any) -> tuple[Any, Any]:
        """Return the bytes of a key and a value. A schema registry is asked on the executor."""
        found = self._serializers
        assert found is not None, "the caller has looked"
        if found.is_ready(topic, key, value):
            return found.key(topic, key), found.value(topic, value)

        def serialize() -> tuple[Any, Any]:
            return found.key(topic, key), found.value(topic, value)

        return await self._enter().run_in_executor(None, serialize)

    async def _send_slowly(
        self,
        topic: str,
        partition: int | None,
        key: bytes | None,
        value: bytes | None,
        headers: bytes | None,
        timestamp: int,
        callback: Callable[[Delivery], None] | None = None,
    ) -> Delivery:
        """Add a record that begins a batch, or must wait."""
        self._enter()
        size = self._size_of(topic, key, value, headers, timestamp)
        deadline = Deadline(self._options.block_ms_max)
        self._check_may_send()
        await asyncio.sleep(0)  # once a batch, other tasks get their turn
        found = await self._topic(topic, deadline)
        chosen = self._partition_of(topic, found, partition, key)
        await self._make_room(size, deadline)
        if self._problem is not None:
            raise self._problem
        self._check_may_send()
        delivery = self._records.append(
            found, chosen, key, value, headers, timestamp, monotonic_ms(), callback
        )
        if self._records.has_due:
            self._soon()
        else:
            self._arm()
        return delivery

    async def _topic(self, name: str, deadline: Deadline) -> TopicQueues:
        """Return the queues of a topic. Wait until it is known."""
        found = self._records.topic(name, monotonic_ms())
        if found is not None:
            return found
        waiting = TopicWait(self._routes, name, creates=self._options.creates_topics)
        if not await self._wait_until(waiting.is_known, deadline):
            raise waiting.too_late(deadline.timeout_ms, "max.block.ms")
        found = self._records.topic(name, monotonic_ms())
        assert found is not None, "it was known when the wait ended"
        return found

    async def _make_room(self, size: int, deadline: Deadline) -> None:
        records = self._records
        limit = max(self._options.buffer_bytes - size, 0)
        while records.buffered_bytes > limit:  # another task may be faster
            records.flush()
            if not await self._wait_until(lambda: records.buffered_bytes <= limit, deadline):
                raise self._no_room(deadline.timeout_ms)

    # -- delivery -------------------------------------------------------------------------------

    async def flush(self, timeout: float | None = None) -> None:
        """Send all batches and wait until each is written or has failed; at most `timeout` seconds.

        Their callbacks have returned then.

        Raises:
            NotDeliveredError: some records since the last flush were not written.
            RequestTimeoutError: not all are done after `timeout`.
            ClosedError: the producer is closed.
        """
        self._enter()
        deadline = None if timeout is None else Deadline(round(timeout * 1000))
        self._records.flush()
        done = await self._wait_until(all_done(self._machine.unfinished()), deadline)
        error = self._forget_failures()
        if error is not None:
            raise error
        if not done:
            raise RequestTimeoutError(f"records are not written after {timeout} s")

    async def wait(self, batch: ProducerBatch) -> ProducerBatch:
        """Wait until a batch of `send_values` is written, and return it.

        Raises:
            ClientError: it was not written, and why.
        """
        await self._done(batch)
        if batch.error is not None:
            raise batch.error
        return batch

    def awaiting(self, delivery: Delivery) -> Generator[Any, None, Delivery]:
        """See `Delivery.__await__`."""
        return self._delivered(delivery).__await__()

    async def _delivered(self, delivery: Delivery) -> Delivery:
        await self._done(delivery.batch)
        error = delivery.error
        if error is not None:
            raise error
        return delivery

    async def _done(self, batch: ProducerBatch) -> None:
        if batch.done:
            return
        loop = self._enter()
        if not self._hurried:
            loop.call_soon(self._hurry)
        self._hurried.append(batch)
        future: asyncio.Future[None] = loop.create_future()
        futures = self._awaited.setdefault(batch, [])
        futures.append(future)
        try:
            await future
        finally:
            if not batch.done:  # this was cancelled
                futures.remove(future)

    def _hurry(self) -> None:
        """Close the batches that somebody waits for, unless others of their partitions come first."""
        batches, self._hurried = self._hurried, []
        for batch in batches:
            queue = self._records.active.get(batch.topic_partition)
            if queue is not None and queue.open is batch and queue.may_close:
                self._records.close(queue)
        if self._records.has_due:
            self._turn()

    def block(self, batch: ProducerBatch, timeout_s: float | None) -> None:
        """Refuse `delivery.wait()`."""
        raise TypeError("delivery.wait() would block the event loop: write `await delivery`")

    def call_later(self, delivery: Delivery, callback: Callable[[Delivery], None]) -> bool:
        """See `Delivery.add_callback`."""
        if delivery.done:
            return False
        delivery.callback_later(callback)
        return True

    def _batch_done(self, batch: ProducerBatch) -> None:
        super()._batch_done(batch)
        for future in self._awaited.pop(batch, ()):
            if not future.done():
                future.set_result(None)

    def _has_work(self) -> bool:
        """See `AsyncShell`."""
        return self._machine.has_batches or self._telemetry.is_active

    def _take_calls(self) -> list[ProducerBatch]:
        """See `AsyncShell`."""
        return self._machine.take_done()

    # -- transactions ---------------------------------------------------------------------------

    @asynccontextmanager
    async def transaction(self, consumer: Positions | None = None) -> AsyncIterator[None]:
        """Begin a transaction, and commit it at the end of the `async with` statement.

        With `consumer`, the transaction also has the offsets of the records that the consumer has
        returned, under the identity of its member (KIP-447). After an exception, also if the task is
        cancelled, it is aborted.

        Raises:
            ClientError: see `begin_transaction` and `commit_transaction`. If the commit is refused, the
                transaction is aborted first.
        """
        if self._transactions().state == TransactionState.UNINITIALIZED:
            await self.init_transactions()
        self.begin_transaction()
        try:
            yield
            if consumer is not None:
                await self.send_offsets_to_transaction(
                    consumer.consumed_offsets, consumer.group_metadata
                )
            await self.commit_transaction()
        except BaseException:
            if self._transactions().must_abort:
                await self.abort_transaction()
            raise

    async def init_transactions(self, timeout: float | None = None) -> None:
        """See `odradek.client.Producer.init_transactions`."""
        await self._operate(lambda: self._transactions().init(), timeout)

    def begin_transaction(self) -> None:
        """Begin a transaction. No broker is asked, so this is not awaited.

        Raises:
            TransactionStateError: there is one, or `init_transactions` was not called.
            ClientError: the producer has failed, for example because it is fenced.
        """
        self._enter()
        self._records.must_check()
        self._transactions().begin()

    async def send_offsets_to_transaction(
        self, offsets: Offsets, group_metadata: GroupMetadata, timeout: float | None = None
    ) -> None:
        """See `odradek.client.Producer.send_offsets_to_transaction`."""
        wanted = committed_offsets(offsets)
        if wanted:
            await self._operate(
                lambda: self._transactions().add_offsets(wanted, group_metadata), timeout
            )

    async def commit_transaction(self, timeout: float | None = None) -> None:
        """See `odradek.client.Producer.commit_transaction`.

        If this is cancelled, it is unknown whether the transaction is committed: call it again.
        """
        await self._operate(lambda: self._transactions().end(is_commit=True), timeout)
        self._forget_failures()

    async def abort_transaction(self, timeout: float | None = None) -> None:
        """See `odradek.client.Producer.abort_transaction`."""
        await self._operate(lambda: self._transactions().end(is_commit=False), timeout)
        self._forget_failures()

    async def _operate(self, begin: Callable[[], Operation], timeout: float | None) -> None:
        self._enter()
        limit_ms = self._options.block_ms_max if timeout is None else round(timeout * 1000)
        deadline = Deadline(limit_ms)
        reaching = Reaching(self._routes)
        self._records.must_check()
        operation = begin()

        def is_done() -> bool:
            if not operation.done:
                reaching.check()
            return operation.done

        try:
            done = await self._wait_until(is_done, deadline)
        finally:
            self._records.must_check()
        if operation.error is not None:
            raise operation.error
        if not done:
            raise self._no_answer(operation, limit_ms)

    # -- the end --------------------------------------------------------------------------------

    async def close(self, timeout: float = CLOSE_SECONDS) -> None:
        """Send all records, abort an open transaction, and close the connections.

        What is not written after `timeout` seconds fails: its deliveries have an error. If this is
        cancelled, the connections are closed at once. A second call does nothing.
        """
        if self._problem is not None:
            return
        self._enter()
        deadline = Deadline(round(timeout * 1000))
        machine = self._machine
        try:
            machine.records.flush()
            if not deadline.expired:
                await self._wait_until(lambda: not machine.has_batches, deadline)
            transaction = machine.transaction
            if transaction is not None and transaction.must_abort:
                operation = transaction.end(is_commit=False)
                limit = Deadline(max(deadline.remaining_ms, ABORT_MS))
                await self._wait_until(lambda: operation.done, limit)
            self._telemetry.terminate()
            await self._wait_until(self._telemetry.has_ended, last_push(deadline))
        finally:
            machine.fail_all(ClosedError("the producer was closed before the record was written"))
            self._call_back()
            self._end(ClosedError("the producer is closed", "Make a new one."))
