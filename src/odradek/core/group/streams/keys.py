"""Keys of the timers of Streams groups."""

from __future__ import annotations

from odradek.core.group.modern.timeouts import Keys

MEMBERS = Keys("streams")


def initial_delay(group_id: str) -> tuple[str, str]:
    """The timer before the first target assignment of a group."""
    return ("streams-initial-delay", group_id)
