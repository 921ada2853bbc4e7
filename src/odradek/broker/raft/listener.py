"""The interface of the raft client's listeners (Kafka's RaftClient.Listener)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

from odradek.broker.raft.snapshots import SnapshotId
from odradek.core.raft.election import NO_LEADER
from odradek.wire.primitives import Message


class LeaderAndEpoch(NamedTuple):
    """The leader of an epoch; `leader_id` is -1 while it is not known."""

    leader_id: int
    epoch: int

    @property
    def is_known(self) -> bool:
        """Whether the epoch has a leader that this node knows."""
        return self.leader_id != NO_LEADER


class CommittedBatch(NamedTuple):
    """A committed batch of the metadata log. `records` is empty for a batch of control records."""

    base_offset: int
    next_offset: int
    epoch: int
    append_timestamp_ms: int
    size: int
    records: Sequence[Message]


class RaftListener(Protocol):
    """Follows the committed metadata log. All calls are made on the event loop's thread.

    Listeners are called in the order of registration, and all get the same calls: first the
    snapshot if the log begins with one, then all batches in the order of their offsets, each once.
    """

    def handle_commit(self, batches: Sequence[CommittedBatch]) -> None:
        """Apply the next committed batches. At the start the whole log is delivered in this way.

        Raises:
            Exception: the batches cannot be applied; the raft client stops.
        """
        ...

    def handle_load_snapshot(self, snapshot_id: SnapshotId, records: Iterable[Message]) -> None:
        """Replace the listener's state with the snapshot. Each listener gets its own iterator.

        Raises:
            Exception: the snapshot cannot be applied; the raft client stops.
        """
        ...

    def handle_leader_change(self, leader: LeaderAndEpoch) -> None:
        """Process a change of the leader or the epoch. The leader may have become unknown.

        If this node is the leader, all batches before the epoch have been delivered, and this node
        may append.
        """
        ...
