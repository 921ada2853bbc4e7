"""The state machine of a producer: which batches are sent when, and what answers mean.

`records` collects the records. `poll` closes batches that are due
and returns Produce requests: at most one batch of a partition in a request, `in_flight_max` requests to
a node. The module `partition_queue` keeps the order within a partition, `producer_answers` has the
meaning of errors, `transaction` the transactions.

A batch is due when it is full, when its linger time is over, when the buffer is full, and when somebody
waits for it (flush, close, a delivery, the end of a transaction). It fails `delivery_timeout_ms` after
its creation, even if it is in flight. A batch that is too large for its topic is divided, as in Java.
"""

from __future__ import annotations

from collections.abc import Callable

from odradek.client.core.accumulator import Accumulator
from odradek.client.core.asks import Ask, Link
from odradek.client.core.backoff import RandomNumber
from odradek.client.core.batch_splitting import split
from odradek.client.core.client_metrics import Spread
from odradek.client.core.partition_queue import PartitionQueue
from odradek.client.core.producer_answers import (
    Outcome,
    Verdict,
    expired,
    outcome_of,
    verdict,
)
from odradek.client.core.producer_batch import ProducerBatch, ProducerIdentity, Waiter
from odradek.client.core.producer_identity import IdempotentIdentity
from odradek.client.core.producer_settings import ProducerSettings
from odradek.client.core.routes import Routes
from odradek.client.core.transaction import TransactionMachine
from odradek.client.core.transaction_requests import PRODUCE_VERSION_1_MAX
from odradek.client.errors import BrokerError, ClientError
from odradek.model.errors import ErrorCode
from odradek.model.topic_partition import TopicPartition
from odradek.wire.generated.produce_request import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from odradek.wire.generated.produce_response import ProduceResponse

PRODUCE_VERSION_MAX = 12
"""Later versions of Produce have topic ids instead of names."""
PRODUCE = ""
"""The purpose of links for Produce."""

Batches = dict[TopicPartition, ProducerBatch]


class ProducerMachine:
    """The batches of a producer, from the first record to their outcome."""

    def __init__(
        self,
        settings: ProducerSettings,
        routes: Routes,
        random: RandomNumber,
        *,
        waiter: Waiter | None = None,
        on_batch: Callable[[ProducerBatch], None] | None = None,
        joined: ProducerIdentity | None = None,
    ) -> None:
        """`joined` is the identity of a transaction that another process has begun and will end.

        `on_batch` is called with each batch that is done.
        """
        self.settings = settings
        self.next_deadline_ms: int | None = None
        self.error: ClientError | None = None
        """A fatal error: nothing can be sent any more."""
        self.queue_times = Spread()
        """The ms between the first record of a batch and its request."""
        self._routes = routes
        self._random = random
        self._on_batch = on_batch
        self._requests: dict[int, int] = {}
        """The number of requests in flight by node."""
        self._turn = 0
        self._done: list[ProducerBatch] = []
        backoff = settings.retry_backoff_ms, settings.retry_backoff_ms_max
        self._ids = IdempotentIdentity(
            random,
            request_timeout_ms=settings.request_timeout_ms,
            retry_backoff_ms=backoff[0],
            retry_backoff_ms_max=backoff[1],
        )
        self.transaction: TransactionMachine | None = None
        if settings.transactional_id is not None:
            self.transaction = TransactionMachine(
                routes,
                settings.transactional_id,
                random,
                transaction_timeout_ms=settings.transaction_timeout_ms,
                request_timeout_ms=settings.request_timeout_ms,
                retry_backoff_ms=backoff[0],
                retry_backoff_ms_max=backoff[1],
                joined=joined,
            )
        self.records = Accumulator(settings, routes, random, self.transaction, waiter)

    @property
    def identity(self) -> ProducerIdentity | None:
        """The producer id and the epoch; None while there is none."""
        return self._ids.identity if self.transaction is None else self.transaction.identity

    # -- what the user waits for ----------------------------------------------------------------

    @property
    def has_batches(self) -> bool:
        """Whether a batch is not done."""
        return bool(self.records.active)

    def unfinished(self) -> list[ProducerBatch]:
        """Return the batches that are not done and not open."""
        return [
            b for q in self.records.active.values() for some in (q.in_flight, q.ready) for b in some
        ]

    def take_done(self) -> list[ProducerBatch]:
        """Return the batches that are done and have callbacks, once."""
        done, self._done = self._done, []
        return done

    @property
    def has_done(self) -> bool:
        """Whether callbacks wait for being called."""
        return len(self._done) > 0

    def fail_all(self, error: ClientError) -> None:
        """Fail all batches, for example at the end of `close`."""
        for queue in list(self.records.active.values()):
            self._fail_queue(queue, error, only_unsent=False)

    # -- requests -------------------------------------------------------------------------------

    def poll(self, now_ms: int) -> list[Ask]:
        """Return the requests that are due, and set `next_deadline_ms`."""
        self._prepare(now_ms)
        asks: list[Ask] = []
        transaction = self.transaction
        if transaction is not None:
            asks += transaction.poll(now_ms, has_batches=bool(self.records.active))
        elif self.settings.is_idempotent and self.records.active:
            asks += self._ids.poll(now_ms)
            if self._ids.error is not None:
                self._fail(self._ids.error)
        found = self._produce_asks(now_ms)
        while found:
            asks += found
            found = self._produce_asks(now_ms)
        self.records.sending(
            must_check=self.error is not None
            or (transaction is not None and not transaction.may_add)
        )
        self._set_deadline(now_ms)
        return asks

    def _fail(self, error: ClientError) -> None:
        self.error = error
        self.fail_all(error)

    def _prepare(self, now_ms: int) -> None:
        """Close lingering batches, fail those that are too old, and renew identities."""
        transaction = self.transaction
        closes = transaction is not None and transaction.is_completing
        drops = transaction is not None and transaction.must_drop_batches
        linger_ms, timeout_ms = self.settings.linger_ms, self.settings.delivery_timeout_ms
        for queue in list(self.records.active.values()):
            if drops and transaction is not None:
                self._fail_queue(queue, transaction.dropped(), only_unsent=True)
            batch = queue.open
            if batch is not None and (
                closes or (queue.may_close and now_ms - batch.created_ms >= linger_ms)
            ):
                self.records.close(queue)
            self._expire(queue, now_ms - timeout_ms)
            if self.settings.is_idempotent:
                self._renew(queue)

    def _expire(self, queue: PartitionQueue, before_ms: int) -> None:
        for batches in (queue.in_flight, queue.ready):
            while batches and batches[0].created_ms <= before_ms:
                batch = batches[0]
                error = expired(batch, self.settings.delivery_timeout_ms, self._routes.last_error)
                self._give_up(queue, batch, error, is_unknown=batch.was_sent)

    def _renew(self, queue: PartitionQueue) -> None:
        """Give a partition an identity if it has none, a spent one, or an old one."""
        queue.settle()
        transaction = self.transaction
        current = self.identity
        if current is not None and queue.identity == current and queue.must_renew:
            if queue.in_flight or transaction is not None:
                return  # the end of the transaction changes its identity
            self._ids.bump(current)
            current = self._ids.identity
        if current is None or queue.identity == current:
            return
        if (queue.must_renew and not queue.in_flight) or not queue.has_sequenced:
            queue.renew(current)

    def _produce_asks(self, now_ms: int) -> list[Ask]:
        """Return a request to each node that can take one."""
        by_leader: dict[int, list[PartitionQueue]] = {}
        for queue in self.records.active.values():
            if not queue.may_send(now_ms, self.settings.in_flight_max):
                continue
            if not self._has_identity(queue):
                continue
            leader = self._routes.leader(queue.topic_partition)
            if leader < 0 or self._requests.get(leader, 0) >= self.settings.in_flight_max:
                continue
            if self._routes.is_ready((leader, PRODUCE)):
                by_leader.setdefault(leader, []).append(queue)
        self._turn += 1
        return [self._produce_ask(leader, queues, now_ms) for leader, queues in by_leader.items()]

    def _has_identity(self, queue: PartitionQueue) -> bool:
        """Whether a batch of the partition can get a sequence number, if it needs one."""
        if not self.settings.is_idempotent:
            return True
        if queue.identity is None:
            return False
        if self.transaction is not None:
            return self.transaction.may_send(queue.topic_partition)
        # While batches of an older identity are not done, nothing new is sent.
        return queue.ready[0].has_sequence or queue.identity == self._ids.identity

    def _produce_ask(self, leader: int, queues: list[PartitionQueue], now_ms: int) -> Ask:
        """Return a request with the oldest batch of as many partitions as fit, in turns."""
        start = self._turn % len(queues)
        size = 0
        batches: Batches = {}
        topics: dict[str, list[PartitionProduceData]] = {}
        for queue in queues[start:] + queues[:start]:
            size += len(queue.ready[0].data)
            if batches and size > self.settings.request_bytes_max:
                break
            batch = queue.take()
            self.queue_times.add(now_ms - batch.created_ms)
            topic, index = key = queue.topic_partition
            batches[key] = batch
            topics.setdefault(topic, []).append(
                PartitionProduceData(index=index, records=batch.data)
            )
        transaction = self.transaction
        request = ProduceRequest(
            transactional_id=None if transaction is None else transaction.transactional_id,
            acks=self.settings.acks,
            timeout_ms=self.settings.request_timeout_ms,
            topic_data=[TopicProduceData(name=t, partition_data=p) for t, p in topics.items()],
        )
        self._requests[leader] = self._requests.get(leader, 0) + 1

        def answered(response: ProduceResponse | None, at_ms: int) -> None:
            self._requests[leader] -= 1
            self._answered(response, batches, at_ms)

        def failed(error: ClientError, at_ms: int) -> None:
            self._requests[leader] -= 1
            for key, batch in batches.items():
                self._failed(self.records.active.get(key), batch, Outcome(error), at_ms)

        is_version_1 = transaction is not None and not transaction.is_version_2
        link: Link = leader, PRODUCE
        return Ask(
            link,
            request,
            ProduceResponse,
            answered,
            failed,
            timeout_ms=self.settings.request_timeout_ms,
            version_max=PRODUCE_VERSION_1_MAX if is_version_1 else PRODUCE_VERSION_MAX,
            is_answered=self.settings.acks != 0,
        )

    def _set_deadline(self, now_ms: int) -> None:
        due: list[int] = []
        for queue in self.records.active.values():
            first = queue.open
            if first is not None and queue.may_close:
                due.append(first.created_ms + self.settings.linger_ms)
            due += [
                batches[0].created_ms + self.settings.delivery_timeout_ms
                for batches in (queue.in_flight, queue.ready)
                if batches
            ]
            if queue.ready and queue.retry_at_ms > now_ms:
                due.append(queue.retry_at_ms)
        others: list[int | None] = [self._ids.next_deadline_ms]
        if self.transaction is not None:
            others.append(self.transaction.next_deadline_ms)
        due += [each for each in others if each is not None]
        self.next_deadline_ms = min(due) if due else None

    # -- answers --------------------------------------------------------------------------------

    def _answered(self, response: ProduceResponse | None, batches: Batches, now_ms: int) -> None:
        left = dict(batches)
        if response is not None:
            for key, outcome in outcomes(response, self._routes):
                batch = left.pop(key, None)
                if batch is None:
                    continue
                if outcome.error is None:
                    self._written(batch, outcome)
                else:
                    self._failed(self.records.active.get(key), batch, outcome, now_ms)
        else:  # acks=0: nothing is known
            for batch in left.values():
                self._written(batch, Outcome(None))
            return
        missing = Outcome(ClientError("the broker's response does not include the batch"))
        for key, batch in left.items():
            self._failed(self.records.active.get(key), batch, missing, now_ms)

    def _written(self, batch: ProducerBatch, outcome: Outcome) -> None:
        queue = self.records.active.get(batch.topic_partition)
        if batch.done or queue is None:
            return  # it has expired before
        queue.acknowledged(batch)
        self._finish(queue, batch, None, outcome)

    def _failed(
        self, queue: PartitionQueue | None, batch: ProducerBatch, outcome: Outcome, now_ms: int
    ) -> None:
        """Retry a batch, or fail it."""
        if batch.done or queue is None:
            return
        error = outcome.error
        assert error is not None
        if outcome.must_refresh:
            self._routes.forget_topic(batch.topic_partition.topic)
        if self._may_divide(batch, error):
            parts = split(
                batch,
                self.settings.codec,
                self.settings.compression_level,
                self.settings.batch_bytes,
                is_transactional=self.transaction is not None,
            )
            queue.divide(batch, parts)
            self.records.divided(batch)
            return
        found = verdict(
            error,
            is_idempotent=self.settings.is_idempotent,
            is_transactional=self.transaction is not None,
            is_gap_real=queue.is_unresolved or queue.is_next(batch),
            log_start_offset=outcome.log_start_offset,
        )
        if found == Verdict.WRITTEN:
            queue.acknowledged(batch)
            self._finish(queue, batch, None, Outcome(None))
        elif found == Verdict.FATAL and self.transaction is None:
            self._give_up(queue, batch, error, outcome, is_unknown=False)
            self._fail(error)
        elif found in (Verdict.FAIL, Verdict.FATAL):
            self._give_up(queue, batch, error, outcome, is_unknown=False)
        elif self.transaction is not None and self.transaction.must_drop_batches:
            self._give_up(queue, batch, self.transaction.dropped(), is_unknown=True)
        elif self.settings.retries == 0:
            self._give_up(queue, batch, error, outcome, is_unknown=True)
        else:
            pause = 0 if outcome.has_new_leader else self.settings.retry_backoff_ms
            queue.put_back(batch, error, now_ms + pause)
            if found == Verdict.RENEW:
                queue.demand_renewal()

    def _may_divide(self, batch: ProducerBatch, error: ClientError) -> bool:
        """Whether smaller batches are sent instead of one that is too large for its topic."""
        if not isinstance(error, BrokerError) or error.code != ErrorCode.MESSAGE_TOO_LARGE:
            return False
        drops = self.transaction is not None and self.transaction.must_drop_batches
        return batch.count > 1 and not drops

    def _give_up(
        self,
        queue: PartitionQueue,
        batch: ProducerBatch,
        error: ClientError,
        outcome: Outcome | None = None,
        *,
        is_unknown: bool,
    ) -> None:
        if self.transaction is not None:
            error = self.transaction.batch_failed(error, has_sequence=batch.has_sequence)
        queue.given_up(batch, is_unknown=is_unknown)
        self._finish(queue, batch, error, outcome or Outcome(error))

    def _finish(
        self,
        queue: PartitionQueue,
        batch: ProducerBatch,
        error: ClientError | None,
        outcome: Outcome,
    ) -> None:
        self.records.release(queue, batch)
        batch.finish(outcome.base_offset, outcome.timestamp_ms, error, outcome.record_errors)
        done: ProducerBatch | None = batch
        while done is not None:
            if done.has_callbacks:
                self._done.append(done)  # the owner calls them without its lock
            if self._on_batch is not None:
                self._on_batch(done)
            done = done.finish_whole()

    def _fail_queue(self, queue: PartitionQueue, error: ClientError, *, only_unsent: bool) -> None:
        waiting = [*queue.ready] if only_unsent else [*queue.in_flight, *queue.ready]
        if queue.open is not None:
            waiting.append(queue.open)
        for batch in waiting:
            if self.transaction is not None:
                self.transaction.batch_dropped(has_sequence=batch.has_sequence)
            queue.given_up(batch, is_unknown=batch.was_sent)
            self._finish(queue, batch, error, Outcome(error))


def outcomes(response: ProduceResponse, routes: Routes) -> list[tuple[TopicPartition, Outcome]]:
    """Return the outcome of each batch in a response, and note the leaders that it names."""
    nodes = {each.node_id: (each.host, each.port) for each in response.node_endpoints}
    return [
        (TopicPartition(topic.name, each.index), outcome_of(topic.name, each, nodes, routes))
        for topic in response.responses
        for each in topic.partition_responses
    ]
