"""The requests of a follower about its own entry among the voters (KIP-853, KIP-1186).

A follower looks at the voters of its log once in every fetch timeout.

- A voter whose endpoints or whose supported levels of kraft.version differ from its entry sends
  UpdateRaftVoter to the leader. With kraft.version 0 the log has no voter entries. Then each voter
  sends UpdateRaftVoter once to each new leader. The leader needs this data for an upgrade to
  kraft.version 1.
- A controller that is not a voter sends AddRaftVoter for itself, if
  `controller.quorum.auto.join.enable` is set. If a voter has its node id, but another directory id,
  then the disk of this node is new: the node first removes the old voter with RemoveRaftVoter.

Only one request to the leader is in flight at a time. So one of these requests is sent instead of
the next Fetch.
"""

from __future__ import annotations

from odradek.core.raft.log_view import STATIC_VERSION
from odradek.core.raft.messages import (
    AddVoterRequest,
    RemoveVoterRequest,
    Request,
    UpdateVoterRequest,
)
from odradek.core.raft.quorum import Quorum
from odradek.core.raft.roles import Follower


class Membership:
    """Keeps the entry of this replica among the voters correct."""

    def __init__(self, quorum: Quorum) -> None:
        self._quorum = quorum

    def poll(self, now_ms: int) -> None:
        """Send a request if one is needed. Call it before the next fetch is sent."""
        quorum = self._quorum
        role = quorum.role
        if not isinstance(role, Follower) or now_ms < role.membership_ms or quorum.is_stopping:
            return
        request = self._needed(role)
        if request is not None:
            if not quorum.connections.is_ready(role.leader, now_ms):
                return  # the response to the last request is the time to try again
            quorum.send(now_ms, role.leader, request)
        role.postpone_membership(now_ms + quorum.settings.membership_period_ms)

    def _needed(self, role: Follower) -> Request | None:
        quorum = self._quorum
        entry = quorum.log.voters.voters.get(quorum.local.id)
        is_static = quorum.log.kraft_version == STATIC_VERSION
        if quorum.is_voter:
            is_correct = role.is_described if is_static else entry == quorum.local_voter
            return None if is_correct else UpdateVoterRequest(quorum.epoch, quorum.local_voter)
        if is_static or not quorum.settings.auto_join:
            return None
        if entry is not None:
            return RemoveVoterRequest(entry.key)
        return AddVoterRequest(
            quorum.local_voter,
            ack_when_committed=False,
            timeout_ms=quorum.settings.request_timeout_ms,
        )

    def on_updated(self) -> None:
        """Process the leader's response to UpdateRaftVoter: the entry is accepted."""
        role = self._quorum.role
        if isinstance(role, Follower):
            role.on_described()

    def next_deadline_ms(self) -> int | None:
        """Return when this replica looks at the voters again."""
        role = self._quorum.role
        return role.membership_ms if isinstance(role, Follower) else None
