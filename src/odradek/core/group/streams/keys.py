"""Keys of the timers of Streams groups."""

from __future__ import annotations

from odradek.core.coordinator.timers import TimerTable


def session(group_id: str, member_id: str) -> tuple[str, str, str]:
    """The session timer. When it expires, a member that has sent no heartbeat is removed."""
    return ("streams-session", group_id, member_id)


def rebalance(group_id: str, member_id: str) -> tuple[str, str, str]:
    """The timer for the revocation of tasks."""
    return ("streams-rebalance", group_id, member_id)


def initial_delay(group_id: str) -> tuple[str, str]:
    """The timer before the first target assignment of a group."""
    return ("streams-initial-delay", group_id)


def cancel_all(timers: TimerTable, group_id: str, member_id: str) -> None:
    """Cancel all timers of a member."""
    for key in (session, rebalance):
        timers.cancel(key(group_id, member_id))
