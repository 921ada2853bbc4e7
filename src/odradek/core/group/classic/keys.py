"""Keys of the timers of classic groups."""

from __future__ import annotations


def session(group_id: str, member_id: str) -> tuple[str, str, str]:
    """The member is removed unless it sends a heartbeat before."""
    return ("session", group_id, member_id)


def join(group_id: str) -> tuple[str, str]:
    """Members that have not joined by then are removed."""
    return ("join", group_id)


def sync(group_id: str) -> tuple[str, str]:
    """Members that have not sent SyncGroup by then are removed."""
    return ("sync", group_id)
