"""Results of log operations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from odradek.env.file_range import FileRange
from odradek.records.segment_files import AbortedTransaction


class FetchData(NamedTuple):
    """The result of a read: a range of a file, and the aborted transactions in this range."""

    records: FileRange
    aborted_transactions: Sequence[AbortedTransaction] = ()


# Creates a `FetchData` in half the time of a call of the class. Every read needs a `FetchData`.
new_fetch_data: Callable[
    [type[FetchData], tuple[FileRange, Sequence[AbortedTransaction]]], FetchData
]
new_fetch_data = tuple.__new__


class AppendInfo:
    """The offsets of the appended records. For a duplicate, the offsets of its first append."""

    __slots__ = (
        "base_offset",
        "is_duplicate",
        "last_offset",
        "log_append_time_ms",
        "log_start_offset",
    )

    def __init__(
        self,
        base_offset: int,
        last_offset: int,
        log_start_offset: int,
        log_append_time_ms: int = -1,
        is_duplicate: bool = False,
    ) -> None:
        self.base_offset = base_offset
        self.last_offset = last_offset
        self.log_start_offset = log_start_offset
        self.log_append_time_ms = log_append_time_ms
        """-1 if the records keep the timestamps of the producer (CreateTime)."""
        self.is_duplicate = is_duplicate

    def __repr__(self) -> str:
        return f"AppendInfo({self.base_offset}..{self.last_offset})"


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
