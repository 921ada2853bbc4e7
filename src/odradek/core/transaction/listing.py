"""DescribeTransactions and ListTransactions (KIP-664, KIP-1152)."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from odradek.core.transaction.completion import Completion
from odradek.core.transaction.phases import Phase
from odradek.core.transaction.state import TransactionState
from odradek.core.transaction.transaction import Transaction, gathered
from odradek.model.errors import ErrorCode
from odradek.wire.generated.describe_transactions_response import TopicData
from odradek.wire.generated.describe_transactions_response import (
    TransactionState as DescribedTransaction,
)
from odradek.wire.generated.list_transactions_response import (
    TransactionState as ListedTransaction,
)


class Filter(NamedTuple):
    """Criteria for ListTransactions. If there are no producer ids, any producer id matches."""

    producer_ids: Collection[int]
    phases: Collection[Phase] | None
    """None includes all phases."""
    duration_ms: int
    """Only ids whose last transaction began longer ago than this. A negative value includes all."""


class Listing:
    """Describes and lists transactions."""

    def __init__(self, state: TransactionState, completion: Completion) -> None:
        self._state = state
        self._completion = completion

    def describe(self, transactional_id: str) -> DescribedTransaction:
        """Describe a transactional id.

        The response has the error TRANSACTIONAL_ID_NOT_FOUND if the id is unknown.
        """
        transaction = self._state.transactions.get(transactional_id)
        if transaction is None:
            return DescribedTransaction(
                transactional_id=transactional_id, error_code=ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
            )
        return DescribedTransaction(
            transactional_id=transactional_id,
            transaction_state=transaction.phase.label,
            transaction_timeout_ms=transaction.timeout_ms,
            transaction_start_time_ms=transaction.start_ms,
            producer_id=transaction.producer_id,
            producer_epoch=transaction.producer_epoch,
            topics=[
                TopicData(topic=topic, partitions=sorted(indexes))
                for topic, indexes in gathered(self._completion.left(transactional_id)).items()
            ],
        )

    def list(self, wanted: Filter) -> list[ListedTransaction]:
        """Return the transactional ids that match a filter."""
        return [
            ListedTransaction(
                transactional_id=transactional_id,
                producer_id=transaction.producer_id,
                transaction_state=transaction.phase.label,
            )
            for transactional_id, transaction in self._state.transactions.items()
            if self._is_wanted(transaction, wanted)
        ]

    def _is_wanted(self, transaction: Transaction, wanted: Filter) -> bool:
        if wanted.producer_ids and transaction.producer_id not in wanted.producer_ids:
            return False
        if wanted.phases is not None and transaction.phase not in wanted.phases:
            return False
        age_ms = self._state.clock.now_ms() - transaction.start_ms
        return wanted.duration_ms < 0 or age_ms > wanted.duration_ms
