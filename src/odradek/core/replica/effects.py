"""The effects of the leader and of the fetcher. They are performed in the order of their list."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from odradek.env.file_range import FileRange


class ReplicaKey(NamedTuple):
    """A replica that is fetched: the topic id and the index of the partition."""

    topic_id: bytes
    partition: int


# -- effects of the leader ------------------------------------------------------------------------


@dataclass(slots=True, eq=False)
class IsrChange:
    """Request a new ISR from the controller (AlterPartition).

    Report the result with `PartitionLeader.altered` or `PartitionLeader.rejected`. A change is
    identified by its object, because a change and its repetition may have equal fields.
    """

    leader_epoch: int
    partition_epoch: int
    isr: tuple[tuple[int, int], ...]
    """Broker ids with broker epochs. An epoch of -1 is not checked by the controller."""

    @property
    def broker_ids(self) -> frozenset[int]:
        """The requested ISR."""
        return frozenset(broker_id for broker_id, _ in self.isr)


@dataclass(slots=True)
class HighWatermark:
    """The high watermark has moved up to `offset`."""

    offset: int


LeaderEffect = IsrChange | HighWatermark


# -- effects of the fetcher -----------------------------------------------------------------------


@dataclass(slots=True)
class Append:
    """Append the records, if any. Then set the high watermark and the log start offset.

    Report the result with `ReplicaFetcher.appended` or `ReplicaFetcher.failed`. Do nothing if the
    replica no longer follows in `leader_epoch`.
    """

    key: ReplicaKey
    leader_epoch: int
    records: bytes | bytearray | memoryview | FileRange | None
    high_watermark: int
    log_start_offset: int

    def keep_records(self) -> None:
        """Copy the records, if they are part of a receive buffer that will be reused."""
        if isinstance(self.records, memoryview):
            self.records = bytes(self.records)


@dataclass(slots=True)
class Truncate:
    """Truncate the log to `offset`, then report `ReplicaFetcher.appended` or `failed`."""

    key: ReplicaKey
    leader_epoch: int
    offset: int


@dataclass(slots=True)
class RestartAt:
    """Remove all records. The next record gets `offset`. Report the result as for `Truncate`."""

    key: ReplicaKey
    leader_epoch: int
    offset: int


FetcherEffect = Append | Truncate | RestartAt
