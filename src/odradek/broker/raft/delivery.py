"""Delivers the committed records of the metadata log to the listeners.

Committed batches are delivered from memory if this node has appended them in its present epoch.
Other batches are read from the log, a limited number of bytes in one iteration of the event loop.
If the log begins after the delivered records, the snapshot is delivered first.

When this node becomes the leader, the listeners learn of it only after all batches before its epoch
were delivered.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from odradek.broker.raft.listener import CommittedBatch, LeaderAndEpoch, RaftListener
from odradek.broker.raft.metadata_log import MetadataLog
from odradek.broker.raft.snapshots import STARTING
from odradek.core.metadata.record import decode_record
from odradek.core.raft.election import NO_LEADER
from odradek.core.raft.leader import Leader
from odradek.core.raft.machine import RaftMachine
from odradek.records.batch import RecordBatch
from odradek.records.record import iterate_records
from odradek.wire.primitives import Message

DELIVERED_BYTES = 1 << 20
"""Bytes of the log that are read and delivered in one iteration of the event loop."""


class Delivery:
    """Delivers committed records to the listeners, in order."""

    def __init__(
        self,
        log: MetadataLog,
        machine: RaftMachine,
        leader: LeaderAndEpoch,
        schedule: Callable[[], object],
    ) -> None:
        """`schedule` arranges a call of `deliver` in the next iteration of the event loop."""
        self._log = log
        self._machine = machine
        self._schedule = schedule
        self._listeners: list[RaftListener] = []
        self._appended: deque[CommittedBatch] = deque()
        """Batches that this node has appended in its present epoch and not delivered yet."""
        self._delivered = -1
        """All records below this offset are delivered; -1: nothing is, not even a snapshot."""
        self._is_scheduled = False
        self.leader = leader
        """The leader and epoch that the listeners know."""

    @property
    def end_offset(self) -> int:
        """All records below this offset are delivered; -1: nothing is, not even a snapshot."""
        return self._delivered

    def register(self, listener: RaftListener) -> None:
        """Add a listener. All listeners are added before the first delivery."""
        assert self._delivered < 0
        self._listeners.append(listener)

    def appended(self, batch: CommittedBatch) -> None:
        """Keep a batch that this node has appended as leader."""
        self._appended.append(batch)

    def stop_leading(self) -> None:
        """Forget the batches that this node appended: they may be lost."""
        self._appended.clear()

    def tell_leader(self, leader: LeaderAndEpoch) -> None:
        """Notify the listeners if the leader or the epoch has changed."""
        if leader != self.leader:
            self._tell(leader)

    def end(self, epoch: int) -> None:
        """Notify the listeners that there is no leader any more, because the client has failed."""
        self._appended.clear()
        self._tell(LeaderAndEpoch(NO_LEADER, epoch))

    def _tell(self, leader: LeaderAndEpoch) -> None:
        self.leader = leader
        for listener in self._listeners:
            listener.handle_leader_change(leader)

    def deliver(self) -> None:
        """Deliver committed records, at most `DELIVERED_BYTES` of the log in one call.

        Raises:
            Exception: the log cannot be read, or a listener cannot apply the records.
        """
        self._is_scheduled = False
        if self._delivered < self._log.start_offset:
            self._deliver_snapshot()
        batches = self._next_batches()
        if batches:
            self._delivered = batches[-1].next_offset
            for listener in self._listeners:
                listener.handle_commit(batches)
        role = self._machine.role
        if isinstance(role, Leader) and self._delivered > role.start_offset:
            self.tell_leader(LeaderAndEpoch(role.leader_id, role.epoch))
        if self._delivered < self._machine.high_watermark and not self._is_scheduled:
            self._is_scheduled = True
            self._schedule()

    def _deliver_snapshot(self) -> None:
        self._delivered = self._log.start_offset
        latest = self._log.latest_snapshot
        if latest is not None:
            self._delivered = latest.offset
            values = [] if latest == STARTING else self._log.read_snapshot(latest).values
            for listener in self._listeners:
                listener.handle_load_snapshot(latest, map(decode_record, values))

    def _next_batches(self) -> list[CommittedBatch]:
        batches: list[CommittedBatch] = []
        end = self._machine.high_watermark
        appended = self._appended
        if appended and appended[0].base_offset == self._delivered:
            while appended and appended[0].next_offset <= end:
                batches.append(appended.popleft())
            return batches
        size = 0
        stop = min(end, appended[0].base_offset) if appended else end
        for batch in self._log.batches(self._delivered):
            if batch.base_offset >= stop or size >= DELIVERED_BYTES:
                break
            batches.append(_committed(batch))
            size += batches[-1].size
        return batches


def _committed(batch: RecordBatch) -> CommittedBatch:
    records: list[Message] = []
    if not batch.is_control:
        records = [decode_record(each.value or b"") for each in iterate_records(batch)]
    return CommittedBatch(
        batch.base_offset,
        batch.next_offset,
        batch.leader_epoch,
        batch.max_timestamp,
        batch.size,
        records,
    )
