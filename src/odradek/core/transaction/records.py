"""The records of `__transaction_state`. The key is a transactional id, the value is its state."""

from __future__ import annotations

from typing import Final

from odradek.core.coordinator.record import CoordinatorRecord, KeyMessages, MalformedRecord
from odradek.core.transaction.phases import BY_NUMBER, Phase
from odradek.core.transaction.transaction import NO_PARTITIONS, Transaction
from odradek.wire.generated.transaction_log_key import TransactionLogKey
from odradek.wire.generated.transaction_log_value import PartitionsSchema, TransactionLogValue

FLEXIBLE_LEVEL: Final = 1
"""From this level of transaction.version on, values are written in version 1."""

MESSAGES: KeyMessages = {0: (TransactionLogKey, TransactionLogValue)}
"""Key and value classes by record type. There is only one type."""


def record_of(transactional_id: str, transaction: Transaction, level: int) -> CoordinatorRecord:
    """Return the record of a transaction.

    `level` is the finalized level of transaction.version.
    """
    partitions = None
    if transaction.phase is not Phase.EMPTY:
        partitions = [
            PartitionsSchema(topic=topic, partition_ids=sorted(indexes))
            for topic, indexes in transaction.partitions.items()
        ]
    value = TransactionLogValue(
        producer_id=transaction.producer_id,
        previous_producer_id=transaction.previous_producer_id,
        next_producer_id=transaction.next_producer_id,
        producer_epoch=transaction.producer_epoch,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_status=transaction.phase.value,
        transaction_partitions=partitions,
        transaction_last_update_timestamp_ms=transaction.update_ms,
        transaction_start_timestamp_ms=transaction.start_ms,
        client_transaction_version=transaction.client_version,
    )
    key = TransactionLogKey(transactional_id=transactional_id)
    if level >= FLEXIBLE_LEVEL:
        return CoordinatorRecord(key, value, 1)
    value.previous_producer_id = value.next_producer_id = -1
    value.client_transaction_version = 0
    return CoordinatorRecord(key, value, 0)


def tombstone(transactional_id: str) -> CoordinatorRecord:
    """Return the tombstone that removes an expired transactional id."""
    return CoordinatorRecord(TransactionLogKey(transactional_id=transactional_id), None)


def read(value: TransactionLogValue) -> Transaction:
    """Decode a record.

    Raises:
        MalformedRecord: the record has an unknown phase.
    """
    phase = BY_NUMBER.get(value.transaction_status)
    if phase is None:
        raise MalformedRecord(f"a transaction cannot be in phase {value.transaction_status}")
    partitions = NO_PARTITIONS
    if phase is not Phase.EMPTY and value.transaction_partitions:
        partitions = {
            each.topic: frozenset(each.partition_ids) for each in value.transaction_partitions
        }
    return Transaction(
        value.producer_id,
        value.previous_producer_id,
        value.next_producer_id,
        value.producer_epoch,
        value.transaction_timeout_ms,
        phase,
        partitions,
        value.transaction_start_timestamp_ms,
        value.transaction_last_update_timestamp_ms,
        value.client_transaction_version,
    )
