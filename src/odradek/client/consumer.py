"""Which batches of fetched records a reader sees. Only the simulator's own reader needs it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from odradek.client.fetcher import AbortedTransaction
from odradek.records.batch import RecordBatch, iterate_batches
from odradek.records.control import ControlType, control_type
from odradek.records.record import iterate_records


def visible_batches(
    records: memoryview, aborted: Iterable[AbortedTransaction]
) -> Iterator[RecordBatch]:
    """Yield the data batches, except the batches of aborted transactions.

    An aborted transaction begins at the offset that the broker reports and ends at the producer's
    next abort marker.

    Raises:
        RecordsError: a batch is corrupt.
    """
    to_come = sorted(aborted, key=lambda each: each.first_offset, reverse=True)
    aborting: set[int] = set()
    for batch in iterate_batches(records):
        batch.check()
        while to_come and to_come[-1].first_offset <= batch.last_offset:
            aborting.add(to_come.pop().producer_id)
        if batch.is_control:
            if batch.producer_id in aborting and _is_abort_marker(batch):
                aborting.discard(batch.producer_id)
        elif not (batch.is_transactional and batch.producer_id in aborting):
            yield batch


def _is_abort_marker(batch: RecordBatch) -> bool:
    record = next(iterate_records(batch), None)
    return record is not None and control_type(record) == ControlType.ABORT
