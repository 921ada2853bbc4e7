"""The replica of one partition on this broker: its log, its leader, and the requests that wait.

A record is committed when all in-sync replicas have it. An append advances the log end offset, a
commit the high watermark. If this broker has the only replica, a record is committed as soon as it
is appended or, if the topic has `flush.messages=1`, as soon as it is flushed. If this broker leads
other replicas, `Leading` decides when records are committed. If it follows, it gets the high
watermark from the leader (`replication/fetchers.py`).

Consumers read only records below the high watermark, from the leader or from a follower (KIP-392).
`when_acknowledged` delays the response to a producer according to its `acks`.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Callable
from operator import itemgetter
from typing import Final, Protocol

from odradek.broker.partitions import expected_errors
from odradek.broker.partitions.leading import ANY_BYTES, LeaderContext, Leading
from odradek.core.metadata.image import PartitionRegistration
from odradek.log.errors import RecordsRefused, Rejection
from odradek.log.group_commit import Flushed
from odradek.log.partition_log import PartitionLog
from odradek.log.results import AppendInfo
from odradek.log.validation import Accepted, Effort
from odradek.model.errors import ApiError, ErrorCode
from odradek.model.topic_name import is_internal
from odradek.records.control import EndOfTransaction

WhenFlushed = Callable[[PartitionLog, int, Flushed], None]
Committed = Callable[[ApiError | None], None]
"""A callback, called on the event loop's thread when the records are committed. Its argument is
None, or an error if the records may never become committed."""

ACKS_ALL: Final = -1
_offset_of: Final = itemgetter(0)


class Waiter(Protocol):
    """A request that waits for more records (a delayed operation in Apache Kafka)."""

    def on_committed(self, appended_bytes: int, /) -> None:
        """Note that an append of this many bytes has advanced a partition's high watermark."""
        ...

    def expire(self) -> None:
        """Respond now."""
        ...


class Watch(Protocol):
    """A resting partition of a fetch session, which is notified of the next change only."""

    def on_changed(self, appended_bytes: int, /) -> None:
        """Note an append of this many bytes, or another change (0 bytes)."""
        ...

    def expire(self) -> None:
        """Note that fetches must respond now."""
        ...


class Partition:
    """The state of one replica. `registration` is the partition's newest state in the metadata."""

    __slots__ = (
        "_flushing_to",
        "_follower_waiters",
        "_follower_watches",
        "_is_added",
        "_isr_size",
        "_lacks_replicas",
        "_leader_epoch",
        "_leading",
        "_node_id",
        "_uncommitted",
        "_waiters",
        "_watches",
        "_when_flushed",
        "appends",
        "bytes_in",
        "bytes_out",
        "bytes_rejected",
        "failed_appends",
        "failed_fetches",
        "fetches",
        "index",
        "is_internal",
        "is_leader",
        "log",
        "reassignment_bytes_in",
        "reassignment_bytes_out",
        "records_in",
        "registration",
        "rejections",
        "replication_bytes_in",
        "replication_bytes_out",
        "topic",
        "topic_id",
    )

    def __init__(
        self,
        topic: str,
        topic_id: bytes,
        index: int,
        log: PartitionLog,
        registration: PartitionRegistration,
        node_id: int,
        when_flushed: WhenFlushed,
    ) -> None:
        self.topic = topic
        self.is_internal = is_internal(topic)
        self.topic_id = topic_id
        self.index = index
        self.log = log
        self._node_id = node_id
        self._leading: Leading | None = None
        """The followers; None if this is not the leader, or if there are no other replicas."""
        self.update(registration)
        self._waiters: dict[Waiter, None] | None = None
        """Requests that wait for more records, oldest first. None until the first request waits."""
        self._follower_waiters: dict[Waiter, None] | None = None
        """Fetch requests of followers that wait for more records."""
        self._watches: dict[Watch, None] | None = None
        self._follower_watches: dict[Watch, None] | None = None
        self._uncommitted: list[tuple[int, Committed]] | None = None
        """Callbacks of `when_committed` that have not been called, by ascending offset."""
        self._flushing_to = -1
        """The high watermark after the newest flush, if it succeeds; -1 after a failed flush."""
        self.appends = 0
        """Batches of producers, appended or not, and appends of coordinators."""
        self.failed_appends = 0
        self.fetches = 0
        """How often the partition was read for a consumer or follower."""
        self.failed_fetches = 0
        """How many of these reads had an unexpected error."""
        self.bytes_rejected = 0
        """Bytes of batches that were too large."""
        self.rejections: dict[Rejection, int] | None = None
        """Batches that were invalid. None until the first one."""
        self.reassignment_bytes_in = 0
        self.reassignment_bytes_out = 0
        self.records_in = 0
        self.bytes_in = 0
        self.bytes_out = 0
        self.replication_bytes_in = 0
        self.replication_bytes_out = 0
        self._when_flushed = when_flushed

    def update(self, registration: PartitionRegistration) -> None:
        """Apply a changed registration from the metadata log."""
        self.registration = registration
        self.is_leader = registration.leader == self._node_id
        self._leader_epoch = registration.leader_epoch
        self._isr_size = len(registration.isr)
        self._lacks_replicas = self._isr_size < len(registration.replicas)
        self._is_added = self._node_id in registration.adding_replicas

    def use_log(self, log: PartitionLog) -> None:
        """Use another log with the same records. Waiting requests go on with it."""
        self.log = log
        if self._leading is not None:
            self._leading.use_log(log)

    def resign(self) -> None:
        """Stop leading: the replica is removed from this broker, or its disk has failed."""
        self.is_leader = False
        self.stop_leading_followers()

    # -- replication ----------------------------------------------------------------------------

    @property
    def leading(self) -> Leading | None:
        """The followers; None if this is not the leader, or if there are no other replicas."""
        return self._leading

    @property
    def is_replicated(self) -> bool:
        """Whether other brokers have replicas, too."""
        return len(self.registration.replicas) > 1

    @property
    def is_behind_epoch(self) -> bool:
        """Whether the high watermark of a new leader is below the start of its epoch."""
        leading = self._leading
        return leading is not None and (
            self.log.high_watermark < leading.machine.epoch_start_offset
        )

    def lead_followers(self, context: LeaderContext) -> None:
        """Lead the other replicas of the newest registration. The log has the leader epoch."""
        if self._leading is not None:
            self._leading.update(self.registration)
            self._notify_followers(0)  # a follower that has left the ISR may join it again
            return
        self._leading = Leading(
            context,
            self.topic_id,
            self.index,
            self.log,
            self.registration,
            self._on_high_watermark,
        )
        self._leading.start()
        if self.log.is_flushed_before_ack:
            self._flush(self.log.log_end_offset, 0)

    def stop_leading_followers(self) -> None:
        """Undo `lead_followers`."""
        if self._leading is not None:
            self._leading.stop()
            self._leading = None

    def follows_in(self, leader_epoch: int) -> bool:
        """Whether this replica is a follower in this leader epoch."""
        return not self.is_leader and self._leader_epoch == leader_epoch

    def follow_leader(
        self, high_watermark: int, log_start_offset: int, appended_bytes: int = 0
    ) -> None:
        """Set the offsets that the leader has sent, after its records have been appended."""
        self.replication_bytes_in += appended_bytes
        if self._is_added:
            self.reassignment_bytes_in += appended_bytes
        log = self.log
        before = log.high_watermark
        if before != high_watermark:
            log.high_watermark = high_watermark
            if log.high_watermark > before:
                self._notify_consumers(ANY_BYTES)
        if log_start_offset > log.log_start_offset:
            log.delete_records_before(min(log_start_offset, log.high_watermark))

    def check_epoch(self, current_leader_epoch: int) -> None:
        """Raise an error if the client's leader epoch differs from this replica's.

        -1 means that the client has sent no epoch; then nothing is checked.

        Raises:
            ApiError: FENCED_LEADER_EPOCH or UNKNOWN_LEADER_EPOCH.
        """
        if current_leader_epoch >= 0:
            epoch = self._leader_epoch
            if current_leader_epoch < epoch:
                raise ApiError(ErrorCode.FENCED_LEADER_EPOCH)
            if current_leader_epoch > epoch:
                raise ApiError(ErrorCode.UNKNOWN_LEADER_EPOCH)

    def check_leader(self, current_leader_epoch: int = -1) -> None:
        """Raise an error if the leader epochs differ (`check_epoch`) or this is not the leader.

        Raises:
            ApiError: FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH or NOT_LEADER_OR_FOLLOWER.
        """
        if current_leader_epoch >= 0 and current_leader_epoch != self._leader_epoch:
            self.check_epoch(current_leader_epoch)
        if not self.is_leader:
            raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def append(
        self,
        records: memoryview | bytearray | bytes,
        acks: int,
        verification_guard: int = 0,
        effort: Effort = Effort.FULL,
        accepted: Accepted | None = None,
    ) -> AppendInfo:
        """Append a producer's records; `acks` is -1, 0 or 1.

        The first batch of a transaction needs a guard (see `PartitionLog.start_verification`).
        `accepted` is the result of the validation, if the records have been validated.

        Raises:
            ApiError: this is not the leader, the ISR is too small, or the log rejects the records.
            LongValidation: the effort is SHORT, and validation takes longer.
        """
        size = len(records)
        try:
            if not self.is_leader:
                raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
            log, leading = self.log, self._leading
            if acks == ACKS_ALL:
                if leading is not None:
                    if leading.is_under_min_isr:
                        raise ApiError(ErrorCode.NOT_ENOUGH_REPLICAS)
                elif self._lacks_replicas and self._isr_size < log.config.min_insync_replicas:
                    raise ApiError(ErrorCode.NOT_ENOUGH_REPLICAS)
            info = log.appender.append_as_leader(
                records,
                self._leader_epoch,
                verification_guard=verification_guard,
                effort=effort,
                accepted=accepted,
            )
        except ApiError as error:
            self.count_failure(error, size)
            raise
        end = info.last_offset + 1
        self.appends += 1
        self.records_in += end - info.base_offset
        self.bytes_in += size
        if leading is not None:
            self._replicate(leading, size)
        elif log.is_flushed_before_ack:
            self._flush(log.log_end_offset, size)
        else:
            self._advance_high_watermark(end, size)
        return info

    def count_failure(self, error: ApiError, rejected_bytes: int) -> None:
        """Count a batch that was not appended (metrics)."""
        self.appends += 1
        if error.code not in expected_errors.OF_APPENDS:
            self.failed_appends += 1
        if error.code is ErrorCode.MESSAGE_TOO_LARGE:
            self.bytes_rejected += rejected_bytes
        if isinstance(error, RecordsRefused) and error.rejection is not Rejection.OTHER:
            if self.rejections is None:
                self.rejections = {}
            self.rejections[error.rejection] = self.rejections.get(error.rejection, 0) + 1

    def _replicate(self, leading: Leading, appended_bytes: int) -> None:
        """Let the followers fetch the appended records."""
        log = self.log
        if log.is_flushed_before_ack:
            self._flush(log.log_end_offset, 0)
        leading.appended(appended_bytes)
        self._notify_followers(appended_bytes)

    def append_marker(
        self, batch: bytearray, marker: EndOfTransaction, transaction_version: int
    ) -> None:
        """Append the marker that ends a producer's transaction; `batch` is built from `marker`.

        Raises:
            ApiError: this is not the leader, the ISR is too small, or the log rejects the marker.
        """
        self.check_leader()
        self.check_in_sync()
        self.log.appender.append_marker(
            batch, marker, self.registration.leader_epoch, transaction_version
        )
        self.on_appended(len(batch), 1)

    def check_in_sync(self) -> None:
        """Raise an error if fewer replicas are in sync than `min.insync.replicas`.

        If there are fewer replicas, all of them must be in sync.

        Raises:
            ApiError: NOT_ENOUGH_REPLICAS.
        """
        leading = self._leading
        if (
            self._lacks_replicas and self._isr_size < self.log.config.min_insync_replicas
            if leading is None
            else leading.is_under_min_isr
        ):
            raise ApiError(ErrorCode.NOT_ENOUGH_REPLICAS)

    def on_appended(self, appended_bytes: int, records: int) -> None:
        """Count an append that others have made, and advance the high watermark.

        The high watermark advances now or when the records are flushed.
        """
        if records:
            self.appends += 1
            self.records_in += records
            self.bytes_in += appended_bytes
        log, leading = self.log, self._leading
        if leading is not None:
            self._replicate(leading, appended_bytes)
        elif log.is_flushed_before_ack:
            self._flush(log.log_end_offset, appended_bytes)
        else:
            self._advance_high_watermark(log.log_end_offset, appended_bytes)

    def _flush(self, end: int, appended_bytes: int) -> None:
        """Flush the log, then advance the high watermark to `end`, or let `Leading` do that."""
        leading = self._leading

        def flushed(error: ApiError | None) -> None:
            if error is not None:
                self._flushing_to = -1
                self.fail_uncommitted(error, end)
            elif leading is not None:
                leading.stored(end)
            else:
                self._advance_high_watermark(end, appended_bytes)

        self._flushing_to = end
        self._when_flushed(self.log, end, flushed)

    # -- waiting requests -----------------------------------------------------------------------

    def add_waiter(self, waiter: Waiter, *, is_follower: bool = False) -> None:
        """Notify `waiter` of every advance of the high watermark, until `remove_waiter`.

        A follower is notified of every append instead.
        """
        if is_follower:
            if self._follower_waiters is None:
                self._follower_waiters = {}
            self._follower_waiters[waiter] = None
            return
        if self._waiters is None:
            self._waiters = {}
        self._waiters[waiter] = None

    def remove_waiter(self, waiter: Waiter) -> None:
        """Undo `add_waiter`."""
        if self._waiters is not None:
            self._waiters.pop(waiter, None)
        if self._follower_waiters is not None:
            self._follower_waiters.pop(waiter, None)

    def expire_waiters(self) -> None:
        """Let all waiting requests respond now.

        For example, the leader epoch has changed, the replica is removed, or the node stops.
        """
        waiters = [*(self._waiters or ()), *(self._follower_waiters or ())]
        watches = [*(self._watches or ()), *(self._follower_watches or ())]
        self._watches = self._follower_watches = None
        for waiter in waiters:
            waiter.expire()
        for watch in watches:
            watch.expire()

    def add_watch(self, watch: Watch, *, is_follower: bool) -> None:
        """Notify `watch` once: of the next advance of the high watermark, or of another change.

        A follower is notified of the next append, too. Changes of the log start offset by retention
        are not seen.
        """
        if is_follower:
            if self._follower_watches is None:
                self._follower_watches = {}
            self._follower_watches[watch] = None
            return
        if self._watches is None:
            self._watches = {}
        self._watches[watch] = None

    def remove_watch(self, watch: Watch) -> None:
        """Undo `add_watch`. Do nothing if the watch was notified."""
        if self._watches is not None:
            self._watches.pop(watch, None)
        if self._follower_watches is not None:
            self._follower_watches.pop(watch, None)

    def _notify_consumers(self, appended_bytes: int) -> None:
        if self._waiters:
            for waiter in self._waiters:
                waiter.on_committed(appended_bytes)
        if self._watches:
            watches, self._watches = self._watches, None
            for watch in watches:
                watch.on_changed(appended_bytes)

    def _notify_followers(self, appended_bytes: int) -> None:
        if self._follower_waiters:
            for waiter in self._follower_waiters:
                waiter.on_committed(appended_bytes)
        if self._follower_watches:
            watches, self._follower_watches = self._follower_watches, None
            for watch in watches:
                watch.on_changed(appended_bytes)

    def delete_records_before(self, offset: int) -> int:
        """Delete the records below `offset` (`PartitionLog.delete_records_before`).

        Fetches that wait are not completed. Followers learn the log start offset with the next
        response.
        """
        log_start_offset = self.log.delete_records_before(offset)
        self._notify_followers(0)
        return log_start_offset

    def count_fetch(self) -> None:
        """Count a read for a consumer or follower."""
        self.fetches += 1

    def count_fetch_error(self, code: int) -> None:
        """Count an error of a read (metrics)."""
        if code not in expected_errors.OF_READS:
            self.failed_fetches += 1

    def on_fetched(self, fetched_bytes: int) -> None:
        """Count the bytes of records that are sent to a consumer."""
        self.bytes_out += fetched_bytes

    def on_replicated(self, fetched_bytes: int, broker_id: int) -> None:
        """Count the bytes of records that are sent to a follower."""
        self.replication_bytes_out += fetched_bytes
        adding = self.registration.adding_replicas
        if adding and broker_id in adding:
            self.reassignment_bytes_out += fetched_bytes
        leading = self._leading
        if leading is not None and leading.throttled_topics:
            leading.sent(fetched_bytes)

    # -- acknowledgement ------------------------------------------------------------------------

    @property
    def commits_at_once(self) -> bool:
        """Whether records are committed when `append` returns."""
        return self._leading is None and not self.log.is_flushed_before_ack

    def is_acknowledged(self, offset: int, acks: int) -> bool:
        """Whether all records below `offset` satisfy `acks` (-1 or 1)."""
        log = self.log
        if acks == ACKS_ALL:
            return offset <= log.high_watermark
        return not log.is_flushed_before_ack or offset <= log.recovery_point

    def when_acknowledged(self, offset: int, acks: int, acknowledged: Committed) -> None:
        """Call `acknowledged` when all records below `offset` satisfy `acks`.

        With acks=all (-1) the records must be committed. With acks=1 the records must be in the
        leader's log, and flushed if the topic has `flush.messages=1`.
        """
        if acks == ACKS_ALL:
            self.when_committed(offset, acknowledged)
        elif self.log.is_flushed_before_ack:
            self._when_flushed(self.log, offset, acknowledged)
        else:
            acknowledged(None)

    def when_committed(self, offset: int, committed: Committed) -> None:
        """Call `committed` when all records below `offset` are committed, possibly immediately.

        `committed` gets an error if this broker stops leading the partition
        (NOT_LEADER_OR_FOLLOWER), if the topic is deleted (UNKNOWN_TOPIC_OR_PARTITION) or if the
        disk fails (KAFKA_STORAGE_ERROR). After an error the records may still become committed.
        There is no timeout.
        """
        if offset <= self.log.high_watermark:
            committed(None)
            return
        if self._uncommitted is None:
            self._uncommitted = []
        insort(self._uncommitted, (offset, committed), key=_offset_of)
        if self.log.is_flushed_before_ack and self._flushing_to < offset:
            self._flush(offset, 0)  # the flush after the append has failed: flush again

    def fail_uncommitted(self, error: ApiError, offset: int | None = None) -> None:
        """Call callbacks of `when_committed` with an error: all, or the ones up to `offset`."""
        if self._uncommitted:
            last = self._uncommitted[-1][0] if offset is None else offset
            self._settle(last, error)

    def _settle(self, offset: int, error: ApiError | None) -> None:
        waiting = self._uncommitted
        assert waiting is not None
        count = bisect_right(waiting, offset, key=_offset_of)
        self._uncommitted = waiting[count:]
        for _, committed in waiting[:count]:
            committed(error)

    def _on_high_watermark(self, offset: int, appended_bytes: int) -> None:
        """Advance the high watermark, because the followers have the records."""
        self._advance_high_watermark(offset, appended_bytes)
        leading = self._leading
        is_urgent = leading is not None and leading.tells_high_watermark
        self._notify_followers(ANY_BYTES if is_urgent else 0)

    def _advance_high_watermark(self, offset: int, appended_bytes: int) -> None:
        if self.log.advance_high_watermark(offset):
            if self._waiters or self._watches:
                self._notify_consumers(appended_bytes)
            if self._uncommitted:
                self._settle(offset, None)
