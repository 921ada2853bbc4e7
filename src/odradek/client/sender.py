"""Sends the producer's batches to leaders, processes the responses, and retries batches."""

from __future__ import annotations

import select
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import NamedTuple

from odradek.client.cluster import BACKOFF_MS, Cluster
from odradek.client.connection import Connection, Pending
from odradek.client.deadline import monotonic_ms
from odradek.client.errors import (
    BrokerError,
    ClientError,
    RequestTimeoutError,
    broker_error,
    check,
)
from odradek.client.producer_batch import (
    NO_ERRORS,
    PartitionQueue,
    ProducerBatch,
    ProducerIdentity,
)
from odradek.client.producer_options import ProducerOptions
from odradek.model.errors import ErrorCode
from odradek.model.topic_partition import TopicPartition
from odradek.wire.generated.init_producer_id_request import InitProducerIdRequest
from odradek.wire.generated.init_producer_id_response import InitProducerIdResponse
from odradek.wire.generated.produce_request import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from odradek.wire.generated.produce_response import PartitionProduceResponse, ProduceResponse

_EPOCH_MAX = 32767


class _UnderWay(NamedTuple):
    connection: Connection
    pending: Pending[ProduceResponse]
    batches: dict[TopicPartition, tuple[PartitionQueue, ProducerBatch]]
    expires_ms: int


class Sender:
    """Sends the added batches, and keeps the order within each partition."""

    def __init__(
        self,
        cluster: Cluster,
        options: ProducerOptions,
        on_done: Callable[[ProducerBatch], None],
    ) -> None:
        self._cluster = cluster
        self._options = options
        self._on_done = on_done
        self._identity: ProducerIdentity | None = None
        self._active: dict[TopicPartition, PartitionQueue] = {}
        """Queues with batches ready or in flight."""
        self._under_way: dict[int, deque[_UnderWay]] = {}
        self.buffered_bytes = 0

    def add(self, queue: PartitionQueue, batch: ProducerBatch) -> None:
        """Add the newest batch of a queue. The batch must be closed. `work` sends the batch."""
        self._active[queue.topic_partition] = queue
        self.buffered_bytes += len(batch.data)

    def work(self, wait_ms: int) -> None:
        """Send what can be sent and process responses. Wait up to `wait_ms` for a response."""
        self._send()
        self._take(wait_ms)
        self._send()

    # -- sending ----------------------------------------------------------------------------

    def _send(self) -> None:
        now_ms = monotonic_ms()
        by_leader: dict[int, list[PartitionQueue]] = {}
        for queue in list(self._active.values()):
            if not queue.in_flight and queue.identity_is_spent:
                self._renew(queue)
            if not queue.may_send(now_ms):
                continue
            try:
                leader = self._cluster.leader(queue.topic_partition)
                self._identify(queue)
            except ClientError as error:
                self._failed(queue, self._take_oldest(queue), error)
                continue
            if len(self._under_way.get(leader, ())) < self._options.in_flight_max:
                by_leader.setdefault(leader, []).append(queue)
        for leader, queues in by_leader.items():
            while queues and len(self._under_way.get(leader, ())) < self._options.in_flight_max:
                self._send_request(leader, queues)
                queues = [queue for queue in queues if queue.may_send(now_ms)]

    def _send_request(self, leader: int, queues: list[PartitionQueue]) -> None:
        """Send one request with the oldest batch of as many partitions as fit."""
        size = 0
        batches: dict[TopicPartition, tuple[PartitionQueue, ProducerBatch]] = {}
        topics: dict[str, list[PartitionProduceData]] = {}
        for queue in queues:
            size += len(queue.ready[0].data)
            if batches and size > self._options.request_bytes_max:
                break
            batch = queue.take()
            topic, index = key = queue.topic_partition
            batches[key] = queue, batch
            data = PartitionProduceData(index=index, records=batch.data)
            topics.setdefault(topic, []).append(data)
        request = ProduceRequest(
            acks=self._options.acks,
            timeout_ms=self._cluster.timeout_ms,
            topic_data=[TopicProduceData(name=t, partition_data=p) for t, p in topics.items()],
        )
        try:
            connection = self._cluster.node(leader)
            if self._options.acks == 0:
                connection.send_unanswered(request)
            else:
                pending = connection.send(request, ProduceResponse)
                expires_ms = monotonic_ms() + self._cluster.timeout_ms
                waiting = self._under_way.setdefault(leader, deque())
                waiting.append(_UnderWay(connection, pending, batches, expires_ms))
        except ClientError as error:
            for queue, batch in batches.values():
                self._failed(queue, batch, error)
            return
        if self._options.acks == 0:
            for queue, batch in batches.values():
                self._done(queue, batch)

    # -- responses --------------------------------------------------------------------------

    def _take(self, wait_ms: int) -> None:
        """Process the responses that have arrived. If there are none, wait up to `wait_ms`."""
        if wait_ms and not self._under_way:
            if self._active:  # all batches wait for a retry
                time.sleep(min(wait_ms, BACKOFF_MS) / 1000)
            return
        if wait_ms and not any(w[0].pending.response for w in self._under_way.values()):
            poll = select.poll()
            for waiting in self._under_way.values():
                if not waiting[0].connection.closed:
                    poll.register(waiting[0].connection, select.POLLIN)
            if not any(w[0].connection.has_decrypted for w in self._under_way.values()):
                poll.poll(min(wait_ms, BACKOFF_MS if self._retries_wait() else wait_ms))
        for leader in list(self._under_way):
            self._take_from(leader)

    def _retries_wait(self) -> bool:
        return any(queue.retry_at_ms and queue.ready for queue in self._active.values())

    def _take_from(self, leader: int) -> None:
        waiting = self._under_way[leader]
        try:
            while waiting:
                oldest = waiting[0]
                response = oldest.connection.poll(oldest.pending)
                if response is None:
                    if monotonic_ms() < oldest.expires_ms:
                        return
                    oldest.connection.close()
                    raise RequestTimeoutError(
                        f"{oldest.connection.address} did not answer Produce "
                        f"within {self._cluster.timeout_ms} ms"
                    )
                waiting.popleft()
                self._answered(response, oldest.batches)
        except ClientError as error:
            broken = waiting[0].connection
            while waiting and waiting[0].connection is broken:
                for queue, batch in waiting.popleft().batches.values():
                    self._failed(queue, batch, error)
        if not waiting:
            del self._under_way[leader]

    def _answered(
        self,
        response: ProduceResponse,
        batches: dict[TopicPartition, tuple[PartitionQueue, ProducerBatch]],
    ) -> None:
        for topic in response.responses:
            for p in topic.partition_responses:
                queue, batch = batches.pop(TopicPartition(topic.name, p.index))
                code = p.error_code
                if code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
                    self._done(queue, batch, p.base_offset, p.log_append_time_ms)
                else:
                    errors = {
                        each.batch_index: each.batch_index_error_message or "refused"
                        for each in p.record_errors
                    }
                    self._failed(queue, batch, _produce_error(p, queue, errors), errors)
        for queue, batch in batches.values():
            self._failed(
                queue, batch, ClientError("the broker's response does not include the batch")
            )

    # -- outcomes ---------------------------------------------------------------------------

    def _failed(
        self,
        queue: PartitionQueue,
        batch: ProducerBatch,
        error: ClientError,
        record_errors: Mapping[int, str] = NO_ERRORS,
    ) -> None:
        """Retry the batch, or fail it if the error is permanent or the timeout has passed."""
        now_ms = monotonic_ms()
        late = now_ms - batch.created_ms > self._options.delivery_timeout_ms
        if not late and self._may_retry(queue, batch, error):
            self._cluster.forget_topic(queue.topic_partition.topic)
            queue.put_back(batch, now_ms + BACKOFF_MS)
            return
        queue.spend_identity()
        self._done(queue, batch, error=error, record_errors=record_errors)

    def _may_retry(self, queue: PartitionQueue, batch: ProducerBatch, error: ClientError) -> bool:
        if isinstance(error, BrokerError) and error.code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
            # Retry only if an earlier batch has failed or will be retried.
            return queue.draining or queue.in_flight[0] is not batch
        return error.retriable or isinstance(error, RequestTimeoutError)

    def _done(
        self,
        queue: PartitionQueue,
        batch: ProducerBatch,
        base_offset: int = -1,
        timestamp_ms: int = -1,
        error: ClientError | None = None,
        record_errors: Mapping[int, str] = NO_ERRORS,
    ) -> None:
        self.buffered_bytes -= len(batch.data)
        batch.finish(base_offset, timestamp_ms, error, record_errors)
        queue.settle(batch)
        if not queue.ready and not queue.in_flight:
            self._active.pop(queue.topic_partition, None)
        self._on_done(batch)

    def _take_oldest(self, queue: PartitionQueue) -> ProducerBatch:
        """Move the oldest ready batch to `in_flight` without a request, as `_failed` expects."""
        batch = queue.ready.popleft()
        queue.in_flight.append(batch)
        return batch

    # -- identity ---------------------------------------------------------------------------

    def _identify(self, queue: PartitionQueue) -> None:
        """Give the producer's identity to a partition that needs an identity and has none."""
        if not self._options.idempotent or queue.identity is not None:
            return
        if self._identity is None:
            self._identity = self._new_identity()
        queue.renew(self._identity)

    def _renew(self, queue: PartitionQueue) -> None:
        """Replace a spent identity of a partition, if possible by the next producer epoch."""
        current = self._identity
        assert current is not None
        if queue.identity == current:
            if current.producer_epoch == _EPOCH_MAX:
                current = self._new_identity()
            else:
                current = ProducerIdentity(current.producer_id, current.producer_epoch + 1)
            self._identity = current
        queue.renew(current)

    def _new_identity(self) -> ProducerIdentity:
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=2**31 - 1)
        response = self._cluster.ask_any(
            request, InitProducerIdResponse, lambda r: check(r.error_code, subject="producer id")
        )
        return ProducerIdentity(response.producer_id, response.producer_epoch)


def _produce_error(
    response: PartitionProduceResponse, queue: PartitionQueue, record_errors: Mapping[int, str]
) -> ClientError:
    message = response.error_message
    if message is None and record_errors:
        message = next(iter(record_errors.values()))
    error = broker_error(response.error_code, message, f"partition {queue.topic_partition}")
    assert error is not None
    return error
