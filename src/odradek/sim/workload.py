"""Clients that produce while nodes fail, and what all clients have in common.

Each client retries a request until there is an outcome, as clients of Apache Kafka do. The client
records the outcome in `Facts`. An error that no correct broker returns is a violation.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from random import Random
from typing import NamedTuple, TypeVar

from odradek.client.errors import error_code
from odradek.model.errors import ErrorCode as E
from odradek.model.topic_partition import TopicPartition
from odradek.records.builder import RecordBatchBuilder
from odradek.sim.client import Client
from odradek.sim.facts import Facts, Fate, Transaction
from odradek.sim.simulation import SimClock, Simulation
from odradek.wire.generated.end_txn_request import EndTxnRequest
from odradek.wire.generated.end_txn_response import EndTxnResponse
from odradek.wire.generated.init_producer_id_request import InitProducerIdRequest
from odradek.wire.generated.init_producer_id_response import InitProducerIdResponse
from odradek.wire.generated.produce_request import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from odradek.wire.generated.produce_response import ProduceResponse
from odradek.wire.generated.txn_offset_commit_request import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from odradek.wire.generated.txn_offset_commit_response import TxnOffsetCommitResponse
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
GROUP_PARTITION = TopicPartition("input", 0)
"""The partition whose offsets transactions commit."""


class Actor:
    """A client that works until it is stopped."""

    def __init__(self, simulation: Simulation, client: Client, facts: Facts) -> None:
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
        self, request: Message, version: int, response_class: type[ResponseT]
    ) -> ResponseT | None:
        """Return the response. If the connection failed, pause and return None."""
        try:
            return await self.client.ask(request, version, response_class)
        except OSError:
            await self.pause()
            return None

    def unexpected(self, what: str, code: int) -> None:
        """Record an error that no correct broker returns here."""
        self.facts.violations.append(
            f"{self.name}: {what} was answered with {error_code(code).name}"
        )

    async def initialize(self, transactional_id: str | None) -> tuple[int, int]:
        """Return a producer id and epoch."""
        request = InitProducerIdRequest(
            transactional_id=transactional_id, transaction_timeout_ms=TRANSACTION_TIMEOUT_MS
        )
        while True:
            response = await self.ask(request, 4, InitProducerIdResponse)
            if response is None:
                continue
            if not response.error_code:
                self.facts.initialized(
                    transactional_id or f"{self.name} without a transactional id",
                    response.producer_id,
                    response.producer_epoch,
                )
                return response.producer_id, response.producer_epoch
            if response.error_code not in NOT_NOW:
                self.unexpected("InitProducerId", response.error_code)
            await self.pause()

    async def produce(
        self, partition: TopicPartition, batch: bytearray, transactional_id: str | None = None
    ) -> tuple[int, int]:
        """Produce until there is an outcome. Return the error code and the base offset."""
        request = _produce_request(partition, batch, transactional_id)
        while True:
            response = await self.ask(request, 12, ProduceResponse)
            if response is None:
                self.facts.count("produce repeated")
                continue
            answer = response.responses[0].partition_responses[0]
            if answer.error_code not in NOT_NOW:
                return answer.error_code, answer.base_offset
            await self.pause()

    def batch(self, values: list[str], **fields: int) -> bytearray:
        """Return a batch with these records."""
        builder = RecordBatchBuilder(**fields)  # type: ignore[arg-type]
        for value in values:
            builder.append(self.clock.now_ms(), None, value.encode())
        return builder.build()


def _produce_request(
    partition: TopicPartition, batch: bytearray, transactional_id: str | None = None
) -> ProduceRequest:
    data = PartitionProduceData(index=partition.partition, records=batch)
    return ProduceRequest(
        transactional_id=transactional_id,
        acks=-1,
        timeout_ms=3000,
        topic_data=[TopicProduceData(name=partition.topic, partition_data=[data])],
    )


class _Unacknowledged(NamedTuple):
    """A batch that is in flight."""

    partition: TopicPartition
    batch: bytearray
    values: list[str]


class IdempotentProducer(Actor):
    """Sends numbered records to several partitions, without waiting after each partition.

    Only one batch of a partition is in flight. The reason is that the producer snapshots of a
    broker have only the last batch of a producer, as in Apache Kafka. A broker that has restarted
    rejects a repetition of an older batch with OUT_OF_ORDER_SEQUENCE_NUMBER.

    In a cluster, a broker that does not know yet that it leads no more also responds with this error,
    because it lacks the batches that its successor has acknowledged. So the batch is sent again. If a
    leader has lost the state of the producer, the error does not end, and so the run fails.
    """

    def __init__(
        self, simulation: Simulation, client: Client, facts: Facts, partitions: list[TopicPartition]
    ) -> None:
        super().__init__(simulation, client, facts)
        self._partitions = partitions

    async def run(self) -> None:
        """See `Actor`."""
        producer_id, epoch = await self.initialize(None)
        sequences = dict.fromkeys(self._partitions, 0)
        number = 0
        while not self.is_stopping:
            batches = []
            count = self.random.randint(1, len(self._partitions))
            for partition in self.random.sample(self._partitions, count):
                count = self.random.choice((1, 1, 2, 5))
                values = [f"{self.name} {number + each}" for each in range(count)]
                number += count
                batch = self.batch(
                    values,
                    producer_id=producer_id,
                    producer_epoch=epoch,
                    base_sequence=sequences[partition],
                )
                sequences[partition] += count
                self.facts.sent.setdefault(partition, {}).setdefault(self.name, []).extend(values)
                batches.append(_Unacknowledged(partition, batch, values))
            while batches:
                batches = await self._send(batches)
            await self.pause(0.1)

    async def _send(self, batches: list[_Unacknowledged]) -> list[_Unacknowledged]:
        """Send all batches, and return the batches to send again."""
        requests = [_produce_request(each.partition, each.batch) for each in batches]
        try:
            responses = await self.client.ask_all(requests, 12, ProduceResponse)
        except OSError:
            self.facts.count("produce repeated")
            await self.pause()
            return batches
        refused: list[_Unacknowledged] = []
        for each, response in zip(batches, responses, strict=True):
            answer = response.responses[0].partition_responses[0]
            code = answer.error_code
            if code in (E.NONE, E.DUPLICATE_SEQUENCE_NUMBER):
                self.facts.count("produced")
                acknowledged = self.facts.acknowledged.setdefault(each.partition, {})
                for index, value in enumerate(each.values):
                    has_offset = not code and answer.base_offset >= 0
                    acknowledged[value] = answer.base_offset + index if has_offset else -1
            elif code in NOT_NOW:
                refused.append(each)
            elif code == E.OUT_OF_ORDER_SEQUENCE_NUMBER and self.client.asks_former_leaders:
                self.facts.count("sequence numbers out of order")
                refused.append(each)
            else:
                self.unexpected("Produce", code)
        if refused:
            await self.pause()
        return refused


class TransactionalProducer(Actor):
    """Commits and aborts transactions with records of several partitions.

    Some of the transactions also commit an offset.
    """

    def __init__(
        self, simulation: Simulation, client: Client, facts: Facts, partitions: list[TopicPartition]
    ) -> None:
        super().__init__(simulation, client, facts)
        self.group = f"of {self.name}"
        """The group whose offsets the transactions commit."""
        self._partitions = partitions
        self._number = 0
        self._id = (-1, -1)
        self._sequences: dict[TopicPartition, int] = {}

    async def run(self) -> None:
        """See `Actor`."""
        await self._begin_epoch(None)
        while not self.is_stopping:
            await self._transact()
            await self.pause()

    async def _begin_epoch(self, known: tuple[int, int] | None) -> None:
        self._id = known or await self.initialize(self.name)
        self._sequences = {}

    async def _transact(self) -> None:
        self._number += 1
        transaction = Transaction(f"{self.name}/{self._number}")
        self.facts.transactions.append(transaction)
        count = self.random.randint(1, len(self._partitions))
        for partition in self.random.sample(self._partitions, count):
            for _ in range(self.random.choice((1, 2))):
                if not await self._add(transaction, partition):
                    await self._give_up(transaction)
                    return
        if self.random.random() < 0.5 and not await self._add_offset(transaction):
            await self._give_up(transaction)
            return
        if self.random.random() < 0.1:  # The client abandons the transaction.
            await self._give_up(transaction)
            return
        await self._end(transaction, is_commit=self.random.random() < 0.75)

    async def _give_up(self, transaction: Transaction) -> None:
        """Abandon the transaction without EndTxn. InitProducerId aborts the transaction."""
        await self._begin_epoch(None)
        transaction.end(Fate.ABORTED)
        self.facts.count("transactions given up")

    async def _add(self, transaction: Transaction, partition: TopicPartition) -> bool:
        values = transaction.values.setdefault(partition, [])
        value = f"{transaction.name} {partition.topic} {partition.partition} {len(values)}"
        values.append(value)
        sequence = self._sequences.get(partition, 0)
        batch = self.batch(
            [value],
            producer_id=self._id[0],
            producer_epoch=self._id[1],
            base_sequence=sequence,
            is_transactional=True,
        )
        code, offset = await self.produce(partition, batch, self.name)
        if code in FENCED:
            self.facts.count(f"transactions that met {error_code(code).name}")
            return False
        if code and code != E.DUPLICATE_SEQUENCE_NUMBER:
            self.unexpected("a transactional Produce", code)
            return False
        self._sequences[partition] = sequence + 1
        if not code and offset >= 0:
            transaction.offsets[value] = offset
        return True

    async def _add_offset(self, transaction: Transaction) -> bool:
        if await self._commit_offsets({GROUP_PARTITION: self._number}):
            transaction.add_offset(self._number)
            return True
        return False

    async def _commit_offsets(self, offsets: Mapping[TopicPartition, int]) -> bool:
        """Add the offsets to the transaction. Return False if the transaction must be abandoned."""
        request = TxnOffsetCommitRequest(
            transactional_id=self.name,
            group_id=self.group,
            producer_id=self._id[0],
            producer_epoch=self._id[1],
            topics=[
                TxnOffsetCommitRequestTopic(
                    name=partition.topic,
                    partitions=[
                        TxnOffsetCommitRequestPartition(
                            partition_index=partition.partition, committed_offset=offset
                        )
                    ],
                )
                for partition, offset in offsets.items()
            ],
        )
        while True:
            response = await self.ask(request, 5, TxnOffsetCommitResponse)
            if response is None:
                continue
            code = max(each.error_code for topic in response.topics for each in topic.partitions)
            if not code:
                return True
            if code in FENCED:
                self.facts.count(f"transactions that met {error_code(code).name}")
                return False
            if code not in NOT_NOW:
                self.unexpected("TxnOffsetCommit", code)
                return False
            await self.pause()

    async def _end(self, transaction: Transaction, is_commit: bool) -> None:
        request = EndTxnRequest(
            transactional_id=self.name,
            producer_id=self._id[0],
            producer_epoch=self._id[1],
            committed=is_commit,
        )
        was_lost = False
        while True:
            response = await self.ask(request, 5, EndTxnResponse)
            if response is None:
                was_lost = True
                continue
            code = response.error_code
            if not code:
                transaction.end(Fate.COMMITTED if is_commit else Fate.ABORTED)
                self.facts.count(f"transactions {transaction.fate.value}")
                await self._begin_epoch((response.producer_id, response.producer_epoch))
                return
            if code in NOT_NOW:
                was_lost = True  # the request may have taken effect
                await self.pause()
                continue
            if code not in FENCED:
                self.unexpected("EndTxn", code)
            self.facts.count(f"transactions whose end met {error_code(code).name}")
            await self._begin_epoch(None)
            transaction.end(Fate.UNKNOWN if is_commit and was_lost else Fate.ABORTED)
            return
