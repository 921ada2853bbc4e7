"""Counts the records in flight of a share partition, for metrics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from odradek.core.share.states import RecordState
from odradek.core.share.window import Window


class Census(NamedTuple):
    """The records from the start offset to the end offset."""

    acquired: int
    available: int
    """Number of records that were delivered and may be delivered again, or are due."""
    deferred: int
    """Number of records that wait for their time, or for the end of a back-off."""
    deliveries: Mapping[int, int]
    """Number of acquired and available records by their number of deliveries."""
    first_expiration_ms: int | None
    """When the next lock expires; None if no record is acquired."""


def count(window: Window) -> Census:
    """Count the records. Another thread may change them meanwhile."""
    numbers: Counter[RecordState] = Counter()
    deliveries: Counter[int] = Counter()
    expirations = []
    for batch in list(window.batches):
        for first, last, state in batch.parts():
            records = window.count_from_start(first, last)
            if not records:
                continue
            kind, lock = state.state, state.lock
            if kind is not RecordState.ACQUIRED and kind is not RecordState.AVAILABLE:
                continue
            numbers[kind] += records
            deliveries[state.delivery_count] += records
            if kind is RecordState.ACQUIRED and lock is not None:
                expirations.append(lock.expiration_ms)
    deferred = window.deferred
    for state in list(deferred.acquired.values()):
        kind, lock = state.state, state.lock
        if kind is RecordState.ACQUIRED:
            numbers[kind] += 1
            deliveries[state.delivery_count] += 1
            if lock is not None:
                expirations.append(lock.expiration_ms)
    return Census(
        numbers[RecordState.ACQUIRED],
        numbers[RecordState.AVAILABLE] + deferred.ready_count,
        max(0, deferred.waiting_count),
        deliveries,
        min(expirations, default=None),
    )
