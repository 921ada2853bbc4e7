"""Keys of the timers of classic groups."""

from __future__ import annotations


def session(group_id: str, member_id: str) -> tuple[str, str, str]:
    """Expires if the member sends no heartbeat: the member is removed."""
    return ("session", group_id, member_id)


def join(group_id: str) -> tuple[str, str]:
    """Ends the join phase: members that have not joined are removed."""
    return ("join", group_id)


def sync(group_id: str) -> tuple[str, str]:
    """Ends the sync phase: members that have not sent SyncGroup are removed."""
    return ("sync", group_id)
