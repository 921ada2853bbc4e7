"""Assignors of classic groups. The leader of a group runs the group's assignor.

The coordinator chooses an assignor that all members support, and any client may be the leader. So
the names and the results are the same as in the Java client.
"""

from __future__ import annotations

from odradek.client.core.assignors.group import Assignments, Assignor, Member, Members, Topics
from odradek.client.core.assignors.range import RANGE
from odradek.client.core.assignors.round_robin import ROUND_ROBIN
from odradek.client.core.assignors.sticky import COOPERATIVE_STICKY, STICKY

__all__ = ["ASSIGNORS", "Assignments", "Assignor", "Member", "Members", "Topics"]

ASSIGNORS: dict[str, Assignor] = {
    each.name: each for each in (RANGE, ROUND_ROBIN, STICKY, COOPERATIVE_STICKY)
}
