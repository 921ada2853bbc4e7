"""Partitions of fetch sessions that rest (`core/session/fetch`).

After a response, the Fetch handler lets a partition rest if the fetcher has everything
(`has_everything`, `is_in_sync`). A `RestingPartition` then waits in the `Partition` for the next
change. It activates the partition in the session, and the session's waiting fetch counts the bytes.

While a partition of a follower rests, the follower's requests do not update what the leader knows
of this follower. So when the partition changes, the leader is told that the follower had all
records at the time of its last request. Otherwise the follower would leave the ISR.
"""

from __future__ import annotations

from odradek.broker.partitions.partition import Partition
from odradek.core.session.fetch import FetchedPartition, FetchSession
from odradek.wire.generated.fetch_response import PartitionData

CONSUMER = -1
READ_COMMITTED = 1


class RestingPartition:
    """Ends the rest of one partition of a session when the partition changes."""

    __slots__ = ("_follower_id", "_partition", "_session", "_wanted")

    def __init__(
        self,
        session: FetchSession,
        wanted: FetchedPartition,
        partition: Partition,
        follower_id: int,
    ) -> None:
        """Begin the rest; `follower_id` is the broker that fetches, or `CONSUMER`."""
        self._session = session
        self._wanted = wanted
        self._partition = partition
        self._follower_id = follower_id
        if session.rest(wanted, self):
            partition.add_watch(self, is_follower=follower_id != CONSUMER)

    def on_changed(self, appended_bytes: int) -> None:
        """See `broker.partitions.partition.Watch`."""
        session, partition = self._session, self._partition
        session.activate(self._wanted)
        if partition.leading is not None and self._follower_id != CONSUMER:
            partition.leading.machine.rested(self._follower_id, session.last_used_ms)
        if session.waiting is not None:
            session.waiting.on_changed(partition, appended_bytes)

    def expire(self) -> None:
        """See `broker.partitions.partition.Watch`."""
        self._session.activate(self._wanted)
        if self._session.waiting is not None:
            self._session.waiting.expire()

    def close(self) -> None:
        """See `core.session.fetch.Watch`."""
        self._partition.remove_watch(self)


def is_told(partition: Partition, answer: PartitionData) -> bool:
    """Whether a response without records contains the newest offsets of the partition."""
    log = partition.log
    return (
        not answer.error_code
        and answer.diverging_epoch.epoch < 0
        and answer.preferred_read_replica < 0
        and answer.high_watermark == log.high_watermark
        and answer.log_start_offset == log.log_start_offset
    )


def has_everything(partition: Partition, offset: int, isolation_level: int) -> bool:
    """Whether a consumer has all records that it may read."""
    log = partition.log
    if isolation_level == READ_COMMITTED:
        return offset >= log.last_stable_offset
    return offset >= log.high_watermark


def is_in_sync(partition: Partition, offset: int, follower_id: int) -> bool:
    """Whether a follower has all records and is in the ISR.

    Partitions of a follower outside the ISR do not rest, because its requests let it join the ISR.
    """
    leading = partition.leading
    return (
        leading is not None
        and offset == partition.log.log_end_offset
        and follower_id in leading.machine.isr
    )
