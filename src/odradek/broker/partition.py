"""One partition's replica on this broker: who leads it, its log, and who waits for it.

What was appended counts, for consumers and for acknowledgements, once the high watermark has
passed it. With one replica that is at once, unless the topic wants its records to survive a crash
of the machine first (`flush.messages=1`): then it is when the flush that they wait for is done.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from odradek.core.metadata.image import PartitionRegistration
from odradek.log.group_commit import Flushed
from odradek.log.marking import append_marker
from odradek.log.partition_log import PartitionLog
from odradek.log.results import AppendInfo
from odradek.model.errors import ApiError, ErrorCode
from odradek.model.topic_name import is_internal
from odradek.records.control import EndOfTransaction

if TYPE_CHECKING:
    from odradek.broker.delayed_fetch import DelayedFetch

HighWatermarkListener = Callable[[int], None]
WhenFlushed = Callable[[PartitionLog, int, Flushed], None]


class Partition:
    """The state of one replica. `registration` is the newest that the metadata log told."""

    __slots__ = (
        "_wake",
        "_when_flushed",
        "bytes_in",
        "bytes_out",
        "high_watermark_listener",
        "index",
        "is_internal",
        "is_leader",
        "log",
        "records_in",
        "registration",
        "topic",
        "topic_id",
        "waiters",
    )

    def __init__(
        self,
        topic: str,
        topic_id: bytes,
        index: int,
        log: PartitionLog,
        registration: PartitionRegistration,
        node_id: int,
        wake: Callable[[Partition, int], None],
        when_flushed: WhenFlushed,
    ) -> None:
        self.topic = topic
        self.is_internal = is_internal(topic)
        self.topic_id = topic_id
        self.index = index
        self.log = log
        self.registration = registration
        self.is_leader = registration.leader == node_id
        self.waiters: dict[DelayedFetch, None] | None = None
        """Fetches that wait for more than there is, oldest first."""
        self.high_watermark_listener: HighWatermarkListener | None = None
        """The coordinator that lives on this partition."""
        self.records_in = 0
        self.bytes_in = 0
        self.bytes_out = 0
        self._wake = wake
        self._when_flushed = when_flushed

    def check_epoch(self, current_leader_epoch: int) -> None:
        """Refuse a client that believes in another leader epoch; -1 believes in none.

        Raises:
            ApiError: FENCED_LEADER_EPOCH or UNKNOWN_LEADER_EPOCH.
        """
        if current_leader_epoch >= 0:
            epoch = self.registration.leader_epoch
            if current_leader_epoch < epoch:
                raise ApiError(ErrorCode.FENCED_LEADER_EPOCH)
            if current_leader_epoch > epoch:
                raise ApiError(ErrorCode.UNKNOWN_LEADER_EPOCH)

    def check_leader(self) -> None:
        """Refuse what only the leader may do.

        Raises:
            ApiError: NOT_LEADER_OR_FOLLOWER.
        """
        if not self.is_leader:
            raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def append(
        self, records: memoryview | bytearray | bytes, acks: int, verification_guard: int = 0
    ) -> AppendInfo:
        """Append what a producer sent; `acks` is -1, 0 or 1.

        The first batch of a transaction brings a guard (see `PartitionLog.start_verification`).

        Raises:
            ApiError: this is not the leader, the ISR is too small, or the log refuses.
        """
        if not self.is_leader:
            raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        log = self.log
        if acks == -1 and len(self.registration.isr) < log.config.min_insync_replicas:
            raise ApiError(ErrorCode.NOT_ENOUGH_REPLICAS)
        info = log.append_as_leader(
            records, self.registration.leader_epoch, verification_guard=verification_guard
        )
        self.records_in += info.last_offset - info.base_offset + 1
        self.bytes_in += len(records)
        self.on_appended(len(records))
        return info

    def append_marker(
        self, batch: bytearray, marker: EndOfTransaction, transaction_version: int
    ) -> None:
        """Append the marker that ends a producer's transaction; `batch` is made of it.

        Raises:
            ApiError: this is not the leader, the ISR is too small, or the log refuses.
        """
        self.check_leader()
        log = self.log
        if len(self.registration.isr) < log.config.min_insync_replicas:
            raise ApiError(ErrorCode.NOT_ENOUGH_REPLICAS)
        append_marker(log, batch, marker, self.registration.leader_epoch, transaction_version)
        self.on_appended(len(batch))

    def on_appended(self, appended_bytes: int) -> None:
        """The log grew; all replicas of the ISR (here: this one) have it, or have it soon."""
        log = self.log
        end = log.log_end_offset
        if not log.is_flushed_before_ack:
            self._advance_high_watermark(end, appended_bytes)
            return

        def flushed(error: ApiError | None) -> None:
            if error is None:
                self._advance_high_watermark(end, appended_bytes)

        self._when_flushed(log, end, flushed)

    def when_flushed(self, offset: int, flushed: Flushed) -> None:
        """Call `flushed` when all below `offset` survives a crash, and the high watermark knows."""
        self._when_flushed(self.log, offset, flushed)

    def _advance_high_watermark(self, offset: int, appended_bytes: int) -> None:
        log = self.log
        if log.high_watermark < offset:
            log.high_watermark = offset
            if self.high_watermark_listener is not None:
                self.high_watermark_listener(offset)
            if self.waiters:
                self._wake(self, appended_bytes)
