"""Changes of the voters (KIP-853): AddRaftVoter, RemoveRaftVoter and UpdateRaftVoter, and the
upgrade to kraft.version 1.

Only one voter is changed at a time. Then any majority of the old voters and any majority of the new
voters have a replica in common. So the leader rejects a change with REQUEST_TIMED_OUT until the
record of the last change is committed, and until a record of the leader's epoch is committed: only
then does the leader know all records that earlier leaders have committed.

Before the leader adds a voter, it sends ApiVersions to the voter's address. The response contains
the levels of kraft.version that the voter supports. So the leader also finds out whether the
address is correct.

A change takes effect when its record is appended. The response is sent when the record is
committed, or when the time of the request is over. UpdateRaftVoter, and AddRaftVoter with
`ack_when_committed` false, get the response when the record is appended. A leader that has removed
itself continues to lead until the record is committed, without counting itself, and then resigns.

With kraft.version 0 the configuration contains the voters, and their directory ids are not known.
Each voter sends UpdateRaftVoter to the leader, which keeps these descriptions in memory
(`Leader.described`). The upgrade to kraft.version 1 appends them as the first voters record. It is
not possible until all voters have sent theirs.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from odradek.core.raft.events import AppendVoters, RequestReceived
from odradek.core.raft.leader import Leader
from odradek.core.raft.log_view import DYNAMIC_VERSION, STATIC_VERSION
from odradek.core.raft.messages import (
    AddVoterRequest,
    RemoveVoterRequest,
    UpdateVoterRequest,
    VersionsRequest,
    VersionsResponse,
    VoterChangeResponse,
)
from odradek.core.raft.quorum import Quorum
from odradek.core.raft.voters import Destination, ReplicaKey, Voter, VoterSet
from odradek.model.errors import ErrorCode

VoterChange = AddVoterRequest | RemoveVoterRequest | UpdateVoterRequest

UNKNOWN_OFFSET = -1


class _Pending(NamedTuple):
    """A change that is not committed."""

    token: Any
    """None if the response has been sent."""
    offset: int
    """The offset of the record; `UNKNOWN_OFFSET` while the versions of `added` are not known."""
    deadline_ms: int
    added: AddVoterRequest | None = None


class _Refused(Exception):
    """The change is not possible."""

    def __init__(self, error: ErrorCode, message: str | None = None) -> None:
        super().__init__(message or error.message)
        self.error = error
        self.message = message or error.message


class Reconfiguration:
    """The change of the voters that is in progress, if any."""

    def __init__(self, quorum: Quorum) -> None:
        self._quorum = quorum
        self._pending: _Pending | None = None

    # -- requests -------------------------------------------------------------------------------

    def on_request(self, now_ms: int, event: RequestReceived) -> None:
        """Begin a change, or reject the request."""
        request = event.request
        assert isinstance(request, VoterChange)
        try:
            leader = self._leader(request)
            if isinstance(request, AddVoterRequest):
                self._add(now_ms, leader, event.token, request)
            elif isinstance(request, RemoveVoterRequest):
                self._remove(now_ms, leader, event.token, request)
            else:
                self._update(leader, event.token, request.voter)
        except _Refused as refused:
            self._respond(event.token, refused.error, refused.message)

    def _leader(self, request: VoterChange) -> Leader:
        quorum = self._quorum
        leader = quorum.role
        if isinstance(request, UpdateVoterRequest) and request.epoch != quorum.epoch:
            older = request.epoch < quorum.epoch
            raise _Refused(
                ErrorCode.FENCED_LEADER_EPOCH if older else ErrorCode.UNKNOWN_LEADER_EPOCH
            )
        if not isinstance(leader, Leader):
            raise _Refused(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        voter = request.voter
        key = voter if isinstance(voter, ReplicaKey) else voter.key
        if key.id < 0 or key.directory_id == bytes(16):
            raise _Refused(ErrorCode.INVALID_REQUEST, "the request does not name a voter")
        if isinstance(voter, Voter) and self._address(voter) is None:
            raise _Refused(
                ErrorCode.INVALID_REQUEST,
                f"the request has no address for the listener {self._listener_name}",
            )
        if self._pending is not None:
            raise _Refused(
                ErrorCode.REQUEST_TIMED_OUT, "another change of the voters is in progress"
            )
        if leader.high_watermark < 0:
            raise _Refused(
                ErrorCode.REQUEST_TIMED_OUT, "the leader has not committed a record of its epoch"
            )
        return leader

    @property
    def _listener_name(self) -> str:
        endpoints = self._quorum.endpoints
        return endpoints[0].name if endpoints else ""

    def _address(self, voter: Voter) -> Destination | None:
        """The voter's address on the listener that this node uses for the quorum."""
        for each in voter.endpoints:
            if each.name == self._listener_name:
                return Destination(voter.key.id, each.host, each.port)
        return None

    def _check_dynamic(self, leader: Leader) -> None:
        quorum = self._quorum
        if quorum.log.kraft_version == STATIC_VERSION:
            raise _Refused(
                ErrorCode.UNSUPPORTED_VERSION, "the voters can be changed from kraft.version 1 on"
            )
        if quorum.log.voters_offset >= leader.high_watermark:
            raise _Refused(
                ErrorCode.REQUEST_TIMED_OUT, "the last change of the voters is not committed"
            )

    def _check_versions(self, low: int, high: int) -> None:
        level = self._quorum.log.kraft_version
        if not low <= level <= high:
            raise _Refused(
                ErrorCode.INVALID_REQUEST,
                f"the voter supports kraft.version {low} to {high}, not {level}",
            )

    # -- AddRaftVoter ---------------------------------------------------------------------------

    def _add(self, now_ms: int, leader: Leader, token: Any, request: AddVoterRequest) -> None:
        quorum, voter = self._quorum, request.voter
        self._check_dynamic(leader)
        if voter.key.id in quorum.log.voters.voters:
            raise _Refused(ErrorCode.DUPLICATE_VOTER, f"node {voter.key.id} is a voter already")
        address = self._address(voter)
        assert address is not None, "checked before"
        if not quorum.connections.is_ready(address, now_ms):
            raise _Refused(ErrorCode.REQUEST_TIMED_OUT, "the voter cannot be asked at present")
        quorum.send(now_ms, address, VersionsRequest())
        deadline_ms = now_ms + (max(0, request.timeout_ms) or quorum.settings.request_timeout_ms)
        self._pending = _Pending(token, UNKNOWN_OFFSET, deadline_ms, request)

    def on_versions(
        self, now_ms: int, destination: Destination, response: VersionsResponse | None
    ) -> None:
        """Process the response of `destination` to ApiVersions; None if there was none in time."""
        pending, leader = self._pending, self._quorum.role
        if pending is None or pending.offset != UNKNOWN_OFFSET or not isinstance(leader, Leader):
            return
        request = pending.added
        assert request is not None
        if destination != self._address(request.voter):
            return  # the response to an earlier request
        try:
            voters = self._added(now_ms, leader, request.voter, response)
        except _Refused as refused:
            self._end(pending, refused.error, refused.message)
            return
        token = pending.token
        if not request.ack_when_committed:
            self._respond(token, ErrorCode.NONE, None)
            token = None
        self._append(voters, token, pending.deadline_ms)

    def _added(
        self, now_ms: int, leader: Leader, voter: Voter, response: VersionsResponse | None
    ) -> VoterSet:
        if response is None or response.error:
            raise _Refused(
                ErrorCode.REQUEST_TIMED_OUT,
                "the address of the voter does not respond to ApiVersions",
            )
        low, high = response.kraft_version_min, response.kraft_version_max
        self._check_versions(low, high)
        progress = leader.known(voter.key)
        settings = self._quorum.settings
        if (
            progress is None
            or progress.last_fetch_ms < now_ms - settings.observer_session_ms
            or progress.last_caught_up_ms < max(0, now_ms - settings.caught_up_within_ms)
        ):
            raise _Refused(
                ErrorCode.REQUEST_TIMED_OUT, "the replica has not caught up with the leader"
            )
        return self._quorum.log.voters.with_voter(
            voter._replace(kraft_version_min=low, kraft_version_max=high)
        )

    # -- RemoveRaftVoter and UpdateRaftVoter ----------------------------------------------------

    def _remove(self, now_ms: int, leader: Leader, token: Any, request: RemoveVoterRequest) -> None:
        self._check_dynamic(leader)
        voters, key = self._quorum.log.voters, request.voter
        found = voters.voters.get(key.id)
        if found is None or found.key != key:
            raise _Refused(ErrorCode.VOTER_NOT_FOUND, f"the replica {key.id} is not a voter")
        if len(voters) == 1:
            raise _Refused(ErrorCode.VOTER_NOT_FOUND, "the last voter cannot be removed")
        timeout_ms = self._quorum.settings.request_timeout_ms
        self._append(voters.without_voter(key.id), token, now_ms + timeout_ms)

    def _update(self, leader: Leader, token: Any, voter: Voter) -> None:
        quorum = self._quorum
        is_static = quorum.log.kraft_version == STATIC_VERSION
        if not is_static:
            self._check_dynamic(leader)
        low, high = voter.kraft_version_min, voter.kraft_version_max
        if not 0 <= low <= high:
            raise _Refused(ErrorCode.INVALID_REQUEST)
        self._check_versions(low, high)
        found = quorum.log.voters.voters.get(voter.key.id)
        if found is None or (not is_static and found.key != voter.key):
            raise _Refused(ErrorCode.VOTER_NOT_FOUND, f"the replica {voter.key.id} is not a voter")
        if is_static:
            leader.describe(voter)
        elif found != voter:
            quorum.outbox.add(AppendVoters(quorum.epoch, quorum.log.voters.with_voter(voter)))
        self._respond(token, ErrorCode.NONE, None)

    # -- the upgrade of kraft.version -----------------------------------------------------------

    def upgrade_problem(self) -> str | None:
        """Why kraft.version cannot be raised to 1 now; None if it can."""
        quorum, leader = self._quorum, self._quorum.role
        if not isinstance(leader, Leader) or leader.high_watermark < 0:
            return "The leader has not committed a record of its epoch."
        if quorum.log.kraft_version != STATIC_VERSION:
            return "It was raised already."
        described = {**leader.described, quorum.local.id: quorum.local_voter}
        missing = [each for each in quorum.log.voters.voters if each not in described]
        if missing:
            listed = ", ".join(map(str, sorted(missing)))
            return f"The voters {listed} have not told the leader that they support it."
        too_old = [
            each
            for each in quorum.log.voters.voters
            if described[each].kraft_version_max < DYNAMIC_VERSION
        ]
        if too_old:
            return f"The voters {', '.join(map(str, sorted(too_old)))} do not support it."
        return None

    def upgrade(self) -> None:
        """Append kraft.version 1 and the voters. There must be no `upgrade_problem`."""
        quorum, leader = self._quorum, self._quorum.role
        assert isinstance(leader, Leader)
        assert self.upgrade_problem() is None
        described = {**leader.described, quorum.local.id: quorum.local_voter}
        assert quorum.log.voters_offset < 0, "with kraft.version 0 the voters are not in the log"
        voters = VoterSet(described[each] for each in quorum.log.voters.voters)
        quorum.outbox.add(AppendVoters(quorum.epoch, voters, is_upgrade=True))

    # -- the end of a change --------------------------------------------------------------------

    def _append(self, voters: VoterSet, token: Any, deadline_ms: int) -> None:
        """Append a voters record, and wait until it is committed."""
        quorum = self._quorum
        before = quorum.log.voters.voters.keys()
        assert len(voters), "a quorum has voters"
        assert len(before ^ voters.voters.keys()) == 1, "majorities before and after overlap"
        assert self._pending is None or self._pending.offset == UNKNOWN_OFFSET, "one at a time"
        self._pending = _Pending(token, quorum.log.end_offset, deadline_ms)
        quorum.outbox.add(AppendVoters(quorum.epoch, voters))

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
        elif pending.offset != UNKNOWN_OFFSET and leader.high_watermark > pending.offset:
            self._end(pending, ErrorCode.NONE)
            if not quorum.is_voter:
                quorum.resign(now_ms)
        elif now_ms >= pending.deadline_ms and pending.token is not None:
            # If there is a record, it may be committed later.
            self._end(pending, ErrorCode.REQUEST_TIMED_OUT)

    def _end(self, pending: _Pending, error: ErrorCode, message: str | None = None) -> None:
        self._pending = None
        if pending.token is not None:
            self._respond(pending.token, error, message or (error.message if error else None))

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
