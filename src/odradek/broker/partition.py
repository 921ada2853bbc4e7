"""One partition's replica on this broker: who leads it, its log, and who waits for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from odradek.core.metadata.image import PartitionRegistration
from odradek.log.partition_log import PartitionLog
from odradek.log.results import AppendInfo
from odradek.model.errors import ApiError, ErrorCode
from odradek.model.topic_name import is_internal

if TYPE_CHECKING:
    from odradek.broker.delayed_fetch import DelayedFetch

HighWatermarkListener = Callable[[int], None]


class Partition:
    """The state of one replica. `registration` is the newest that the metadata log told."""

    __slots__ = (
        "_wake",
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

    def append(self, records: memoryview | bytearray | bytes, acks: int) -> AppendInfo:
        """Append what a producer sent; `acks` is -1, 0 or 1.

        Raises:
            ApiError: this is not the leader, the ISR is too small, or the log refuses.
        """
        if not self.is_leader:
            raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        log = self.log
        if acks == -1 and len(self.registration.isr) < log.config.min_insync_replicas:
            raise ApiError(ErrorCode.NOT_ENOUGH_REPLICAS)
        info = log.append_as_leader(records, self.registration.leader_epoch)
        self.records_in += info.last_offset - info.base_offset + 1
        self.bytes_in += len(records)
        self.advance_high_watermark(len(records))
        return info

    def advance_high_watermark(self, appended_bytes: int) -> None:
        """All replicas of the ISR (here: this one) hold the log up to its end."""
        log = self.log
        end = log.log_end_offset
        if log.high_watermark != end:
            log.high_watermark = end
            if self.high_watermark_listener is not None:
                self.high_watermark_listener(end)
            if self.waiters:
                self._wake(self, appended_bytes)
