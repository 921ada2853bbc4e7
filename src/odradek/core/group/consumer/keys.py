"""Keys of the timers of members in consumer groups."""

from __future__ import annotations

from odradek.core.coordinator.timers import TimerTable

Key = tuple[str, str, str]


def session(group_id: str, member_id: str) -> Key:
    """The session timer. When it expires, a member that has sent no heartbeat is removed."""
    return ("consumer-session", group_id, member_id)


def rebalance(group_id: str, member_id: str) -> Key:
    """The timer for the revocation of partitions."""
    return ("consumer-rebalance", group_id, member_id)


def join(group_id: str, member_id: str) -> Key:
    """The timer for JoinGroup of a classic member that must rejoin."""
    return ("consumer-join", group_id, member_id)


def sync(group_id: str, member_id: str) -> Key:
    """The timer for SyncGroup of a classic member that has joined."""
    return ("consumer-sync", group_id, member_id)


def cancel_all(timers: TimerTable, group_id: str, member_id: str) -> None:
    """Cancel all timers of a member."""
    for key in (session, rebalance, join, sync):
        timers.cancel(key(group_id, member_id))
