"""Limits the rate of replication (KIP-73, Kafka's `ReplicationQuotaManager`).

A broker has one throttle as a leader and one as a follower. Only throttled partitions count: those
that the topic settings `leader.replication.throttled.replicas` and
`follower.replication.throttled.replicas` name for this broker. Records of a throttled partition are
always counted. If the rate exceeds the limit, the leader sends no records of throttled partitions
to followers outside the ISR, and a follower does not fetch throttled partitions in which it lags.
So replicas in the ISR never leave it because of a throttle.

The rate is the number of bytes in the last `windows` windows, divided by the time since the oldest
of these windows began (Kafka's `SimpleRate`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

UNLIMITED = 2**63 - 1


class ByteRate:
    """The number of bytes per second in the last windows."""

    __slots__ = ("_keep_ms", "_window_ms", "_windows")

    def __init__(self, windows: int, window_ms: int) -> None:
        self._window_ms = window_ms
        self._keep_ms = windows * window_ms
        self._windows: deque[list[int]] = deque()
        """The start and the number of bytes of each window, oldest first."""

    def record(self, now_ms: int, size: int) -> None:
        """Count bytes."""
        windows = self._windows
        while windows and now_ms - windows[0][0] >= self._keep_ms:
            windows.popleft()
        if not windows or now_ms - windows[-1][0] >= self._window_ms:
            windows.append([now_ms, 0])
        windows[-1][1] += size

    def _current(self, now_ms: int) -> list[list[int]]:
        return [each for each in self._windows if now_ms - each[0] < self._keep_ms]

    def per_second(self, now_ms: int) -> float:
        """Return the rate."""
        windows = self._current(now_ms)
        if not windows:
            return 0.0
        total = sum(size for _, size in windows)
        return total * 1000 / max(now_ms - windows[0][0], self._window_ms)

    def falls_to_ms(self, now_ms: int, limit: int) -> int:
        """Return the first time at which the rate is at most `limit` if no more bytes are counted.

        `limit` is a number of bytes per second. When the oldest window is too old, the rate may
        rise again, because the time since the oldest window is shorter then.
        """
        windows = self._current(now_ms)
        begin_ms = now_ms
        for number, (start_ms, _) in enumerate(windows):
            total = sum(size for _, size in windows[number:])
            end_ms = start_ms + self._keep_ms
            found_ms = begin_ms
            if total * 1000 > limit * self._window_ms:
                found_ms = max(begin_ms, start_ms - (-total * 1000 // limit)) if limit else end_ms
            if found_ms < end_ms:
                return found_ms
            begin_ms = end_ms
        return begin_ms


class ReplicationThrottle:
    """The throttle of a broker, as leader or as follower."""

    __slots__ = ("_broker_id", "_rate", "limit", "topics")

    def __init__(self, broker_id: int = -1, windows: int = 11, window_ms: int = 1000) -> None:
        self._broker_id = broker_id
        self._rate = ByteRate(windows, window_ms)
        self.limit = UNLIMITED
        """Bytes per second."""
        self.topics: dict[str, frozenset[int] | None] = {}
        """The throttled partitions of each topic; None if all partitions are throttled. It is
        always the same object."""

    def set_limit(self, bytes_per_second: int) -> None:
        """Change the limit."""
        self.limit = bytes_per_second

    def set_replicas(self, topic: str, replicas: Iterable[str]) -> None:
        """Set the throttled replicas of a topic, as `partition:broker`; `*` means all replicas."""
        entries = [each for each in replicas if each]
        if entries == ["*"]:
            self.topics[topic] = None
            return
        pairs = [each.split(":") for each in entries]
        indexes = frozenset(int(index) for index, broker in pairs if int(broker) == self._broker_id)
        if indexes:
            self.topics[topic] = indexes
        else:
            self.topics.pop(topic, None)

    def covers(self, topic: str, index: int) -> bool:
        """Whether a partition is throttled."""
        if topic not in self.topics:
            return False
        indexes = self.topics[topic]
        return indexes is None or index in indexes

    def record(self, now_ms: int, size: int) -> None:
        """Count bytes of throttled partitions."""
        self._rate.record(now_ms, size)

    def is_exceeded(self, now_ms: int) -> bool:
        """Whether the rate is above the limit."""
        return self._rate.per_second(now_ms) > self.limit

    def resume_ms(self, now_ms: int) -> int:
        """Return the time at which the rate is no longer above the limit."""
        return self._rate.falls_to_ms(now_ms, self.limit)

    def per_second(self, now_ms: int) -> float:
        """Return the rate of throttled partitions (a metric)."""
        return self._rate.per_second(now_ms)
