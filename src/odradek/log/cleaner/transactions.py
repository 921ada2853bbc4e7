"""Tracks which batches belong to aborted transactions, and which markers are still needed.

The cleaner reads a log from its beginning and passes every batch to `Transactions`. A batch of an
aborted transaction is removed immediately. A marker is needed while the log has a batch of its
transaction. After that, the marker is removed like a tombstone. (Apache Kafka's
`CleanedTransactionMetadata`.)
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heapify, heappop

from odradek.records.batch import RecordBatch
from odradek.records.control import ControlType, control_type
from odradek.records.record import iterate_records
from odradek.records.segment_files import AbortedTransaction


class _Aborted:
    __slots__ = ("has_batches", "transaction")

    def __init__(self, transaction: AbortedTransaction) -> None:
        self.transaction = transaction
        self.has_batches = False

    def on_batch(self) -> None:
        self.has_batches = True


class Transactions:
    """The state of transactions at the current offset.

    `aborted` are all aborted transactions in the range of offsets that is read.
    """

    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        self._pending = [(each.first_offset, each) for each in aborted]
        heapify(self._pending)
        self._aborted: dict[int, _Aborted] = {}
        """Producer id -> its aborted transaction that contains the current offset."""
        self._committed: set[int] = set()
        """Producer ids whose current transaction was not aborted and has batches in the log."""
        self.retained: list[AbortedTransaction] = []
        """Aborted transactions whose marker is kept, because they had batches. Oldest first."""

    def on_data(self, batch: RecordBatch) -> bool:
        """Process a data batch. Return True if its transaction was aborted."""
        if self._pending:
            self._begin(batch.last_offset)
        if not batch.is_transactional:
            return False
        aborted = self._aborted.get(batch.producer_id)
        if aborted is None:
            self._committed.add(batch.producer_id)
            return False
        aborted.on_batch()
        return True

    def on_control(self, batch: RecordBatch) -> bool:
        """Process a control batch. Return True if the log has no batches of its transaction.

        Raises:
            InvalidRecords: the batch has a record that is not a control record.
        """
        self._begin(batch.last_offset)
        record = next(iterate_records(batch), None)
        if record is None:
            return True  # a previous round has removed the marker from the batch
        kind = control_type(record)
        if kind is ControlType.COMMIT:
            if batch.producer_id in self._committed:
                self._committed.remove(batch.producer_id)
                return False
            return True
        if kind is not ControlType.ABORT:
            return False
        aborted = self._aborted.pop(batch.producer_id, None)
        if aborted is None or not aborted.has_batches:
            return True
        self.retained.append(aborted.transaction)
        return False

    def _begin(self, offset: int) -> None:
        """Start the transactions whose first offset is not above `offset`."""
        while self._pending and self._pending[0][0] <= offset:
            _, transaction = heappop(self._pending)
            self._aborted.setdefault(transaction.producer_id, _Aborted(transaction))
