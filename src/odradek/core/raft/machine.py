"""The quorum machine: the part of this node in the metadata quorum (KRaft).

`RaftMachine` processes events and returns effects (`events`). Other modules have its parts:
`voting` runs elections, `serving` answers Fetch as the leader, `fetching` fetches as a follower,
and `reconfiguration` changes the voters. All share the role and the log (`quorum`).

The owner calls `step` with each event and performs the effects. Then the owner calls `poll` and
performs the effects of `poll`. `poll` starts the work that is due: elections, requests, responses
to fetches. The owner also calls `poll` when the log has changed or was flushed, and at
`next_deadline_ms`. The owner passes the time to each call.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

from odradek.core.raft.election import ElectionState
from odradek.core.raft.events import (
    AppendRefused,
    Effect,
    ElectionPersisted,
    Event,
    RequestReceived,
    Resign,
    ResponseReceived,
    SnapshotWritten,
    UpgradeVersion,
)
from odradek.core.raft.fetching import Fetching
from odradek.core.raft.leader import Leader
from odradek.core.raft.log_view import LogView
from odradek.core.raft.membership import Membership
from odradek.core.raft.messages import (
    AddVoterRequest,
    BeginQuorumEpochRequest,
    EndQuorumEpochRequest,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    RemoveVoterRequest,
    UpdateVoterRequest,
    VersionsRequest,
    VersionsResponse,
    VoteRequest,
)
from odradek.core.raft.quorum import Quorum
from odradek.core.raft.reconfiguration import Reconfiguration
from odradek.core.raft.roles import Role
from odradek.core.raft.serving import Serving
from odradek.core.raft.settings import RaftSettings, RandomBytes
from odradek.core.raft.voters import Destination, ReplicaKey, Voter
from odradek.core.raft.voting import Voting


class QuorumError(Exception):
    """This node cannot be part of the quorum that its disk describes."""


class RaftMachine:
    """The part of this node in the metadata quorum: a state machine without IO."""

    def __init__(
        self,
        local: Voter,
        log: LogView,
        election: ElectionState,
        settings: RaftSettings,
        random_bytes: RandomBytes,
        bootstrap: Sequence[Destination] = (),
    ) -> None:
        """`local` describes this replica. `election` is the state on disk."""
        self._quorum = Quorum(local, log, election, settings, random_bytes)
        self._log = log
        self._voting = Voting(self._quorum)
        self._serving = Serving(self._quorum)
        self._fetching = Fetching(self._quorum, bootstrap)
        self._reconfiguration = Reconfiguration(self._quorum)
        self._membership = Membership(self._quorum)

    @property
    def local(self) -> ReplicaKey:
        """This replica."""
        return self._quorum.local

    @property
    def role(self) -> Role:
        """The role of this replica."""
        return self._quorum.role

    @property
    def epoch(self) -> int:
        """The newest epoch this node knows."""
        return self._quorum.epoch

    @property
    def leader_id(self) -> int:
        """The leader of the epoch; -1 if not known."""
        return self._quorum.leader_id

    @property
    def is_leader(self) -> bool:
        """Whether this node leads the epoch."""
        return isinstance(self._quorum.role, Leader)

    @property
    def is_only_voter(self) -> bool:
        """Whether this replica is the only voter at present."""
        return self._quorum.log.voters.is_only(self._quorum.local)

    def upgrade_problem(self) -> str | None:
        """Why kraft.version cannot be raised to 1 now; None if it can."""
        return self._reconfiguration.upgrade_problem()

    @property
    def is_stopping(self) -> bool:
        """Whether this node has processed the event `Resign`."""
        return self._quorum.is_stopping

    @property
    def high_watermark(self) -> int:
        """All records below this offset are known to be committed; -1 while none is."""
        return self._quorum.high_watermark

    def start(self, now_ms: int) -> Sequence[Effect]:
        """Start to take part in the quorum. The node has read its disk."""
        self._quorum.start(now_ms)
        return self.poll(now_ms)

    def step(self, now_ms: int, event: Event) -> Sequence[Effect]:
        """Process an event. The owner performs the effects and then calls `poll`."""
        match event:
            case ElectionPersisted():
                self._quorum.outbox.persisted(event.election)
                if event.election == self._quorum.role.election():
                    self._voting.on_own_vote_durable()
            case RequestReceived():
                self._request(now_ms, event)
            case ResponseReceived():
                self._response(now_ms, event)
            case SnapshotWritten():
                self._fetching.on_snapshot_written(event)
            case AppendRefused():
                self._fetching.on_append_refused(now_ms, event)
            case UpgradeVersion():
                self._reconfiguration.upgrade()
            case Resign():
                self._quorum.stop()
                if self.is_leader:
                    self._quorum.resign(now_ms)
            case _:
                assert_never(event)
        return self._quorum.outbox.take()

    def poll(self, now_ms: int) -> Sequence[Effect]:
        """Do what is due: elections, requests, responses to fetches, the high watermark."""
        for flight in self._quorum.connections.expire(now_ms):
            # A role that still needs the response sends the request again.
            if isinstance(flight.request, VersionsRequest):
                self._reconfiguration.on_versions(now_ms, flight.destination, None)
        self._voting.poll(now_ms)
        self._serving.poll(now_ms)
        self._reconfiguration.poll(now_ms)
        self._membership.poll(now_ms)
        self._fetching.poll(now_ms)
        return self._quorum.outbox.take()

    def next_deadline_ms(self, now_ms: int) -> int | None:
        """Return when `poll` must be called, if no event arrives earlier.

        A deadline that has passed is not returned: its work waits for an event or for the log.
        """
        parts = (
            self._voting,
            self._serving,
            self._reconfiguration,
            self._membership,
            self._fetching,
        )
        times = [self._quorum.connections.next_deadline_ms(now_ms)]
        times += [each.next_deadline_ms() for each in parts]
        return min((time for time in times if time is not None and time > now_ms), default=None)

    def _request(self, now_ms: int, event: RequestReceived) -> None:
        match event.request:
            case VoteRequest():
                self._voting.on_vote(now_ms, event)
            case BeginQuorumEpochRequest():
                self._voting.on_begin_epoch(now_ms, event)
            case EndQuorumEpochRequest():
                self._voting.on_end_epoch(now_ms, event)
            case FetchRequest():
                self._serving.on_fetch(now_ms, event)
            case FetchSnapshotRequest():
                self._serving.on_fetch_snapshot(now_ms, event)
            case _:
                self._reconfiguration.on_request(now_ms, event)

    def _response(self, now_ms: int, event: ResponseReceived) -> None:
        quorum = self._quorum
        flight = quorum.connections.answered(event.request_id)
        if flight is None:
            return
        response, request = event.response, flight.request
        role = quorum.role
        is_useful = False
        if isinstance(request, VersionsRequest):
            assert response is None or isinstance(response, VersionsResponse)
            self._reconfiguration.on_versions(now_ms, flight.destination, response)
            is_useful = response is not None
        elif isinstance(request, AddVoterRequest | RemoveVoterRequest):
            is_useful = response is not None  # the response has no epoch
        elif response is not None and quorum.learn(now_ms, response):
            is_useful = not response.error
            if isinstance(request, VoteRequest):
                self._voting.on_vote_response(now_ms, flight.destination, request, response)
            elif isinstance(request, EndQuorumEpochRequest):
                self._voting.on_end_epoch_response(flight.destination)
            elif isinstance(request, UpdateVoterRequest) and is_useful:
                self._membership.on_updated()
            elif isinstance(response, FetchResponse):
                is_useful = self._fetching.on_fetch_response(now_ms, response)
            elif isinstance(response, FetchSnapshotResponse):
                is_useful = self._fetching.on_snapshot_response(now_ms, response)
        if not is_useful and quorum.role is role:
            quorum.connections.failed(flight.destination, now_ms)
