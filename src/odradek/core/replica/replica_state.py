"""What the leader of a partition knows about one follower (`ReplicaState` in Apache Kafka)."""

from __future__ import annotations

UNKNOWN_OFFSET = -1
UNKNOWN_BROKER_EPOCH = -2
"""The follower has not fetched from this leader."""
UNCHECKED_BROKER_EPOCH = -1
"""The follower's Fetch request has no broker epoch: it is older than version 15."""


class ReplicaState:
    """The state of one follower. It changes with each Fetch request of the follower.

    A follower that fetches from an offset has stored all records below this offset.
    """

    __slots__ = (
        "_last_fetch_end_offset",
        "_last_fetch_ms",
        "broker_epoch",
        "broker_id",
        "last_caught_up_ms",
        "log_end_offset",
        "log_start_offset",
    )

    def __init__(self, broker_id: int, last_caught_up_ms: int) -> None:
        self.broker_id = broker_id
        self.broker_epoch = UNKNOWN_BROKER_EPOCH
        self.log_start_offset = UNKNOWN_OFFSET
        self.log_end_offset = UNKNOWN_OFFSET
        self.last_caught_up_ms = last_caught_up_ms
        """The last time when the follower had all records that the leader had at this time."""
        self._last_fetch_ms = 0
        self._last_fetch_end_offset = UNKNOWN_OFFSET
        """The leader's log end offset at the time of the follower's last Fetch request."""

    def reset(self, now_ms: int, leader_end_offset: int, *, is_in_sync: bool) -> None:
        """Begin a new epoch of the same leader. The offsets remain valid."""
        self._last_fetch_end_offset = leader_end_offset
        self._last_fetch_ms = self.last_caught_up_ms = now_ms if is_in_sync else 0

    def fetched(
        self,
        now_ms: int,
        broker_epoch: int,
        offset: int,
        log_start_offset: int,
        leader_end_offset: int,
    ) -> bool:
        """Apply a Fetch request from `offset`. Return whether the log end offset has changed.

        If records are appended all the time, no Fetch request may ever reach the leader's log end
        offset. So a request is compared with the leader's log end offset at the time of the
        previous request. If the request reaches that offset, the follower had caught up at that
        time.
        """
        if offset >= leader_end_offset:
            self.last_caught_up_ms = max(self.last_caught_up_ms, now_ms)
        elif offset >= self._last_fetch_end_offset:
            self.last_caught_up_ms = max(self.last_caught_up_ms, self._last_fetch_ms)
        self._last_fetch_end_offset = max(self._last_fetch_end_offset, leader_end_offset)
        self._last_fetch_ms = now_ms
        self.broker_epoch = broker_epoch
        self.log_start_offset = log_start_offset
        changed = offset != self.log_end_offset
        self.log_end_offset = offset
        return changed

    def rested(self, until_ms: int) -> None:
        """Note that the follower has sent a Fetch request at this time, and had all records.

        The caller has not applied this request with `fetched`, because the partition was resting.
        """
        self.last_caught_up_ms = max(self.last_caught_up_ms, until_ms)
        self._last_fetch_ms = max(self._last_fetch_ms, until_ms)

    def is_caught_up(self, now_ms: int, leader_end_offset: int, lag_time_max_ms: int) -> bool:
        """Whether the follower has all records, or had all records `lag_time_max_ms` ago."""
        return (
            self.log_end_offset == leader_end_offset
            or now_ms - self.last_caught_up_ms <= lag_time_max_ms
        )

    def __repr__(self) -> str:
        return (
            f"ReplicaState({self.broker_id}, epoch {self.broker_epoch}, offsets "
            f"{self.log_start_offset}..{self.log_end_offset}, caught up {self.last_caught_up_ms})"
        )
