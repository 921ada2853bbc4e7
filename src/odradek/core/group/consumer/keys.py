"""Keys of the timers of consumer groups' members."""

from __future__ import annotations

from odradek.core.coordinator.timers import TimerTable

Key = tuple[str, str, str]


def session(group_id: str, member_id: str) -> Key:
    """Expires if the member sends no heartbeat: the member is removed."""
    return ("consumer-session", group_id, member_id)


def rebalance(group_id: str, member_id: str) -> Key:
    """Expires if the member has not revoked its partitions in time."""
    return ("consumer-rebalance", group_id, member_id)


def join(group_id: str, member_id: str) -> Key:
    """Expires if a classic member has not rejoined in time."""
    return ("consumer-join", group_id, member_id)


def sync(group_id: str, member_id: str) -> Key:
    """Expires if a classic member has not sent SyncGroup in time."""
    return ("consumer-sync", group_id, member_id)


def cancel_all(timers: TimerTable, group_id: str, member_id: str) -> None:
    """Cancel all timers of a member."""
    for key in (session, rebalance, join, sync):
        timers.cancel(key(group_id, member_id))
