"""Keys of the timers of classic groups."""

from __future__ import annotations


def session(group_id: str, member_id: str) -> tuple[str, str, str]:
    """The session timer. When it expires, a member that has sent no heartbeat is removed."""
    return ("session", group_id, member_id)


def join(group_id: str) -> tuple[str, str]:
    """The timer that ends the join phase. Members that have not joined are removed."""
    return ("join", group_id)


def sync(group_id: str) -> tuple[str, str]:
    """The timer that ends the sync phase. Members that have not sent SyncGroup are removed."""
    return ("sync", group_id)
