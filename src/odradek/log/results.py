"""Results of log operations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from odradek.env.file_range import FileRange
from odradek.log.transaction_index import AbortedTransaction


class FetchData(NamedTuple):
    """The result of a read: a range of a file, and the aborted transactions in this range."""

    records: FileRange
    aborted_transactions: Sequence[AbortedTransaction] = ()


# Creates a `FetchData` in half the time of a call of the class. Every read needs a `FetchData`.
new_fetch_data: Callable[[type[FetchData], tuple[FileRange, tuple[()]]], FetchData]
new_fetch_data = tuple.__new__


class TimestampOffset(NamedTuple):
    """A result for ListOffsets. Unknown fields are -1."""

    timestamp: int
    offset: int
    leader_epoch: int


class ProducerDescription(NamedTuple):
    """A producer in a DescribeProducers response."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp: int
    coordinator_epoch: int
    transaction_first_offset: int
