"""The partitions of a fetcher, and what the leader's fetch session knows about them (KIP-227)."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import NamedTuple

from odradek.core.replica.divergence import LogView
from odradek.core.replica.effects import ReplicaKey
from odradek.wire.generated.fetch_request import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
)

EPOCH_INITIAL = 0
NO_SESSION = 0
_EPOCH_MAX = 2**31 - 1


class Status(Enum):
    """What a partition of a fetcher waits for."""

    READY = "the next Fetch request contains the partition"
    BUSY = "the broker appends records of the last response, or truncates the log"
    OUT_OF_RANGE = "the broker looks up the offsets of the leader's log with ListOffsets"
    DELAYED = "the partition is not fetched for a time, because of an error or a throttle"
    FAILED = (
        "the leader has a newer leader epoch, or the disk has failed. The partition is not fetched"
    )


TRANSITIONS: dict[Status, tuple[Status, ...]] = {
    Status.READY: (Status.BUSY, Status.OUT_OF_RANGE, Status.DELAYED, Status.FAILED),
    Status.BUSY: (Status.READY, Status.DELAYED, Status.FAILED),
    Status.OUT_OF_RANGE: (Status.BUSY, Status.DELAYED, Status.FAILED),
    Status.DELAYED: (Status.READY,),
    Status.FAILED: (),
}
"""The statuses that may follow a status. A partition that is added again starts over."""


class Position(NamedTuple):
    """Where a partition is fetched from."""

    fetch_offset: int
    last_fetched_epoch: int
    """The epoch of the record before `fetch_offset`; -1 if the log has no epochs."""
    leader_epoch: int
    log_start_offset: int


class FetchState:
    """One partition of a fetcher."""

    __slots__ = (
        "_leader_high_watermark",
        "key",
        "leader_epoch",
        "log",
        "lookup",
        "position",
        "retry_ms",
        "status",
        "topic",
    )

    def __init__(self, key: ReplicaKey, topic: str, leader_epoch: int, log: LogView) -> None:
        self.key = key
        self.topic = topic
        self.leader_epoch = leader_epoch
        self.log = log
        self.status = Status.BUSY
        self.position = self._position()
        self._leader_high_watermark = -1
        self.retry_ms = 0
        """The end of the backoff, if the status is DELAYED."""
        self.lookup = 0
        """The timestamp to look up, if the status is OUT_OF_RANGE."""

    def _position(self) -> Position:
        log = self.log
        return Position(
            log.log_end_offset, log.leader_epoch, self.leader_epoch, log.log_start_offset
        )

    def change(self, status: Status, *, retry_ms: int = 0, lookup: int = 0) -> None:
        """Set the status. A partition that becomes ready is fetched from its log end offset."""
        assert status in TRANSITIONS[self.status], f"{self.key}: {self.status} to {status}"
        assert not lookup or status is Status.OUT_OF_RANGE, "only then an offset is looked up"
        assert not retry_ms or status is Status.DELAYED, "only then there is a time to wait for"
        self.status = status
        self.retry_ms = retry_ms
        self.lookup = lookup
        if status is Status.READY:
            self.position = self._position()

    def learn_high_watermark(self, offset: int) -> None:
        """Note the leader's high watermark from a response."""
        self._leader_high_watermark = offset

    @property
    def lag(self) -> int:
        """The number of committed records that this replica lacks; -1 before the first response."""
        if self._leader_high_watermark < 0:
            return -1
        return max(0, self._leader_high_watermark - self.log.log_end_offset)

    @property
    def is_lagging(self) -> bool:
        """Whether this replica lacks committed records, or may lack them."""
        return self.lag != 0

    def look_up(self, timestamp: int) -> None:
        """Look up another offset."""
        assert self.status is Status.OUT_OF_RANGE
        self.lookup = timestamp


class FetchSession:
    """The fetch session of a fetcher. The leader has a copy of `sent`."""

    __slots__ = ("epoch", "id", "sent")

    def __init__(self) -> None:
        self.id = NO_SESSION
        self.epoch = EPOCH_INITIAL
        """The epoch of the next request. 0 opens a new session and closes the session `id`."""
        self.sent: dict[ReplicaKey, Position] = {}
        """The partitions in the session, with the positions that were sent."""

    @property
    def is_full(self) -> bool:
        """Whether the next request has all partitions."""
        return self.epoch == EPOCH_INITIAL

    def fill(
        self,
        request: FetchRequest,
        states: Iterable[FetchState],
        forgotten: Iterable[ReplicaKey],
        partition_bytes_max: int,
    ) -> None:
        """Add to a request the new, the changed and the removed partitions of the session."""
        assert self.is_full or self.id != NO_SESSION, "later requests belong to a session"
        if self.is_full:
            self.sent.clear()
        request.session_id = self.id
        request.session_epoch = self.epoch
        topics: dict[bytes, FetchTopic] = {}
        for state in states:
            assert state.status is Status.READY, "other partitions are not fetched"
            topic_id, index = state.key
            topic = topics.get(topic_id)
            if topic is None:
                topic = topics[topic_id] = FetchTopic(topic_id=topic_id)
            position = self.sent[state.key] = state.position
            topic.partitions.append(
                FetchPartition(
                    partition=index,
                    current_leader_epoch=position.leader_epoch,
                    fetch_offset=position.fetch_offset,
                    last_fetched_epoch=position.last_fetched_epoch,
                    log_start_offset=position.log_start_offset,
                    partition_max_bytes=partition_bytes_max,
                )
            )
        request.topics = list(topics.values())
        gone: dict[bytes, list[int]] = {}
        for key in forgotten:
            if self.sent.pop(key, None) is not None:
                gone.setdefault(key.topic_id, []).append(key.partition)
        request.forgotten_topics_data = [
            ForgottenTopic(topic_id=topic_id, partitions=indexes)
            for topic_id, indexes in gone.items()
        ]

    def accepted(self, session_id: int) -> None:
        """Apply a successful response. If the id is 0, the leader has no session."""
        if session_id == NO_SESSION:
            self.id = NO_SESSION
            self.epoch = EPOCH_INITIAL
            return
        self.id = session_id
        self.epoch = 1 if self.epoch == _EPOCH_MAX else self.epoch + 1

    def reset(self, *, is_gone: bool = False) -> None:
        """Open a new session with the next request. `is_gone`: the leader has no session."""
        self.epoch = EPOCH_INITIAL
        if is_gone:
            self.id = NO_SESSION
