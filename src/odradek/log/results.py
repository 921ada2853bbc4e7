"""What a log returns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from odradek.env.file_range import FileRange
from odradek.log.transaction_index import AbortedTransaction


class AppendInfo:
    """The offsets of a payload; if it `is_duplicate`, those that it got the first time."""

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
        """-1 where records keep their own time."""
        self.is_duplicate = is_duplicate

    def __repr__(self) -> str:
        return f"AppendInfo({self.base_offset}..{self.last_offset})"


class FetchData(NamedTuple):
    """What a read gives: a range of a file, and what a consumer of committed records skips."""

    records: FileRange
    aborted_transactions: Sequence[AbortedTransaction] = ()


# `FetchData(...)` in half the time, for the path of every fetch.
new_fetch_data: Callable[[type[FetchData], tuple[FileRange, tuple[()]]], FetchData]
new_fetch_data = tuple.__new__


class TimestampOffset(NamedTuple):
    """An answer of ListOffsets; -1 where something is unknown."""

    timestamp: int
    offset: int
    leader_epoch: int


class ProducerDescription(NamedTuple):
    """One producer in an answer of DescribeProducers."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp: int
    coordinator_epoch: int
    transaction_first_offset: int
