"""Keys of the timers of members in consumer groups."""

from __future__ import annotations

from odradek.core.coordinator.journal import Journal
from odradek.core.coordinator.timers import TimerTable
from odradek.core.group.modern.timeouts import Key, Keys

MEMBERS = Keys("consumer")


def join(group_id: str, member_id: str) -> Key:
    """The timer for JoinGroup of a classic member that must rejoin."""
    return ("consumer-join", group_id, member_id)


def sync(group_id: str, member_id: str) -> Key:
    """The timer for SyncGroup of a classic member that has joined."""
    return ("consumer-sync", group_id, member_id)


def cancel_all(timers: TimerTable, journal: Journal, group_id: str, member_id: str) -> None:
    """Cancel all timers of a member that records are about to remove."""
    MEMBERS.cancel_all(timers, journal, group_id, member_id)
    for key in (join, sync):
        timers.cancel_recorded(key(group_id, member_id), journal)
