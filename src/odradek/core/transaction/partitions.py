"""AddPartitionsToTxn: adds partitions to the open transaction, or verifies that they were added.

In version 1 of the protocol, the producer adds a partition before it writes to it. In version 2,
the leader of the partition adds the partition for the producer. For producers of version 1, the
leader only verifies that the partition belongs to the open transaction (KIP-890). If the partition
does not belong to the transaction, the leader must not append the records, because the coordinator
would never write a marker after them.
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
        """Add partitions to the open transaction. If no transaction is open, begin a transaction.

        Raises:
            ApiError: INVALID_REQUEST, INVALID_PRODUCER_ID_MAPPING or PRODUCER_FENCED.
                CONCURRENT_TRANSACTIONS: the previous transaction is still ending.
        """
        before = self._state.find(transactional_id)
        if before.is_prepared:
            # This comes before the check of the producer id and epoch, because the producer may
            # already have the next producer id or epoch.
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
        """Return NONE for each partition in the transaction, TRANSACTION_ABORTABLE for others.

        Raises:
            ApiError: see `add`.
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
