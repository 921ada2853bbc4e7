"""The leader of one partition: its followers, its ISR and its high watermark (Kafka's `Partition`).

The machine exists while this broker leads the partition. It never sees records, only offsets. The
owner reports appends, the followers' Fetch requests, changed metadata and the results of ISR
changes. Each method returns effects (`effects`), or an empty sequence.

**High watermark.** It is the lowest log end offset of these replicas:

- the leader itself, as far as its records are stored (`flush.messages=1` requires a flush);
- the maximal ISR;
- followers outside the ISR that have caught up and may join the ISR. Otherwise the leader of a
  small ISR would commit each record before such a follower has it, and the follower would never
  reach the high watermark and join.

It does not move while the ISR is smaller than `min.insync.replicas` (KIP-966), and it never moves
down.

**ISR.** A follower joins if it has all records below the high watermark and all records below the
start of this leader's epoch. Its broker must not be fenced or shutting down, and must still be the
incarnation that has fetched (KIP-903): an earlier incarnation may have lost records. A follower
leaves if it has not caught up for `replica.lag.time.max.ms`.

Only the controller changes the ISR:

    committed ISR ──(a follower joins or leaves)──> pending change ──(result)──> committed ISR

At most one change is pending. While a change is pending, the leader does not know whether the
controller has made it. So committed records must be on all replicas of the committed ISR and of the
requested ISR. The union of these sets is the *maximal ISR* (KIP-497).

If an error proves that the controller has not made the change, the leader drops the change. After
errors that show that the metadata is newer, the change stays pending until the metadata log has it.
After all other errors the request is repeated, and the change stays pending.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from odradek.core.metadata.registrations import BrokerRegistration, PartitionRegistration
from odradek.core.replica.effects import HighWatermark, IsrChange, LeaderEffect
from odradek.core.replica.replica_state import (
    UNCHECKED_BROKER_EPOCH,
    UNKNOWN_BROKER_EPOCH,
    ReplicaState,
)
from odradek.model.errors import ApiError, ErrorCode

BrokerOf = Callable[[int], BrokerRegistration | None]
"""Returns the registration of a broker in the newest metadata image."""

_NOT_MADE: frozenset[int] = frozenset(
    {ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.INELIGIBLE_REPLICA}
)
"""The controller knows the partition epoch of the request, and has not made the change."""
_OUTDATED: frozenset[int] = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.INVALID_UPDATE_VERSION,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.NEW_LEADER_ELECTED,
    }
)
"""The controller has a newer state of the partition, which the metadata log will contain."""
_NO_EFFECTS: Sequence[LeaderEffect] = ()


class PartitionLeader:
    """The leader of one partition. All fields are read-only for other code."""

    __slots__ = (
        "_broker_id",
        "_broker_of",
        "_committed_isr",
        "_lag_time_max_ms",
        "_min_insync_replicas",
        "_stored_offset",
        "end_offset",
        "epoch_start_offset",
        "followers",
        "high_watermark",
        "leader_epoch",
        "maximal_isr",
        "partition_epoch",
        "pending",
    )

    def __init__(
        self,
        now_ms: int,
        broker_id: int,
        registration: PartitionRegistration,
        broker_of: BrokerOf,
        *,
        end_offset: int,
        high_watermark: int,
        lag_time_max_ms: int,
        min_insync_replicas: int,
    ) -> None:
        """Begin to lead. The leader's epoch begins at `end_offset`, the log end offset.

        Call `advance` after that.
        """
        assert broker_id in registration.replicas, "a leader is a replica"
        assert high_watermark <= end_offset, "what is committed is in the log"
        self._broker_id = broker_id
        self._broker_of = broker_of
        self._lag_time_max_ms = lag_time_max_ms
        self._min_insync_replicas = min_insync_replicas
        self.leader_epoch = registration.leader_epoch
        self.partition_epoch = registration.partition_epoch
        self.epoch_start_offset = end_offset
        self.end_offset = end_offset
        """The leader's log end offset."""
        self._stored_offset = high_watermark
        """The leader's records below this offset are stored as the topic requires."""
        self.high_watermark = high_watermark
        self._committed_isr = self.maximal_isr = frozenset(registration.isr)
        self.pending: IsrChange | None = None
        """The change that the controller may have made. No other change may be requested."""
        self.followers: dict[int, ReplicaState] = {}
        """The other replicas by broker id."""
        self._follow(now_ms, registration)

    @property
    def isr(self) -> frozenset[int]:
        """The committed ISR."""
        return self._committed_isr

    @property
    def min_insync_replicas(self) -> int:
        """The number of in-sync replicas that records need; at most the number of replicas."""
        return min(self._min_insync_replicas, len(self.followers) + 1)

    @property
    def is_under_min_isr(self) -> bool:
        """Whether the ISR is too small to commit records."""
        return len(self._committed_isr) < self.min_insync_replicas

    # -- metadata and settings ------------------------------------------------------------------

    def update(self, now_ms: int, registration: PartitionRegistration) -> Sequence[LeaderEffect]:
        """Apply newer metadata. This broker must still lead the partition.

        An AlterPartition response may have come before the metadata. Then the metadata have the
        partition epoch that is known already, and a change may be pending that is based on it.
        """
        if registration.partition_epoch < self.partition_epoch:
            return _NO_EFFECTS
        is_new_epoch = registration.leader_epoch > self.leader_epoch
        if is_new_epoch or registration.partition_epoch > self.partition_epoch:
            assert registration.leader_epoch >= self.leader_epoch, "epochs never go back"
            self.partition_epoch = registration.partition_epoch
            self._set_isr(frozenset(registration.isr), None)
        elif self.pending is not None and not self.pending.broker_ids <= {*registration.replicas}:
            self._set_isr(self._committed_isr, None)  # the controller rejects the change
        if is_new_epoch:
            self.leader_epoch = registration.leader_epoch
            self.epoch_start_offset = self.end_offset
            for follower in self.followers.values():
                is_in_sync = follower.broker_id in self._committed_isr
                follower.reset(now_ms, self.end_offset, is_in_sync=is_in_sync)
        self._follow(now_ms, registration)
        return self._committed(now_ms)

    def set_min_insync_replicas(self, now_ms: int, number: int) -> Sequence[LeaderEffect]:
        """Apply a changed `min.insync.replicas`."""
        self._min_insync_replicas = number
        return self._committed(now_ms)

    def _follow(self, now_ms: int, registration: PartitionRegistration) -> None:
        """Add the followers that are new, and drop those that are no longer replicas."""
        before = self.followers
        self.followers = {
            broker_id: before.get(broker_id)
            or ReplicaState(broker_id, now_ms if broker_id in registration.isr else 0)
            for broker_id in registration.replicas
            if broker_id != self._broker_id
        }

    def _set_isr(self, committed: frozenset[int], pending: IsrChange | None) -> None:
        self._committed_isr = committed
        self.pending = pending
        self.maximal_isr = committed if pending is None else committed | pending.broker_ids

    # -- offsets --------------------------------------------------------------------------------

    def advance(self, now_ms: int, end_offset: int, stored_offset: int) -> Sequence[LeaderEffect]:
        """Apply an append or a flush on this broker.

        All records below `stored_offset` are stored as the topic requires. This is the log end
        offset, except if the topic has `flush.messages=1`.
        """
        assert end_offset >= self.high_watermark, "a leader keeps what is committed"
        assert stored_offset <= end_offset, "what is stored is in the log"
        self.end_offset = end_offset
        self._stored_offset = stored_offset
        return self._committed(now_ms)

    def check_follower(self, broker_id: int, broker_epoch: int) -> None:
        """Check that a Fetch request comes from a follower.

        Raises:
            ApiError: UNKNOWN_LEADER_EPOCH, because this leader's metadata may be older than the
                follower's; or NOT_LEADER_OR_FOLLOWER, because the request comes from an earlier
                incarnation of the broker.
        """
        if broker_id not in self.followers:
            raise ApiError(ErrorCode.UNKNOWN_LEADER_EPOCH)
        if self._is_stale(broker_id, broker_epoch):
            raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def fetched(
        self, now_ms: int, broker_id: int, broker_epoch: int, offset: int, log_start_offset: int
    ) -> Sequence[LeaderEffect]:
        """Apply a follower's Fetch request from `offset`, which `check_follower` has accepted.

        The follower's log must not diverge (`divergence`), and `offset` must be in range.
        """
        follower = self.followers[broker_id]
        moved = follower.fetched(now_ms, broker_epoch, offset, log_start_offset, self.end_offset)
        effects: list[LeaderEffect] = []
        if broker_id not in self.maximal_isr:
            effects += self._expand(follower)
        if moved:
            effects += self._committed(now_ms)
        return effects

    def rested(self, broker_id: int, until_ms: int) -> None:
        """Apply the Fetch requests up to this time of a follower that had all records.

        The requests were not applied one by one, because the partition was resting in the fetch
        session (`odradek.broker.partitions.resting`).
        """
        follower = self.followers.get(broker_id)
        if follower is not None:
            follower.rested(until_ms)

    def nearest_follower(self, rack: str, listener: str, offset: int) -> int:
        """Return the follower from which a consumer in `rack` should read `offset` (KIP-392).

        The result is -1 if the consumer should read from the leader. The rules are those of Apache
        Kafka's `RackAwareReplicaSelector`: the leader if it is in the rack, else the in-sync
        follower in the rack that has the most records. Its broker must not be fenced and must have
        the listener that the consumer is connected to.
        """
        own = self._broker_of(self._broker_id)
        if own is not None and own.rack == rack:
            return -1
        candidates = [
            (follower.log_end_offset, follower.last_caught_up_ms, follower.broker_id)
            for follower in self.followers.values()
            if follower.broker_id in self._committed_isr
            and follower.log_start_offset <= offset <= follower.log_end_offset
            and self._is_near(follower.broker_id, rack, listener)
        ]
        return max(candidates)[2] if candidates else -1

    def _is_near(self, broker_id: int, rack: str, listener: str) -> bool:
        broker = self._broker_of(broker_id)
        return (
            broker is not None
            and broker.rack == rack
            and not broker.fenced
            and listener in broker.listeners
        )

    def low_watermark(self, log_start_offset: int) -> int:
        """Return the lowest log start offset of the replicas on live brokers (DeleteRecords).

        `log_start_offset` is the leader's.
        """
        lowest = log_start_offset
        for follower in self.followers.values():
            broker = self._broker_of(follower.broker_id)
            if broker is not None and not broker.fenced:
                lowest = min(lowest, follower.log_start_offset)
        return lowest

    def _committed(self, now_ms: int) -> Sequence[LeaderEffect]:
        """Move the high watermark."""
        if self.is_under_min_isr:
            return _NO_EFFECTS
        lowest = self._stored_offset
        for follower in self.followers.values():
            if follower.log_end_offset < lowest and self._is_counted(now_ms, follower):
                lowest = follower.log_end_offset
        if lowest <= self.high_watermark:
            return _NO_EFFECTS
        assert lowest <= self.end_offset, "what is committed is in the log"
        self.high_watermark = lowest
        return (HighWatermark(lowest),)

    def _is_counted(self, now_ms: int, follower: ReplicaState) -> bool:
        """Whether the high watermark waits for the follower."""
        return follower.broker_id in self.maximal_isr or (
            follower.is_caught_up(now_ms, self.end_offset, self._lag_time_max_ms)
            and self._is_eligible(follower)
        )

    # -- the ISR --------------------------------------------------------------------------------

    def tick(self, now_ms: int) -> Sequence[LeaderEffect]:
        """Request to remove the followers from the ISR that have not caught up for too long.

        If such a follower is outside the ISR, the high watermark no longer waits for it. Call this
        every `replica.lag.time.max.ms` / 2.
        """
        committed = self._committed(now_ms)
        if self.pending is not None:
            return committed
        behind = {
            broker_id for broker_id in self._committed_isr if self._is_behind(now_ms, broker_id)
        }
        return (*committed, self._request(self._committed_isr - behind)) if behind else committed

    def _is_behind(self, now_ms: int, broker_id: int) -> bool:
        if broker_id == self._broker_id:
            return False
        follower = self.followers.get(broker_id)
        return follower is None or not follower.is_caught_up(
            now_ms, self.end_offset, self._lag_time_max_ms
        )

    def _expand(self, follower: ReplicaState) -> Sequence[LeaderEffect]:
        """Let a follower join the ISR if it has all records that it must have."""
        if self.pending is None and self._has_committed(follower) and self._is_eligible(follower):
            return (self._request(self._committed_isr | {follower.broker_id}),)
        return _NO_EFFECTS

    def _has_committed(self, follower: ReplicaState) -> bool:
        """Whether the follower has all records that it must have to join the ISR.

        A new leader's high watermark may be lower than the previous leader's. The records in
        between are below the start of the new epoch.
        """
        return follower.log_end_offset >= max(self.high_watermark, self.epoch_start_offset)

    def _is_eligible(self, follower: ReplicaState) -> bool:
        """Whether the follower's broker may be in the ISR (KIP-841, KIP-903)."""
        broker = self._broker_of(follower.broker_id)
        return (
            broker is not None
            and not broker.fenced
            and not broker.in_controlled_shutdown
            and follower.broker_epoch in (broker.epoch, UNCHECKED_BROKER_EPOCH)
        )

    def _is_stale(self, broker_id: int, broker_epoch: int) -> bool:
        """Whether a broker epoch belongs to an earlier incarnation of the broker."""
        broker = self._broker_of(broker_id)
        return broker is not None and UNCHECKED_BROKER_EPOCH != broker_epoch < broker.epoch

    def _request(self, broker_ids: Iterable[int]) -> IsrChange:
        assert self.pending is None, "one change at a time"
        isr = tuple((each, self._epoch_of(each)) for each in sorted(broker_ids))
        assert isr, "the leader itself is in sync"
        change = IsrChange(self.leader_epoch, self.partition_epoch, isr)
        self._set_isr(self._committed_isr, change)
        return change

    def _epoch_of(self, broker_id: int) -> int:
        """Return the broker epoch for the controller to check.

        A member of the ISR may not have fetched from this leader yet. It needs no check: if its
        broker restarts, the controller removes it from the ISR and increments the partition epoch.
        """
        if broker_id == self._broker_id:
            broker = self._broker_of(broker_id)
            return UNCHECKED_BROKER_EPOCH if broker is None else broker.epoch
        follower = self.followers.get(broker_id)
        if follower is None or follower.broker_epoch == UNKNOWN_BROKER_EPOCH:
            return UNCHECKED_BROKER_EPOCH
        return follower.broker_epoch

    def altered(
        self,
        now_ms: int,
        change: IsrChange,
        leader_epoch: int,
        partition_epoch: int,
        isr: Iterable[int],
    ) -> Sequence[LeaderEffect]:
        """Apply the controller's response to a change: the new state of the partition."""
        if (
            change is not self.pending
            or leader_epoch != self.leader_epoch
            or partition_epoch < self.partition_epoch
        ):
            return _NO_EFFECTS
        self.partition_epoch = partition_epoch
        self._set_isr(frozenset(isr), None)
        return self._committed(now_ms)

    def rejected(self, now_ms: int, change: IsrChange, error: int) -> Sequence[LeaderEffect]:
        """Apply an error code for a change. The result has the change if it must be repeated."""
        if change is not self.pending or error in _OUTDATED:
            return _NO_EFFECTS
        if error in _NOT_MADE:
            self._set_isr(self._committed_isr, None)
            return self._committed(now_ms)
        return (change,)

    def __repr__(self) -> str:
        return (
            f"PartitionLeader(epoch {self.leader_epoch}/{self.partition_epoch}, ISR "
            f"{sorted(self._committed_isr)}, pending {self.pending}, high watermark "
            f"{self.high_watermark} of {self.end_offset}, {list(self.followers.values())})"
        )
