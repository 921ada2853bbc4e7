"""One partition with followers that this broker leads: performs the effects of
`core/replica/leader`.

`Leading` reports the partition's appends, the followers' Fetch requests and the metadata to the
machine, and performs its effects: it raises the high watermark of the log, and passes ISR changes
to the controller.

A partition with one replica has no `Leading`: its records are committed when they are appended, or
flushed if the topic has `flush.messages=1`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from odradek.core.metadata.registrations import PartitionRegistration
from odradek.core.replica.effects import HighWatermark, IsrChange, LeaderEffect
from odradek.core.replica.leader import BrokerOf, PartitionLeader
from odradek.core.replica.throttle import ReplicationThrottle
from odradek.log.partition_log import PartitionLog

ANY_BYTES: Final = 1 << 62
"""More bytes than any request waits for: the request is evaluated again."""
SIZES_MAX = 10_000
"""The number of appends above the high watermark whose sizes are kept. There are more if the ISR is
smaller than `min.insync.replicas` and producers use acks=1: then the high watermark does not move."""


@dataclass(frozen=True, slots=True)
class AlteredPartition:
    """The state of a partition in an AlterPartition response."""

    leader_epoch: int
    partition_epoch: int
    isr: Sequence[int]


OnAltered = Callable[[IsrChange, AlteredPartition | int], None]
"""Called with the controller's result for a change: the new state, or an error code."""
OnDeleted = Callable[[int | None], None]
"""Called with the low watermark, or None if this broker no longer leads the partition."""
Alter = Callable[[bytes, int, IsrChange, OnAltered], None]
"""Requests a change of the ISR of a partition, by topic id and index."""


class IsrChanges:
    """Counts the changes of ISRs that the leaders on this broker have requested (metrics)."""

    def __init__(self) -> None:
        self.shrinks = 0
        self.expands = 0
        self.failures = 0

    def made(self, before: frozenset[int], after: frozenset[int]) -> None:
        """Count a change that the controller has made."""
        if before < after:
            self.expands += 1
        else:
            self.shrinks += 1

    def failed(self) -> None:
        """Count a change that the controller has rejected."""
        self.failures += 1


@dataclass(frozen=True, slots=True)
class LeaderContext:
    """What all partitions that this broker leads have in common."""

    node_id: int
    now_ms: Callable[[], int]
    broker_of: BrokerOf
    lag_time_max_ms: int
    alter: Alter
    tells_high_watermark: bool = False
    """Whether a follower that waits for records gets a higher high watermark immediately. This
    costs more requests, and is needed only if consumers read from followers."""
    throttle: ReplicationThrottle = field(default_factory=ReplicationThrottle)
    """The throttle of what this broker sends to followers."""
    isr_changes: IsrChanges = field(default_factory=IsrChanges)
    led: dict[Leading, None] = field(default_factory=dict)
    """The partitions with followers that this broker leads."""


class Leading:
    """A partition that this broker leads. Use it only on the event loop's thread."""

    __slots__ = (
        "_context",
        "_deletions",
        "_index",
        "_log",
        "_min_insync_replicas",
        "_moved",
        "_sizes",
        "_stored_offset",
        "_topic_id",
        "_uncounted_end",
        "machine",
        "throttled_topics",
    )

    def __init__(
        self,
        context: LeaderContext,
        topic_id: bytes,
        index: int,
        log: PartitionLog,
        registration: PartitionRegistration,
        moved: Callable[[int, int], None],
    ) -> None:
        """Begin to lead. Call `start` after that.

        `moved` is called with the new high watermark and with the size in bytes of the records
        between the previous high watermark and the new one.
        """
        self._context = context
        self._topic_id = topic_id
        self._index = index
        self._log = log
        self._moved = moved
        self._sizes: deque[tuple[int, int]] = deque()
        """The end offset and the size of each append above the high watermark."""
        self._uncounted_end = -1
        """The sizes of appends below this offset are unknown. It is -1 if all sizes are known."""
        self._stored_offset = log.recovery_point
        """Records below this offset are flushed. Used only if the topic has `flush.messages=1`."""
        self.throttled_topics = context.throttle.topics
        """The topics of which this broker throttles partitions; usually empty."""
        self._deletions: list[tuple[int, OnDeleted]] = []
        """The offsets up to which records are being deleted, and the callbacks."""
        self._min_insync_replicas = log.config.min_insync_replicas
        self.machine = PartitionLeader(
            context.now_ms(),
            context.node_id,
            registration,
            context.broker_of,
            end_offset=log.log_end_offset,
            high_watermark=log.high_watermark,
            lag_time_max_ms=context.lag_time_max_ms,
            min_insync_replicas=self._min_insync_replicas,
        )

    def start(self) -> None:
        """Determine the high watermark."""
        self._context.led[self] = None
        self.advance()

    def use_log(self, log: PartitionLog) -> None:
        """Use another log with the same records."""
        self._log = log

    def stop(self) -> None:
        """Stop leading. Results of ISR changes and flushes are ignored from now on."""
        self._context.led.pop(self, None)
        deletions, self._deletions = self._deletions, []
        for _, deleted in deletions:
            deleted(None)

    @property
    def tells_high_watermark(self) -> bool:
        """Whether followers that wait get a higher high watermark immediately."""
        return self._context.tells_high_watermark

    @property
    def is_under_min_isr(self) -> bool:
        """Whether the ISR is too small for acks=all."""
        self._refresh_config()
        return self.machine.is_under_min_isr

    def appended(self, appended_bytes: int) -> None:
        """Apply an append to the log."""
        if len(self._sizes) >= SIZES_MAX:
            self._sizes.clear()
            self._uncounted_end = self._log.log_end_offset
        self._sizes.append((self._log.log_end_offset, appended_bytes))
        self.advance()

    def stored(self, offset: int) -> None:
        """Apply a flush: the records below `offset` survive a crash."""
        if self in self._context.led:
            self._stored_offset = max(self._stored_offset, offset)
            self.advance()

    def advance(self) -> None:
        """Apply the current end of the log."""
        log = self._log
        end_offset = log.log_end_offset
        stored_offset = self._stored_offset if log.is_flushed_before_ack else end_offset
        self._perform(self.machine.advance(self._context.now_ms(), end_offset, stored_offset))

    def update(self, registration: PartitionRegistration) -> None:
        """Apply newer metadata. This broker still leads the partition."""
        machine = self.machine
        pending, before = machine.pending, machine.isr
        effects = machine.update(self._context.now_ms(), registration)
        self._count_change(pending, before)
        self._perform(effects)

    def tick(self) -> None:
        """Let followers that lag leave the ISR."""
        self._refresh_config()
        if self._deletions:
            self._settle_deletions()  # a broker may have been fenced
        self._perform(self.machine.tick(self._context.now_ms()))

    def fetched(
        self, broker_id: int, broker_epoch: int, offset: int, log_start_offset: int
    ) -> None:
        """Apply a follower's Fetch request (`PartitionLeader.fetched`)."""
        now_ms = self._context.now_ms()
        self._perform(
            self.machine.fetched(now_ms, broker_id, broker_epoch, offset, log_start_offset)
        )
        if self._deletions:
            self._settle_deletions()

    def is_throttled(self, broker_id: int) -> bool:
        """Whether a follower gets no records now, because the throttle's limit is exceeded."""
        throttle = self._context.throttle
        return (
            broker_id not in self.machine.isr
            and throttle.covers(*self._log.topic_partition)
            and throttle.is_exceeded(self._context.now_ms())
        )

    def sent(self, size: int) -> None:
        """Count bytes of records that are sent to a follower."""
        throttle = self._context.throttle
        if throttle.covers(*self._log.topic_partition):
            throttle.record(self._context.now_ms(), size)

    @property
    def low_watermark(self) -> int:
        """The lowest log start offset of the live replicas."""
        return self.machine.low_watermark(self._log.log_start_offset)

    def when_deleted(self, offset: int, deleted: OnDeleted) -> None:
        """Call `deleted` when all live replicas have deleted the records below `offset`."""
        self._deletions.append((offset, deleted))
        self._settle_deletions()

    def _settle_deletions(self) -> None:
        low_watermark = self.low_watermark
        done = [each for each in self._deletions if each[0] <= low_watermark]
        if done:
            self._deletions = [each for each in self._deletions if each[0] > low_watermark]
        for _, deleted in done:
            deleted(low_watermark)

    def _refresh_config(self) -> None:
        number = self._log.config.min_insync_replicas
        if number != self._min_insync_replicas:
            self._min_insync_replicas = number
            now_ms = self._context.now_ms()
            self._perform(self.machine.set_min_insync_replicas(now_ms, number))

    def _perform(self, effects: Sequence[LeaderEffect]) -> None:
        for effect in effects:
            match effect:
                case HighWatermark(offset):
                    self._moved(offset, self._bytes_below(offset))
                case IsrChange():
                    self._context.alter(self._topic_id, self._index, effect, self._altered)

    def _bytes_below(self, offset: int) -> int:
        """Remove and add up the appends that end at or below `offset`."""
        sizes, total = self._sizes, 0
        while sizes and sizes[0][0] <= offset:
            total += sizes.popleft()[1]
        if self._uncounted_end >= 0:
            total = ANY_BYTES
            if self._uncounted_end <= offset:
                self._uncounted_end = -1
        return total

    def _altered(self, change: IsrChange, result: AlteredPartition | int) -> None:
        if self not in self._context.led:
            return
        now_ms = self._context.now_ms()
        pending, before = self.machine.pending, self.machine.isr
        if isinstance(result, AlteredPartition):
            effects = self.machine.altered(
                now_ms, change, result.leader_epoch, result.partition_epoch, result.isr
            )
            self._count_change(pending, before)
        else:
            self._context.isr_changes.failed()
            effects = self.machine.rejected(now_ms, change, result)
        self._perform(effects)

    def _count_change(self, pending: IsrChange | None, before: frozenset[int]) -> None:
        """Count the change that was pending if the controller has made it.

        The metadata log or the response has the result, whichever comes first.
        """
        after = self.machine.isr
        if pending is not None and after != before and after == pending.broker_ids:
            self._context.isr_changes.made(before, after)
