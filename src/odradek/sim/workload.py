"""Clients that produce while nodes fail, and what all clients have in common.

The producers are the shipped machines (`producing`). What they report is noted in `Facts`. An error that
no correct broker causes is a violation.
"""

from __future__ import annotations

import asyncio
from random import Random
from typing import TypeVar

from odradek.client.core.producer_batch import Delivery, ProducerIdentity
from odradek.client.core.transaction import TransactionState
from odradek.client.errors import (
    BrokerError,
    ClientError,
    RequestTimeoutError,
    TransactionAbortedError,
    error_code,
)
from odradek.client.group_metadata import GroupMetadata
from odradek.model.errors import ErrorCode as E
from odradek.model.topic_partition import TopicPartition
from odradek.sim.driver import ANY, SimClient, To
from odradek.sim.facts import Facts, Fate, Transaction
from odradek.sim.producing import SimProducer
from odradek.sim.simulation import SimClock, Simulation
from odradek.wire.primitives import Message

ResponseT = TypeVar("ResponseT", bound=Message)

NOT_NOW = frozenset(
    {
        E.COORDINATOR_LOAD_IN_PROGRESS,
        E.COORDINATOR_NOT_AVAILABLE,
        E.NOT_COORDINATOR,
        E.NOT_LEADER_OR_FOLLOWER,
        E.UNKNOWN_TOPIC_OR_PARTITION,
        E.REQUEST_TIMED_OUT,
        E.NOT_ENOUGH_REPLICAS,
        E.KAFKA_STORAGE_ERROR,
        E.LEADER_NOT_AVAILABLE,
        E.CONCURRENT_TRANSACTIONS,
        E.UNSTABLE_OFFSET_COMMIT,
    }
)
"""Errors after which a client retries."""
FENCED = frozenset(
    {
        E.INVALID_PRODUCER_EPOCH,
        E.PRODUCER_FENCED,
        E.INVALID_TXN_STATE,
        E.INVALID_PRODUCER_ID_MAPPING,
        E.TRANSACTION_ABORTABLE,
        E.OUT_OF_ORDER_SEQUENCE_NUMBER,
        E.UNKNOWN_PRODUCER_ID,
    }
)
"""Errors that end a transaction. Its producer then requests a new epoch."""
TRANSACTION_TIMEOUT_MS = 20_000
FLUSH_SHARE = 0.5
"""The fraction of records of transactions after which their producer waits until they are written."""
GROUP_PARTITION = TopicPartition("input", 0)
"""The partition whose offsets transactions commit."""


class Actor:
    """A client that works until it is stopped."""

    def __init__(self, simulation: Simulation, client: SimClient, facts: Facts) -> None:
        self.simulation = simulation
        self.client = client
        self.name = client.name
        self.facts = facts
        self.random: Random = simulation.random(f"{client.name} choices")
        self.clock = SimClock(simulation)
        self.is_stopping = False

    async def run(self) -> None:
        """Work until `stop`."""
        raise NotImplementedError

    def stop(self) -> None:
        """Finish the current step and end."""
        self.is_stopping = True

    async def pause(self, longest_s: float = 0.3) -> None:
        """Wait between two steps."""
        await asyncio.sleep(self.random.uniform(0.001, longest_s))

    async def ask(
        self, request: Message, response_class: type[ResponseT], to: To = ANY
    ) -> ResponseT | None:
        """Return the response. If there is none, pause and return None."""
        try:
            return await self.client.ask(request, response_class, to)
        except ClientError:
            await self.retry(to)
            return None

    async def retry(self, to: To) -> None:
        """Pause before a retry, and look up again who must be asked."""
        self.client.forget(to)
        await self.pause()

    def unexpected(self, what: str, code: int) -> None:
        """Record an error that no correct broker returns here."""
        self.facts.violations.append(
            f"{self.name}: {what} was answered with {error_code(code).name}"
        )

    def unexpected_error(self, what: str, error: ClientError) -> None:
        """Record an error of the client that should not occur."""
        self.facts.violations.append(f"{self.name}: {what}: {error}")


class IdempotentProducer(Actor):
    """Sends numbered records to several partitions, without waiting after each partition.

    Only one batch of a partition is in flight. The reason is that the producer snapshots of a
    broker have only the last batch of a producer, as in Apache Kafka. A broker that has restarted
    rejects a repetition of an older batch with OUT_OF_ORDER_SEQUENCE_NUMBER.
    """

    delivery_timeout_ms = 120_000

    def __init__(
        self,
        simulation: Simulation,
        client: SimClient,
        facts: Facts,
        partitions: list[TopicPartition],
    ) -> None:
        super().__init__(simulation, client, facts)
        self._partitions = partitions

    async def run(self) -> None:
        """See `Actor`."""
        producer = SimProducer(self.client, delivery_timeout_ms=self.delivery_timeout_ms)
        number = 0
        while not self.is_stopping:
            sent: list[tuple[TopicPartition, str, Delivery]] = []
            partitions = self.known_partitions()
            count = self.random.randint(1, len(partitions))
            for partition in self.random.sample(partitions, count):
                for _ in range(self.random.choice((1, 1, 2, 5))):
                    value = f"{self.name} {number}"
                    number += 1
                    of_partition = self.facts.sent.setdefault(partition, {})
                    of_partition.setdefault(self.name, []).append(value)
                    sent.append((partition, value, await producer.send(partition, value)))
            await producer.flush()
            if producer.identity is not None:
                self.facts.uses(f"{self.name} without a transactional id", *producer.identity)
            for each in sent:
                self._note(*each)
            await self.pause(0.1)

    def known_partitions(self) -> list[TopicPartition]:
        """Return the partitions to which the producer writes."""
        return self._partitions

    def _note(self, partition: TopicPartition, value: str, delivery: Delivery) -> None:
        """Note the outcome of a record."""
        if delivery.batch.last_error is not None:
            self.facts.count("produce repeated")
        if delivery.error is not None:
            self._not_delivered(value, delivery.error)
            return
        self.facts.count("produced")
        self.facts.acknowledged.setdefault(partition, {})[value] = delivery.offset

    def _not_delivered(self, value: str, error: ClientError) -> None:
        self.unexpected_error(f"{value!r} was not delivered", error)


class Stocker(IdempotentProducer):
    """Writes to all partitions that its topic has, as soon as the client knows them."""

    def known_partitions(self) -> list[TopicPartition]:
        """See `IdempotentProducer`."""
        (first,) = self._partitions
        topic = self.client.routes.metadata.topics.get(first.topic)
        count = 1 if topic is None else len(topic.partitions)
        return [TopicPartition(first.topic, index) for index in range(count)]


class ImpatientProducer(IdempotentProducer):
    """Gives up records that are not written in a short time. They may be written or not, but not twice."""

    delivery_timeout_ms = 700

    def _not_delivered(self, value: str, error: ClientError) -> None:
        self.facts.count("records given up")
        if not isinstance(error, RequestTimeoutError):
            super()._not_delivered(value, error)


class TransactionalProducer(Actor):
    """Commits and aborts transactions with records of several partitions.

    Some of the transactions also commit an offset.
    """

    expected = FENCED
    """The errors after which a transaction is aborted, or its producer begins anew."""

    def __init__(
        self,
        simulation: Simulation,
        client: SimClient,
        facts: Facts,
        partitions: list[TopicPartition],
    ) -> None:
        super().__init__(simulation, client, facts)
        self.transactional_id = self.name
        self.group = f"of {self.name}"
        """The group whose offsets the transactions commit."""
        self._partitions = partitions
        self._number = 0
        self._deliveries: list[tuple[str, Delivery]] = []
        """Those of the open transaction."""
        self._producer: SimProducer

    async def run(self) -> None:
        """See `Actor`."""
        self._producer = self._new_producer()
        await self._begin_epoch()
        while not self.is_stopping:
            await self._transact()
            await self.pause()

    def _new_producer(self) -> SimProducer:
        return SimProducer(
            self.client,
            transactional_id=self.transactional_id,
            transaction_timeout_ms=TRANSACTION_TIMEOUT_MS,
            on_identity=self._got,
        )

    def _got(self, identity: ProducerIdentity) -> None:
        """Check a producer id and an epoch."""
        self.facts.initialized(self.transactional_id, *identity)

    async def _begin_epoch(self) -> None:
        """Begin as a process that has just started. This ends what an earlier one has begun."""
        await self._producer.init()

    async def _transact(self) -> None:
        """Make one transaction."""
        self._number += 1
        transaction = Transaction(f"{self.name}/{self._number}")
        self.facts.transactions.append(transaction)
        self._deliveries = []
        try:
            self._producer.begin()
            is_commit = await self._work(transaction)
            if is_commit is None:
                await self._give_up(transaction)
            else:
                await self._end(transaction, is_commit=is_commit)
        except ClientError as error:
            await self._recover(transaction, error)

    async def _work(self, transaction: Transaction) -> bool | None:
        """Do what the transaction consists of. Return whether to commit; None to end without an end.

        Raises:
            ClientError: the transaction must be aborted, or the producer has failed.
        """
        count = self.random.randint(1, len(self._partitions))
        for partition in self.random.sample(self._partitions, count):
            for _ in range(self.random.choice((1, 2))):
                await self._add(transaction, partition)
        if self.random.random() < 0.5:
            await self._commit_offsets({GROUP_PARTITION: self._number})
            transaction.add_offset(self._number)
        if self.random.random() < 0.1:
            return None
        return self.random.random() < 0.75

    async def _add(
        self, transaction: Transaction, partition: TopicPartition, text: str = ""
    ) -> None:
        """Send a record, whose value ends with a text. In some cases wait until it is written."""
        values = transaction.values.setdefault(partition, [])
        value = f"{transaction.name} {partition.topic} {partition.partition} {len(values)}{text}"
        values.append(value)
        self._deliveries.append((value, await self._producer.send(partition, value)))
        if self.random.random() < FLUSH_SHARE:
            await self._producer.flush()

    async def _commit_offsets(self, offsets: dict[TopicPartition, int]) -> None:
        await self._producer.add_offsets(offsets, GroupMetadata(self.group))

    async def _end(self, transaction: Transaction, *, is_commit: bool) -> None:
        """Commit or abort.

        Raises:
            ClientError: as `SimProducer.end`.
        """
        if is_commit:
            transaction.ask_to_commit()
        await self._producer.end(is_commit=is_commit)
        transaction.end(Fate.COMMITTED if is_commit else Fate.ABORTED)
        self.facts.count(f"transactions {transaction.fate.value}")
        if not is_commit:
            return
        for value, delivery in self._deliveries:
            if delivery.error is not None:
                self.unexpected_error(f"{value!r} was not delivered, and committed", delivery.error)
            elif delivery.offset >= 0:
                transaction.offsets[value] = delivery.offset

    async def _give_up(self, transaction: Transaction) -> None:
        """Abandon the transaction, as a process that is killed and started again."""
        await self._restart()
        transaction.end(transaction.fate_without_end)
        self.facts.count("transactions given up")

    async def _restart(self) -> None:
        self._producer.close()
        self._producer = self._new_producer()
        await self._begin_epoch()

    async def _recover(self, transaction: Transaction, error: ClientError) -> None:
        """Go on after an error: abort, or begin anew."""
        code = error.code if isinstance(error, BrokerError) else None
        if code not in self.expected and not isinstance(error, TransactionAbortedError):
            self.unexpected_error("a transaction", error)
        self.facts.count(
            f"transactions that met {type(error).__name__ if code is None else code.name}"
        )
        if self._producer.transaction.state == TransactionState.ABORTABLE:
            try:
                await self._producer.end(is_commit=False)
            except ClientError:
                self.facts.count("transactions whose abort failed")
            else:
                transaction.end(Fate.ABORTED)
                return
        await self._end_without_abort(transaction)

    async def _end_without_abort(self, transaction: Transaction) -> None:
        """Go on after an error that no abort mends."""
        await self._restart()
        transaction.end(transaction.fate_without_end)
