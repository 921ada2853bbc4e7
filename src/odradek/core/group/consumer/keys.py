"""Keys of the timers of consumer groups' members."""

from __future__ import annotations

from odradek.core.coordinator.timers import TimerTable

Key = tuple[str, str, str]


def session(group_id: str, member_id: str) -> Key:
    """The member is removed unless it sends a heartbeat before."""
    return ("consumer-session", group_id, member_id)


def rebalance(group_id: str, member_id: str) -> Key:
    """The member has to have given up by then what it has to give up."""
    return ("consumer-rebalance", group_id, member_id)


def join(group_id: str, member_id: str) -> Key:
    """A classic member has to have joined again by then."""
    return ("consumer-join", group_id, member_id)


def sync(group_id: str, member_id: str) -> Key:
    """A classic member has to have asked for its assignment by then."""
    return ("consumer-sync", group_id, member_id)


def cancel_all(timers: TimerTable, group_id: str, member_id: str) -> None:
    """Forget everything about a member."""
    for key in (session, rebalance, join, sync):
        timers.cancel(key(group_id, member_id))
