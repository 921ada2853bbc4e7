"""AddPartitionsToTxn: which partitions belong to the open transaction.

Partitions are added before anything is written to them, or by the leader of the partition on behalf
of the producer (version 2 of the protocol). A leader may also only ask whether its partition has
been added (KIP-890): nothing may be written in transactions that the coordinator does not know.
"""

from __future__ import annotations

from typing import Final

from odradek.core.coordinator.result import NO_RECORDS, CoordinatorResult
from odradek.core.transaction.phases import Phase
from odradek.core.transaction.state import TransactionState
from odradek.core.transaction.transaction import Partitions, Transaction, each, united
from odradek.model.errors import ApiError, ErrorCode
from odradek.model.topic_partition import TopicPartition

_ADDED: Final[CoordinatorResult[None]] = CoordinatorResult(NO_RECORDS, None)


class Membership:
    """Decides on the partitions of transactions."""

    def __init__(self, state: TransactionState) -> None:
        self._state = state

    def add(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Partitions,
        client_version: int,
    ) -> CoordinatorResult[None]:
        """Add partitions to the open transaction, or open one with them.

        Raises:
            ApiError: INVALID_REQUEST, INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED, or
                CONCURRENT_TRANSACTIONS while the transaction before ends.
        """
        before = self._state.find(transactional_id)
        if before.is_prepared:
            # Before the checks of the producer, which may already have its next id and epoch.
            raise ApiError(ErrorCode.CONCURRENT_TRANSACTIONS)
        _check_producer(before, producer_id, producer_epoch)
        now_ms = self._state.clock.now_ms()
        if before.phase is Phase.ONGOING:
            if before.contains(partitions):
                return _ADDED
            start_ms = before.start_ms
        else:
            start_ms = now_ms
        after = before.move(
            Phase.ONGOING,
            now_ms,
            partitions=united(before.partitions, partitions),
            start_ms=start_ms,
            client_version=client_version,
        )
        return CoordinatorResult([self._state.record(transactional_id, after)], None)

    def verify(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Partitions,
    ) -> CoordinatorResult[dict[TopicPartition, ErrorCode]]:
        """Whether partitions belong to the transaction: NONE or TRANSACTION_ABORTABLE for each.

        Raises:
            ApiError: as `add`.
        """
        transaction = self._state.find(transactional_id)
        _check_producer(transaction, producer_id, producer_epoch)
        if transaction.is_prepared:
            raise ApiError(ErrorCode.CONCURRENT_TRANSACTIONS)
        known = transaction.partitions
        found = {
            name: ErrorCode.NONE
            if name.partition in known.get(name.topic, ())
            else ErrorCode.TRANSACTION_ABORTABLE
            for name in each(partitions)
        }
        return CoordinatorResult(NO_RECORDS, found)


def _check_producer(transaction: Transaction, producer_id: int, producer_epoch: int) -> None:
    if transaction.producer_id != producer_id:
        raise ApiError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if transaction.producer_epoch != producer_epoch:
        raise ApiError(ErrorCode.PRODUCER_FENCED)
