"""Changes of the voters (KIP-853): AddRaftVoter, RemoveRaftVoter and UpdateRaftVoter.

Only one voter is changed at a time. Then any majority of the old voters and any majority of the new
voters have a replica in common. So the leader rejects a change with REQUEST_TIMED_OUT until the
record of the last change is committed, and until a record of the leader's epoch is committed: only
then does the leader know all records that earlier leaders have committed.

A change takes effect when its record is appended. The response is sent when the record is
committed, or when the time of the request is over. If AddRaftVoter has `ack_when_committed` false,
the response is sent at once. A leader that has removed itself continues to lead until the record is
committed, without counting itself, and then resigns.

Missing: the leader does not send ApiVersions to a new voter to learn the versions that the voter
supports. It uses the versions in the request.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from odradek.core.raft.events import AppendVoters, RequestReceived
from odradek.core.raft.leader import Leader
from odradek.core.raft.log_view import STATIC_VERSION
from odradek.core.raft.messages import (
    AddVoterRequest,
    RemoveVoterRequest,
    UpdateVoterRequest,
    VoterChangeResponse,
)
from odradek.core.raft.quorum import Quorum
from odradek.core.raft.voters import Voter, VoterSet
from odradek.model.errors import ErrorCode

VoterChange = AddVoterRequest | RemoveVoterRequest | UpdateVoterRequest


class _Pending(NamedTuple):
    """A change whose record is not committed."""

    token: Any
    """None if the response has been sent."""
    offset: int
    deadline_ms: int


class _Refused(Exception):
    """The change is not possible."""

    def __init__(self, error: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.error = error
        self.message = message


class Reconfiguration:
    """The change of the voters that is in progress, if any."""

    def __init__(self, quorum: Quorum) -> None:
        self._quorum = quorum
        self._pending: _Pending | None = None

    def on_request(self, now_ms: int, event: RequestReceived) -> None:
        """Begin a change, or reject the request."""
        request = event.request
        assert isinstance(request, VoterChange)
        try:
            leader = self._ready_leader(request)
            if isinstance(request, AddVoterRequest):
                voters = self._added(now_ms, leader, request)
            elif isinstance(request, RemoveVoterRequest):
                voters = self._removed(request)
            else:
                voters = self._updated(request.voter)
        except _Refused as refused:
            self._respond(event.token, refused.error, refused.message)
            return
        quorum = self._quorum
        offset = quorum.log.end_offset
        quorum.outbox.add(AppendVoters(quorum.epoch, voters))
        token = event.token
        if isinstance(request, AddVoterRequest) and not request.ack_when_committed:
            self._respond(token, ErrorCode.NONE, None)
            token = None
        self._pending = _Pending(token, offset, now_ms + request.timeout_ms)

    def _ready_leader(self, request: VoterChange) -> Leader:
        quorum = self._quorum
        leader = quorum.role
        if isinstance(request, UpdateVoterRequest) and request.epoch != quorum.epoch:
            older = request.epoch < quorum.epoch
            code = ErrorCode.FENCED_LEADER_EPOCH if older else ErrorCode.UNKNOWN_LEADER_EPOCH
            raise _Refused(code, code.message)
        if not isinstance(leader, Leader):
            code = ErrorCode.NOT_LEADER_OR_FOLLOWER
            raise _Refused(code, code.message)
        if leader.high_watermark < 0:
            raise _Refused(
                ErrorCode.REQUEST_TIMED_OUT, "the leader has not committed a record of its epoch"
            )
        if self._pending is not None or quorum.log.voters_offset >= leader.high_watermark:
            raise _Refused(
                ErrorCode.REQUEST_TIMED_OUT, "the last change of the voters is not committed"
            )
        if quorum.log.kraft_version == STATIC_VERSION:
            raise _Refused(
                ErrorCode.UNSUPPORTED_VERSION, "the voters can be changed from kraft.version 1 on"
            )
        return leader

    def _added(self, now_ms: int, leader: Leader, request: AddVoterRequest) -> VoterSet:
        quorum, voter = self._quorum, request.voter
        voters = quorum.log.voters
        if voter.key.id in voters.voters:
            raise _Refused(ErrorCode.DUPLICATE_VOTER, f"node {voter.key.id} is a voter already")
        if not voter.kraft_version_min <= quorum.log.kraft_version <= voter.kraft_version_max:
            raise _Refused(
                ErrorCode.INVALID_REQUEST, "the voter does not support the kraft.version"
            )
        progress = leader.known(voter.key)
        settings = quorum.settings
        if (
            progress is None
            or progress.last_fetch_ms < now_ms - settings.observer_session_ms
            or progress.last_caught_up_ms < max(0, now_ms - settings.caught_up_within_ms)
        ):
            raise _Refused(
                ErrorCode.REQUEST_TIMED_OUT, "the replica has not caught up with the leader"
            )
        return voters.with_voter(voter)

    def _removed(self, request: RemoveVoterRequest) -> VoterSet:
        voters, key = self._quorum.log.voters, request.voter
        found = voters.voters.get(key.id)
        if found is None or found.key != key:
            raise _Refused(ErrorCode.VOTER_NOT_FOUND, f"the replica {key.id} is not a voter")
        if len(voters) == 1:
            raise _Refused(ErrorCode.VOTER_NOT_FOUND, "the last voter cannot be removed")
        return voters.without_voter(key.id)

    def _updated(self, voter: Voter) -> VoterSet:
        voters = self._quorum.log.voters
        found = voters.voters.get(voter.key.id)
        if found is None or found.key != voter.key:
            raise _Refused(ErrorCode.VOTER_NOT_FOUND, f"the replica {voter.key.id} is not a voter")
        level = self._quorum.log.kraft_version
        if not voter.kraft_version_min <= level <= voter.kraft_version_max:
            raise _Refused(
                ErrorCode.INVALID_REQUEST, "the voter does not support the kraft.version"
            )
        return voters.with_voter(voter)

    def poll(self, now_ms: int) -> None:
        """End the change if it is committed, its time is over, or this node no longer leads."""
        quorum, pending = self._quorum, self._pending
        leader = quorum.role
        if isinstance(leader, Leader) and pending is None:
            # An earlier leader may have removed this leader from the voters.
            if not quorum.is_voter and leader.high_watermark > quorum.log.voters_offset:
                quorum.resign(now_ms)
            return
        if pending is None:
            return
        if not isinstance(leader, Leader):
            self._end(pending, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        elif leader.high_watermark > pending.offset:
            self._end(pending, ErrorCode.NONE)
            if not quorum.is_voter:
                quorum.resign(now_ms)
        elif now_ms >= pending.deadline_ms and pending.token is not None:
            self._end(pending, ErrorCode.REQUEST_TIMED_OUT)  # the record may be committed later

    def _end(self, pending: _Pending, error: ErrorCode) -> None:
        self._pending = None
        if pending.token is not None:
            self._respond(pending.token, error, error.message if error else None)

    def _respond(self, token: Any, error: ErrorCode, message: str | None) -> None:
        quorum = self._quorum
        response = VoterChangeResponse(
            error=error,
            epoch=quorum.epoch,
            leader_id=quorum.leader_id,
            leader=quorum.leader_destination(),
            message=message,
        )
        quorum.outbox.respond(token, response)

    def next_deadline_ms(self) -> int | None:
        """Return when the time of the change is over."""
        return None if self._pending is None else self._pending.deadline_ms
