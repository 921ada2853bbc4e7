"""Elections: votes, the announcement of a leader, and its resignation.

An election begins when a follower has got no response from its leader for the fetch timeout, or
when no leader is known for the election timeout. The election timeout is random, so that two
replicas seldom start elections at the same time. First the replica requests pre-votes. If a
majority grants them, the replica begins a new epoch and requests votes. A voter grants a vote only
to a candidate whose log is at least as up to date as its own. So the leader has all committed
records.

The leader sends BeginQuorumEpoch to each voter that has not fetched for half of the fetch timeout.
A leader that resigns sends EndQuorumEpoch with its successors. The first successor stands for
election at once. Each of the other successors waits longer than the successor before it.
"""

from __future__ import annotations

from odradek.core.raft.election import NO_LEADER
from odradek.core.raft.events import RequestReceived
from odradek.core.raft.leader import NEVER_MS, Leader
from odradek.core.raft.messages import (
    BeginQuorumEpochRequest,
    EndQuorumEpochRequest,
    EpochResponse,
    Response,
    VoteRequest,
    VoteResponse,
)
from odradek.core.raft.quorum import Quorum
from odradek.core.raft.roles import Candidate, Follower, Prospective, Resigned, Unattached
from odradek.core.raft.settings import CHECK_QUORUM_FACTOR
from odradek.core.raft.voters import Destination, ReplicaKey
from odradek.model.errors import ErrorCode


class Voting:
    """Processes the requests and responses of elections. The state is in the roles."""

    def __init__(self, quorum: Quorum) -> None:
        self._quorum = quorum

    # -- requests -------------------------------------------------------------------------------

    def on_vote(self, now_ms: int, event: RequestReceived) -> None:
        """Process a candidate's request for a vote or a pre-vote."""
        quorum, request = self._quorum, event.request
        assert isinstance(request, VoteRequest)
        error = self._problem(request.epoch, request.voter)
        is_granted = False
        if not error:
            if request.epoch > quorum.epoch:
                quorum.become_unattached(now_ms, request.epoch)
            end = quorum.log_end
            is_up_to_date = (request.last.epoch, request.last.offset) >= (end.epoch, end.offset)
            is_granted = quorum.role.may_grant(
                request.candidate, is_up_to_date, request.is_pre_vote
            )
            if is_granted and not request.is_pre_vote:
                quorum.vote(now_ms, request.candidate)
        response = VoteResponse(
            error=error,
            epoch=quorum.epoch,
            leader_id=quorum.leader_id,
            leader=quorum.leader_destination(),
            is_granted=is_granted,
        )
        quorum.outbox.respond(event.token, response)

    def on_begin_epoch(self, now_ms: int, event: RequestReceived) -> None:
        """Process BeginQuorumEpoch: the sender is the leader of the epoch."""
        quorum, request = self._quorum, event.request
        assert isinstance(request, BeginQuorumEpochRequest)
        error = self._problem(request.epoch, request.voter)
        if not error:
            leader = quorum.log.voters.destination(request.leader_id)
            if request.endpoints:
                first = request.endpoints[0]
                leader = Destination(request.leader_id, first.host, first.port)
            role = quorum.role
            is_back = (
                isinstance(role, Prospective)
                and (role.epoch, role.leader_id) == (request.epoch, request.leader_id)
                and leader is not None
                and request.leader_id != quorum.local.id
            )
            if is_back and leader is not None:
                quorum.become_follower(now_ms, request.epoch, request.leader_id, leader)
            else:
                quorum.observe(now_ms, request.epoch, request.leader_id, leader)
        self._respond(event, error)

    def on_end_epoch(self, now_ms: int, event: RequestReceived) -> None:
        """Process EndQuorumEpoch: the leader of the epoch has resigned."""
        quorum, request = self._quorum, event.request
        assert isinstance(request, EndQuorumEpochRequest)
        error = self._problem(request.epoch, None)
        if not error:
            quorum.observe(now_ms, request.epoch, request.leader_id, None)
            role = quorum.role
            if isinstance(role, Follower) and role.leader_id == request.leader_id:
                wait_ms = self._successor_wait_ms(request.successors)
                role.on_leader_resigned(now_ms + wait_ms)
        self._respond(event, error)

    def _successor_wait_ms(self, successors: tuple[ReplicaKey, ...]) -> int:
        """Return the time until this replica starts an election; 0 for the first successor."""
        ids = [each.id for each in successors]
        longest_ms = self._quorum.settings.election_backoff_max_ms
        if self._quorum.local.id not in ids:
            return longest_ms
        position = ids.index(self._quorum.local.id)
        if position == 0:
            return 0
        return min(longest_ms, (longest_ms >> (len(ids) - 1)) << (position - 1))

    def _problem(self, epoch: int, voter: ReplicaKey | None) -> ErrorCode:
        quorum = self._quorum
        if voter is not None and (
            voter.id != quorum.local.id
            or voter.directory_id not in (bytes(16), quorum.local.directory_id)
        ):
            return ErrorCode.INVALID_VOTER_KEY
        if epoch < quorum.epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        return ErrorCode.NONE

    def _respond(self, event: RequestReceived, error: ErrorCode) -> None:
        quorum = self._quorum
        response = EpochResponse(
            error=error,
            epoch=quorum.epoch,
            leader_id=quorum.leader_id,
            leader=quorum.leader_destination(),
        )
        quorum.outbox.respond(event.token, response)

    # -- responses ------------------------------------------------------------------------------

    def on_vote_response(
        self, now_ms: int, peer: Destination, request: VoteRequest, response: Response
    ) -> None:
        """Process a response to Vote.

        If the response comes from the leader that this replica has followed, this replica follows
        the leader again."""
        role = self._quorum.role
        if (
            isinstance(role, Prospective)
            and role.leader is not None
            and role.leader_id == response.leader_id == peer.node_id
        ):
            self._quorum.become_follower(now_ms, role.epoch, role.leader_id, role.leader)
            return
        expected = Prospective if request.is_pre_vote else Candidate
        if not isinstance(role, Prospective | Candidate) or not isinstance(role, expected):
            return
        if response.error is ErrorCode.UNSUPPORTED_VERSION and request.is_pre_vote:
            role.votes.record(peer.node_id, is_granted=True)  # older software has no pre-votes
        elif isinstance(response, VoteResponse) and not response.error:
            role.votes.record(peer.node_id, response.is_granted)

    def on_own_vote_durable(self) -> None:
        """Count the vote of this replica, because the election state is durable."""
        role = self._quorum.role
        if isinstance(role, Candidate):
            role.votes.record(self._quorum.local.id, is_granted=True)

    def on_end_epoch_response(self, peer: Destination) -> None:
        """Process the response of a voter to EndQuorumEpoch."""
        role = self._quorum.role
        if isinstance(role, Resigned):
            role.told(peer.node_id)

    # -- time -----------------------------------------------------------------------------------

    def poll(self, now_ms: int) -> None:
        """Begin, continue and end elections when they are due."""
        quorum = self._quorum
        role = quorum.role
        if isinstance(role, Unattached | Follower) and self._is_election_due(now_ms):
            quorum.become_prospective(now_ms)
        elif isinstance(role, Resigned):
            self._poll_resigned(now_ms, role)
        elif isinstance(role, Leader):
            self._poll_leader(now_ms, role)
        role = quorum.role
        if isinstance(role, Prospective):
            self._poll_prospective(now_ms, role)
        role = quorum.role
        if isinstance(role, Candidate):
            self._poll_candidate(now_ms, role)

    def _is_election_due(self, now_ms: int) -> bool:
        quorum, role = self._quorum, self._quorum.role
        if quorum.is_stopping or not quorum.is_voter or not quorum.log.is_ready:
            return False
        if isinstance(role, Follower):
            return now_ms >= role.fetch_deadline_ms
        assert isinstance(role, Unattached)
        return now_ms >= role.election_deadline_ms or len(quorum.log.voters) == 1

    def _poll_prospective(self, now_ms: int, role: Prospective) -> None:
        quorum = self._quorum
        voters = quorum.log.voters
        if not quorum.is_voter or quorum.is_stopping:
            quorum.become_unattached(now_ms, role.epoch, role.leader_id)
        elif role.votes.is_won(voters):
            quorum.become_candidate(now_ms)
        elif role.votes.is_lost(voters) or now_ms >= role.election_deadline_ms:
            if role.leader is not None and role.leader_id != NO_LEADER:
                quorum.become_follower(now_ms, role.epoch, role.leader_id, role.leader)
            else:
                quorum.become_unattached(now_ms, role.epoch, role.leader_id)
        else:
            self._ask(now_ms, role, is_pre_vote=True)

    def _poll_candidate(self, now_ms: int, role: Candidate) -> None:
        quorum = self._quorum
        voters = quorum.log.voters
        if quorum.is_stopping:
            quorum.become_unattached(now_ms, role.epoch)
        elif role.votes.is_won(voters):
            quorum.become_leader(now_ms)
        elif now_ms >= role.election_deadline_ms:
            # A candidate that has lost also waits until then. The random time separates candidates
            # that have divided the votes.
            quorum.become_prospective(now_ms)
        else:
            self._ask(now_ms, role, is_pre_vote=False)

    def _ask(self, now_ms: int, role: Prospective | Candidate, is_pre_vote: bool) -> None:
        quorum = self._quorum
        for voter in quorum.log.voters.voters.values():
            peer = quorum.log.voters.destination(voter.key.id)
            if (
                voter.key.id == quorum.local.id
                or peer is None
                or role.votes.has_answered(voter.key.id)
                or not quorum.connections.is_ready(peer, now_ms)
            ):
                continue
            request = VoteRequest(
                role.epoch, quorum.local, voter.key, quorum.log_end, is_pre_vote=is_pre_vote
            )
            quorum.send(now_ms, peer, request)

    def _poll_leader(self, now_ms: int, role: Leader) -> None:
        quorum = self._quorum
        voters = quorum.log.voters
        timeout_ms = int(quorum.settings.fetch_timeout_ms * CHECK_QUORUM_FACTOR)
        if now_ms >= role.check_quorum_ms(voters, timeout_ms):
            quorum.resign(now_ms)
            return
        for follower in role.followers(voters, now_ms):
            peer = voters.destination(follower.key.id)
            if peer is None or now_ms < follower.begin_epoch_ms:
                continue
            if quorum.connections.is_ready(peer, now_ms):
                request = BeginQuorumEpochRequest(
                    role.epoch, quorum.local.id, follower.key, quorum.endpoints
                )
                quorum.send(now_ms, peer, request)
                follower.postpone_begin_epoch(now_ms + quorum.settings.fetch_timeout_ms // 2)

    def _poll_resigned(self, now_ms: int, role: Resigned) -> None:
        quorum = self._quorum
        if not quorum.is_stopping and now_ms >= role.election_deadline_ms:
            if quorum.is_voter:
                quorum.become_prospective(now_ms)
            else:
                quorum.become_unattached(now_ms, role.epoch, role.leader_id)
            return
        request = EndQuorumEpochRequest(
            role.epoch, quorum.local.id, role.successors, quorum.endpoints
        )
        for voter_id in list(role.untold):
            peer = quorum.log.voters.destination(voter_id)
            if peer is None:
                role.told(voter_id)
            elif quorum.connections.is_ready(peer, now_ms):
                quorum.send(now_ms, peer, request)

    def next_deadline_ms(self) -> int | None:
        """Return when `poll` has something to do."""
        quorum, role = self._quorum, self._quorum.role
        if isinstance(role, Leader):
            voters = quorum.log.voters
            timeout_ms = int(quorum.settings.fetch_timeout_ms * CHECK_QUORUM_FACTOR)
            times = [each.begin_epoch_ms for each in role.followers(voters, 0)]
            check_ms = role.check_quorum_ms(voters, timeout_ms)
            return min([*times, check_ms]) if check_ms < NEVER_MS or times else None
        if quorum.is_stopping:
            return None
        if isinstance(role, Follower):
            return role.fetch_deadline_ms
        return role.election_deadline_ms
