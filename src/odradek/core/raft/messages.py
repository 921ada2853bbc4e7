"""The requests and responses of the quorum, without their encoding.

The names are those of Apache Kafka's APIs. Every response contains the leader and the epoch that
the sender knows, and the leader's address if the sender knows it. So replicas find the leader.

A request of the leader or of a candidate has the key of the replica to which it is sent. A node
that has a new disk is another replica: it does not know the votes of the old replica.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from odradek.core.raft.election import NO_LEADER
from odradek.core.raft.log_view import OffsetAndEpoch
from odradek.core.raft.voters import Destination, ReplicaKey, Voter, VoterEndpoint
from odradek.model.errors import ErrorCode

UNKNOWN_HIGH_WATERMARK = 2**63 - 1
"""The high watermark in a fetch of a version that does not have it."""


@dataclass(frozen=True, slots=True)
class VoteRequest:
    """Vote (52). In a pre-vote (KIP-996) `epoch` is the candidate's epoch, else the epoch that
    the candidate wants to lead."""

    epoch: int
    candidate: ReplicaKey
    voter: ReplicaKey | None
    last: OffsetAndEpoch
    """The end of the candidate's log."""
    is_pre_vote: bool = False


@dataclass(frozen=True, slots=True)
class BeginQuorumEpochRequest:
    """BeginQuorumEpoch (53): the leader of an epoch announces itself."""

    epoch: int
    leader_id: int
    voter: ReplicaKey | None
    endpoints: tuple[VoterEndpoint, ...] = ()


@dataclass(frozen=True, slots=True)
class EndQuorumEpochRequest:
    """EndQuorumEpoch (54): the leader resigns. The first of `successors` stands first."""

    epoch: int
    leader_id: int
    successors: tuple[ReplicaKey, ...]
    endpoints: tuple[VoterEndpoint, ...] = ()


@dataclass(frozen=True, slots=True)
class FetchRequest:
    """Fetch (1) of the metadata log. It acknowledges that the log up to `offset` is flushed."""

    epoch: int
    replica: ReplicaKey
    offset: int
    last_fetched_epoch: int
    max_wait_ms: int
    high_watermark: int = UNKNOWN_HIGH_WATERMARK
    """The replica's high watermark (KIP-1166). If it is too low, the leader responds at once."""


@dataclass(frozen=True, slots=True)
class FetchSnapshotRequest:
    """FetchSnapshot (59): a part of a snapshot, from `position` on."""

    epoch: int
    replica: ReplicaKey
    snapshot: OffsetAndEpoch
    position: int


@dataclass(frozen=True, slots=True)
class AddVoterRequest:
    """AddRaftVoter (80): an observer becomes a voter."""

    voter: Voter
    ack_when_committed: bool = True
    timeout_ms: int = 30_000


@dataclass(frozen=True, slots=True)
class RemoveVoterRequest:
    """RemoveRaftVoter (81)."""

    voter: ReplicaKey


@dataclass(frozen=True, slots=True)
class UpdateVoterRequest:
    """UpdateRaftVoter (82): a voter has other endpoints, or other software."""

    epoch: int
    voter: Voter


@dataclass(frozen=True, slots=True)
class VersionsRequest:
    """ApiVersions (18): the leader asks which levels of kraft.version a new voter supports."""


Request = (
    VoteRequest
    | BeginQuorumEpochRequest
    | EndQuorumEpochRequest
    | FetchRequest
    | FetchSnapshotRequest
    | AddVoterRequest
    | RemoveVoterRequest
    | UpdateVoterRequest
    | VersionsRequest
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """The fields of every response."""

    error: ErrorCode = ErrorCode.NONE
    epoch: int
    leader_id: int = NO_LEADER
    leader: Destination | None = None
    """The address of the leader, if it is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VoteResponse(Response):
    """The response to Vote."""

    is_granted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochResponse(Response):
    """The response to BeginQuorumEpoch and EndQuorumEpoch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchResponse(Response):
    """The response to Fetch: records, or the reason why the replica must change its log first."""

    high_watermark: int = -1
    log_start_offset: int = -1
    diverging: OffsetAndEpoch | None = None
    snapshot: OffsetAndEpoch | None = None
    """The snapshot that the replica must fetch first."""
    read_offset: int = -1
    """In the leader's effect: the response has the records from this offset on; -1: none."""
    records: Any = b""
    """In a received response: the batches."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchSnapshotResponse(Response):
    """The response to FetchSnapshot. The owner of the leader's machine sets `data` and `size`."""

    snapshot: OffsetAndEpoch
    position: int = 0
    size: int = 0
    data: Any = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class VoterChangeResponse(Response):
    """The response to AddRaftVoter, RemoveRaftVoter and UpdateRaftVoter.

    In the protocol only the response to UpdateRaftVoter has the epoch and the leader.
    """

    message: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionsResponse(Response):
    """The response to ApiVersions. It has no epoch and no leader."""

    epoch: int = -1
    kraft_version_min: int = 0
    kraft_version_max: int = 0
