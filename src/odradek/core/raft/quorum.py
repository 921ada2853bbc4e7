"""The state that all parts of the machine share: the role of this replica, and its transitions
(Kafka's QuorumState).

Only `Quorum` changes the role. A transition writes the election state, drops the requests of the
old role, and returns an effect with the leader for the owner.
"""

from __future__ import annotations

from odradek.core.raft.connections import Connections
from odradek.core.raft.election import NO_LEADER, ElectionState
from odradek.core.raft.events import (
    BecomeLeader,
    CommitUpTo,
    FollowLeader,
    SendRequest,
    StopLeading,
)
from odradek.core.raft.leader import Leader
from odradek.core.raft.log_view import LogView, OffsetAndEpoch
from odradek.core.raft.messages import Request, Response
from odradek.core.raft.outbox import Outbox
from odradek.core.raft.roles import (
    TRANSITIONS,
    Candidate,
    Follower,
    Prospective,
    Resigned,
    Role,
    Unattached,
)
from odradek.core.raft.settings import RaftSettings, RandomBytes
from odradek.core.raft.voters import Destination, ReplicaKey, Voter
from odradek.model.errors import ErrorCode


class Quorum:
    """The role of this replica and its transitions.

    `role` and `high_watermark` are read-only for other objects.
    """

    def __init__(
        self,
        local: Voter,
        log: LogView,
        election: ElectionState,
        settings: RaftSettings,
        random_bytes: RandomBytes,
    ) -> None:
        """`local` describes this replica as a voter. `election` is the state on disk."""
        self.local = local.key
        self.local_voter = local
        """This replica as the voters record must describe it."""
        self.endpoints = local.endpoints
        self.log = log
        self.settings = settings
        self._random_bytes = random_bytes
        self.outbox = Outbox(election)
        self.connections = Connections(settings)
        self.role: Role = Unattached(election.epoch, election.leader_id, election.voted, 0)
        self.high_watermark = -1
        """All records below this offset are known to be committed; -1 while none is."""
        self.is_stopping = False
        """Whether this replica is going to stop. Then it does not start an election."""

    @property
    def epoch(self) -> int:
        """The newest epoch this node knows."""
        return self.role.epoch

    @property
    def leader_id(self) -> int:
        """The leader of the epoch; -1 if not known, or if this node has resigned."""
        role = self.role
        if role.leader_id == self.local.id and not isinstance(role, Leader | Resigned):
            return NO_LEADER
        return role.leader_id

    @property
    def is_voter(self) -> bool:
        """Whether this replica is among the voters of its log."""
        return self.log.voters.contains(self.local)

    @property
    def log_end(self) -> OffsetAndEpoch:
        """The end of the log of this replica."""
        return OffsetAndEpoch(self.log.end_offset, self.log.last_epoch)

    def leader_destination(self) -> Destination | None:
        """The address of the leader, as far as it is known."""
        role = self.role
        if isinstance(role, Follower):
            return role.leader
        if isinstance(role, Leader | Resigned) and self.endpoints:
            first = self.endpoints[0]
            return Destination(self.local.id, first.host, first.port)
        return self.log.voters.destination(role.leader_id)

    # -- transitions ----------------------------------------------------------------------------

    def start(self, now_ms: int) -> None:
        """Continue in the epoch of the election state on disk.

        A replica that led this epoch does not lead it again: its log may have lost records of the
        epoch that were never flushed."""
        election = self.outbox.election
        # The election state may be older than the log, if the file was lost or edited.
        if self.log.last_epoch > election.epoch:
            election = ElectionState(self.log.last_epoch)
        deadline_ms = self._election_deadline(now_ms)
        self.role = Unattached(election.epoch, election.leader_id, election.voted, deadline_ms)
        leader = self.log.voters.destination(election.leader_id)
        if leader is not None and election.leader_id != self.local.id:
            self.become_follower(now_ms, election.epoch, election.leader_id, leader)

    def become_unattached(self, now_ms: int, epoch: int, leader_id: int = NO_LEADER) -> None:
        """Begin an epoch whose leader, or whose leader's address, is not known."""
        role = self.role
        voted = role.election().voted if epoch == role.epoch else None
        self._become(Unattached(epoch, leader_id, voted, self._election_deadline(now_ms)))

    def vote(self, now_ms: int, candidate: ReplicaKey) -> None:
        """Give the vote of the epoch, and wait for the leader."""
        voted = self.role.election().voted
        assert voted is None or voted.id == candidate.id, "a replica has one vote in an epoch"
        deadline_ms = self._election_deadline(now_ms)
        self._become(Unattached(self.epoch, NO_LEADER, candidate, deadline_ms))

    def become_prospective(self, now_ms: int) -> None:
        """Begin to send pre-votes: would this replica win a new election?"""
        assert self.is_voter, "an observer starts no election"
        assert not self.is_stopping, "a replica that stops starts no election"
        old = self.role
        leader = old.leader if isinstance(old, Follower | Prospective) else None
        election = old.election()
        deadline_ms = self._election_deadline(now_ms)
        self._become(
            Prospective(old.epoch, old.leader_id, leader, election.voted, deadline_ms),
        )
        assert isinstance(self.role, Prospective)
        self.role.votes.record(self.local.id, is_granted=True)

    def become_candidate(self, now_ms: int) -> None:
        """Begin an epoch, with a vote for this replica."""
        assert isinstance(self.role, Prospective), "pre-votes come first"
        self._become(Candidate(self.epoch + 1, self.local, self._election_deadline(now_ms)))

    def become_follower(self, now_ms: int, epoch: int, leader_id: int, leader: Destination) -> None:
        """Follow the leader of an epoch."""
        assert leader_id != self.local.id
        old = self.role
        if epoch == old.epoch:
            assert old.leader_id in (NO_LEADER, leader_id), "an epoch has one leader"
        voted = old.election().voted if epoch == old.epoch else None
        timeout_ms = self.settings.random_fetch_timeout_ms(self._random_bytes)
        membership_ms = now_ms + self.settings.membership_period_ms
        self._become(Follower(epoch, leader_id, leader, voted, now_ms, timeout_ms, membership_ms))

    def become_leader(self, now_ms: int) -> None:
        """Lead the epoch of the election that this replica has won."""
        assert isinstance(self.role, Candidate)
        assert self.role.votes.is_won(self.log.voters), "a majority elects the leader"
        assert self.log.last_epoch < self.epoch, "an epoch begins with the records of its leader"
        assert self.log.end_offset >= self.high_watermark, "a leader has all committed records"
        granting = tuple(self.role.votes.granted)
        start_offset = self.log.end_offset
        epoch = self.epoch
        self._become(Leader(epoch, start_offset, self.local, now_ms))
        self.outbox.add(BecomeLeader(epoch, start_offset, granting))

    def resign(self, now_ms: int) -> None:
        """Give up the leadership of the epoch."""
        leader = self.role
        assert isinstance(leader, Leader)
        successors = leader.successors(self.log.voters, now_ms)
        untold = [each.id for each in successors]
        deadline_ms = self._election_deadline(now_ms)
        self._become(Resigned(leader.epoch, self.local.id, successors, untold, deadline_ms))

    def stop(self) -> None:
        """Stand for no election from now on."""
        self.is_stopping = True

    def _election_deadline(self, now_ms: int) -> int:
        return now_ms + self.settings.random_election_timeout_ms(self._random_bytes)

    def _become(self, role: Role) -> None:
        old = self.role
        assert type(role) in TRANSITIONS[type(old)], f"{old!r} to {role!r}"
        assert role.epoch >= old.epoch
        if role.epoch == old.epoch and old.leader_id != NO_LEADER:
            assert role.leader_id in (NO_LEADER, old.leader_id), "an epoch has one leader"
        self.role = role
        self.connections.reset()
        self.outbox.persist(role.election())
        if isinstance(old, Leader):
            self.outbox.add(StopLeading(old.epoch))
        elif isinstance(role, Leader):
            return
        follows = role.leader_id if isinstance(role, Follower) else NO_LEADER
        followed = old.leader_id if isinstance(old, Follower) else NO_LEADER
        if (role.epoch, follows) != (old.epoch, followed):
            self.outbox.add(FollowLeader(role.epoch, follows))

    # -- states of other replicas ---------------------------------------------------------------

    def observe(self, now_ms: int, epoch: int, leader_id: int, leader: Destination | None) -> None:
        """Process an epoch that another replica knows, and its leader if the replica knows it."""
        role = self.role
        if epoch < role.epoch or leader_id == self.local.id:
            if epoch > role.epoch:  # from an earlier start of this node
                self.become_unattached(now_ms, epoch)
            return
        if leader is None:
            leader = self.log.voters.destination(leader_id)
        if epoch > role.epoch:
            if leader_id != NO_LEADER and leader is not None:
                self.become_follower(now_ms, epoch, leader_id, leader)
            else:
                self.become_unattached(now_ms, epoch, leader_id)
        elif leader_id != NO_LEADER and leader is not None and self._lacks_leader(leader_id):
            self.become_follower(now_ms, epoch, leader_id, leader)

    def _lacks_leader(self, leader_id: int) -> bool:
        """Whether this replica would follow this leader of its epoch.

        A prospective that followed this leader before got no response from the leader. So it first
        sends pre-votes.
        """
        role = self.role
        if isinstance(role, Unattached):
            return role.leader_id in (NO_LEADER, leader_id)
        return isinstance(role, Candidate | Prospective) and role.leader_id == NO_LEADER

    def learn(self, now_ms: int, response: Response) -> bool:
        """Process the fields of all responses; return whether to process the other fields."""
        if response.epoch < self.epoch or response.error is ErrorCode.UNKNOWN_LEADER_EPOCH:
            return False
        role = self.role
        self.observe(now_ms, response.epoch, response.leader_id, response.leader)
        refused = (ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return self.role is role and response.error not in refused

    # -- messages -------------------------------------------------------------------------------

    def send(self, now_ms: int, destination: Destination, request: Request) -> None:
        """Send a request; the connection must be ready."""
        request_id = self.connections.sent(destination, request, now_ms)
        self.outbox.send(SendRequest(request_id, destination, request))

    # -- the high watermark ---------------------------------------------------------------------

    def commit(self, offset: int) -> None:
        """Set the high watermark: all records below `offset` are committed."""
        if offset > self.high_watermark:
            assert offset <= self.log.end_offset, "what is committed is in the log"
            self.high_watermark = offset
            self.outbox.add(CommitUpTo(offset))
