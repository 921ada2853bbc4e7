"""Verifies that a partition belongs to the transaction before a batch is appended (KIP-890).

Before the first batch of a transaction is appended to a partition, the partition's leader sends a
request to the transaction coordinator. Before version 2 of the transaction protocol the request
asks whether the producer has added the partition to the transaction. From version 2 on the broker
adds the partition with this request. If another broker is the coordinator, the request goes over
the network (`membership`).

Before the request is sent, the log creates a guard (a number) for the producer. After the response,
the batch is appended only if the log still has the same guard. Therefore a delayed batch of an
earlier transaction is rejected (see `PartitionLog.start_verification`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any

from odradek.broker.coordinator.membership import RemoteMembership
from odradek.broker.coordinator.transaction_coordinator import TransactionCoordinator
from odradek.broker.partitions.partition import Partition
from odradek.config.broker_config import BrokerConfig
from odradek.core.transaction.transaction import EPOCH_BUMP_VERSION, gathered
from odradek.env.clock import Clock
from odradek.model.errors import ApiError, ErrorCode
from odradek.model.topic_partition import TopicPartition
from odradek.telemetry.request_metrics import Distribution


class Protocol(Enum):
    """How the broker verifies, depending on the version of the client's request."""

    VERIFY_QUIETLY = "the client does not know the error TRANSACTION_ABORTABLE"
    VERIFY = "the partition was added before"
    ADD = "the broker adds the partition"

    @property
    def adds(self) -> bool:
        """Whether the broker adds partitions. Then each transaction has its own producer epoch."""
        return self is Protocol.ADD


def protocol_of_produce(api_version: int) -> Protocol:
    """Return the protocol for a version of Produce."""
    if api_version >= 12:
        return Protocol.ADD
    return Protocol.VERIFY if api_version == 11 else Protocol.VERIFY_QUIETLY


def protocol_of_offset_commit(api_version: int) -> Protocol:
    """Return the protocol for a version of TxnOffsetCommit."""
    if api_version >= 5:
        return Protocol.ADD
    return Protocol.VERIFY if api_version == 4 else Protocol.VERIFY_QUIETLY


class Writer:
    """A producer with a transaction."""

    __slots__ = ("producer_epoch", "producer_id", "protocol", "transactional_id")

    def __init__(
        self, transactional_id: str, producer_id: int, producer_epoch: int, protocol: Protocol
    ) -> None:
        self.transactional_id = transactional_id
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.protocol = protocol


Errors = dict[TopicPartition, ErrorCode]
Guards = dict[TopicPartition, int]
Asked = Errors | asyncio.Future[Any]
"""The partitions that the coordinator rejects, or a future of the coordinator's response."""


class Turn:
    """A place in the queue of one producer's requests. Enter it (`async with`) once.

    A producer's batches have sequence numbers. Therefore, while a request waits for the
    coordinator, later requests of the producer must wait too.
    """

    __slots__ = ("_before", "_mine", "_producer_id", "_turns")

    def __init__(self, turns: dict[int, asyncio.Future[None]], producer_id: int) -> None:
        self._turns = turns
        self._producer_id = producer_id
        self._before = turns.get(producer_id)
        self._mine: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        turns[producer_id] = self._mine

    async def __aenter__(self) -> None:
        if self._before is not None:
            await self._before

    async def __aexit__(self, *_: object) -> None:
        self._mine.set_result(None)
        if self._turns.get(self._producer_id) is self._mine:
            del self._turns[self._producer_id]


class Verification:
    """Requests verification from the coordinator. Use it only on the event loop's thread."""

    def __init__(
        self,
        transactions: TransactionCoordinator,
        remote: RemoteMembership,
        config: Callable[[], BrokerConfig],
        clock: Clock,
    ) -> None:
        """`remote` asks other brokers. `config` returns the newest configuration of the broker."""
        self._transactions = transactions
        self._remote = remote
        self._config = config
        self._clock = clock
        self.times = Distribution()
        """The µs that verifications took (a metric)."""
        self.failures = 0
        """Number of verifications that rejected a partition."""
        self._turns: dict[int, asyncio.Future[None]] = {}
        """Producer id -> a future that completes when the producer's last waiting request ends."""

    def is_awaited(self, producer_id: int) -> bool:
        """Whether an earlier request of the producer waits."""
        return producer_id in self._turns

    def queue(self, producer_id: int) -> Turn:
        """Return a place after the producer's earlier requests. Later requests wait behind it."""
        return Turn(self._turns, producer_id)

    def begin(
        self, writer: Writer, sequences: Mapping[Partition, int]
    ) -> tuple[Guards, dict[TopicPartition, ApiError]]:
        """Return the guards of the partitions that need verification, and the errors.

        `sequences` has the sequence number of the first batch for each partition.
        """
        guards: Guards = {}
        errors: dict[TopicPartition, ApiError] = {}
        adds = writer.protocol.adds
        if not adds and not self._config().transaction_partition_verification_enable:
            return guards, errors
        for partition, sequence in sequences.items():
            name = partition.log.topic_partition
            try:
                partition.check_leader()
                guard = partition.log.start_verification(
                    writer.producer_id, sequence, writer.producer_epoch, adds
                )
            except ApiError as error:
                errors[name] = error
            else:
                if guard:
                    guards[name] = guard
        return guards, errors

    def ask(self, writer: Writer, guards: Guards) -> Asked:
        """Ask the coordinator to verify or to add the partitions.

        If `verdict` returns None for the result, pass the result to `confirm`.
        """
        transactions = self._transactions
        partitions = gathered(guards)
        who = (writer.transactional_id, writer.producer_id, writer.producer_epoch, partitions)
        adds = writer.protocol.adds
        try:
            answer: Any
            if adds:
                answer = transactions.add_partitions(*who, EPOCH_BUMP_VERSION)
            else:
                answer = transactions.verify_partitions(*who)
        except ApiError as error:
            if error.code is not ErrorCode.NOT_COORDINATOR:
                return _all_refused(error, writer, guards)
            try:
                answer = self._remote.ask(*who, adds=adds)  # another broker coordinates the id
            except ApiError as unavailable:
                return _all_refused(unavailable, writer, guards)
        return answer if isinstance(answer, asyncio.Future) else _refused(answer, writer)

    def count(self, refused: Errors, duration_us: int) -> None:
        """Count a verification and its result."""
        self.times.add(duration_us)
        if refused:
            self.failures += 1

    async def confirm(self, writer: Writer, guards: Guards, asked: Asked | None = None) -> Errors:
        """Return the partitions that the coordinator rejects. The others belong to the transaction.

        While the previous transaction is still ending, the coordinator cannot add a partition. Then
        the request is repeated after a short delay, which costs less than a retry by the client.
        """
        config = self._config()
        started_ms = self._clock.monotonic_ms()
        limit_ms = min(config.add_partitions_to_txn_retry_backoff_max_ms, config.request_timeout_ms)
        while True:
            if asked is None:
                asked = self.ask(writer, guards)
            if isinstance(asked, asyncio.Future):
                try:
                    asked = _refused(await asked, writer)
                except ApiError as error:
                    asked = _all_refused(error, writer, guards)
            elapsed_ms = self._clock.monotonic_ms() - started_ms
            if verdict(asked, writer) is not None or elapsed_ms >= limit_ms:
                self.count(asked, elapsed_ms * 1000)
                return asked
            await asyncio.sleep(config.add_partitions_to_txn_retry_backoff_ms / 1000)
            asked = None


def verdict(asked: Asked, writer: Writer) -> Errors | None:
    """Return the partitions that the coordinator rejects.

    Return None if the coordinator has not responded yet, or if the previous transaction is still
    ending.
    """
    if isinstance(asked, asyncio.Future):
        return None
    is_ending = writer.protocol.adds and ErrorCode.CONCURRENT_TRANSACTIONS in asked.values()
    return None if is_ending else asked


def _refused(answer: Mapping[TopicPartition, ErrorCode] | None, writer: Writer) -> Errors:
    """Return the partitions that the coordinator's response rejects."""
    return {
        name: _for_producers(code, writer.protocol)
        for name, code in (answer or {}).items()
        if code is not ErrorCode.NONE
    }


def _all_refused(error: ApiError, writer: Writer, guards: Guards) -> Errors:
    return dict.fromkeys(guards, _for_producers(error.code, writer.protocol))


def _for_producers(code: ErrorCode, protocol: Protocol) -> ErrorCode:
    """Translate the coordinator's error for producers."""
    if code is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if code is ErrorCode.TRANSACTION_ABORTABLE and protocol is Protocol.VERIFY_QUIETLY:
        return ErrorCode.INVALID_TXN_STATE
    return code
