"""The settings of a member of a group, with Java's names and defaults."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class MemberSettings:
    """`session_timeout_ms` and `heartbeat_interval_ms` are for classic groups only."""

    group_id: str
    instance_id: str | None = None
    """`group.instance.id` (KIP-345)."""
    rack: str = ""
    """`client.rack`."""
    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 3_000
    max_poll_interval_ms: int = 300_000
    """A member whose user does not poll for so long leaves. It is also how long a rebalance may take."""
    request_timeout_ms: int = 30_000
    retry_backoff_ms: int = 100
    retry_backoff_ms_max: int = 1_000


class PollInterval:
    """When the user polled last (`max.poll.interval.ms`)."""

    __slots__ = ("_interval_ms", "_polled_ms")

    def __init__(self, interval_ms: int) -> None:
        self._interval_ms = interval_ms
        self._polled_ms: int | None = None

    def polled(self, now_ms: int) -> None:
        """Note that the user polls."""
        self._polled_ms = now_ms

    @property
    def deadline_ms(self) -> int | None:
        """When the user must have polled again; None before the first time."""
        return None if self._polled_ms is None else self._polled_ms + self._interval_ms

    def is_over(self, now_ms: int) -> bool:
        """Whether the user has not polled in time."""
        deadline_ms = self.deadline_ms
        return deadline_ms is not None and now_ms >= deadline_ms

    @property
    def explanation(self) -> str:
        """Why a member has left its group."""
        return (
            f"the program did not call poll for {self._interval_ms} ms (max.poll.interval.ms),"
            " so the member left the group, and others have its partitions"
        )

    advice = "Raise max.poll.interval.ms, process fewer records between two calls of poll, or pause partitions."
