"""Keys of the timers of classic groups."""

from __future__ import annotations


def session(group_id: str, member_id: str) -> tuple[str, str, str]:
    """The member is gone unless it says something before."""
    return ("session", group_id, member_id)


def join(group_id: str) -> tuple[str, str]:
    """Those who have not joined by then are left behind."""
    return ("join", group_id)


def sync(group_id: str) -> tuple[str, str]:
    """Those who have not asked for their assignment by then are left behind."""
    return ("sync", group_id)
