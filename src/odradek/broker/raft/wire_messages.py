"""The requests and responses of the quorum in Kafka's protocol.

The messages of the protocol can contain several partitions. The messages of the quorum always
contain one, `__cluster_metadata-0`. `from_request` and `to_response` are used for requests of other
nodes, `to_request` and `from_response` for requests to other nodes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from odradek import __version__
from odradek.broker.peers.versions import SOFTWARE_NAME
from odradek.broker.raft.metadata_log import METADATA_PARTITION
from odradek.core.metadata.versions import KRAFT_VERSION
from odradek.core.raft import messages as raft
from odradek.core.raft.election import NO_LEADER
from odradek.core.raft.log_view import OffsetAndEpoch
from odradek.core.raft.voters import Destination, ReplicaKey, Voter, VoterEndpoint
from odradek.model.errors import ApiError, ErrorCode
from odradek.model.uuids import METADATA_TOPIC_ID
from odradek.wire.generated import add_raft_voter_request as add_request
from odradek.wire.generated import add_raft_voter_response as add_response
from odradek.wire.generated import api_versions_request as versions_request
from odradek.wire.generated import begin_quorum_epoch_request as begin_request
from odradek.wire.generated import begin_quorum_epoch_response as begin_response
from odradek.wire.generated import end_quorum_epoch_request as end_request
from odradek.wire.generated import end_quorum_epoch_response as end_response
from odradek.wire.generated import fetch_request, fetch_response, vote_request, vote_response
from odradek.wire.generated import fetch_snapshot_request as snapshot_request
from odradek.wire.generated import fetch_snapshot_response as snapshot_response
from odradek.wire.generated import remove_raft_voter_request as remove_request
from odradek.wire.generated import remove_raft_voter_response as remove_response
from odradek.wire.generated import update_raft_voter_request as update_request
from odradek.wire.generated import update_raft_voter_response as update_response
from odradek.wire.primitives import Message

TOPIC = METADATA_PARTITION.topic
UNKNOWN_EPOCH = -1
"""The epoch of a response whose message has none."""
PART_SIZE_MAX = 1 << 20
"""Maximum number of bytes of records or of a snapshot in one response. A larger first batch is sent
complete."""


class UnknownPartition(ApiError):
    """A request of the quorum that is not for the metadata log."""

    def __init__(self) -> None:
        super().__init__(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


# -- requests that are sent -------------------------------------------------------------------------


def to_request(request: raft.Request, cluster_id: str) -> Message:
    """Return the message of a request."""
    return _TO_REQUEST[type(request)](request, cluster_id)


def _vote(request: raft.VoteRequest, cluster_id: str) -> Message:
    partition = vote_request.PartitionData(
        replica_epoch=request.epoch,
        replica_id=request.candidate.id,
        replica_directory_id=request.candidate.directory_id,
        voter_directory_id=request.voter.directory_id if request.voter else bytes(16),
        last_offset_epoch=request.last.epoch,
        last_offset=request.last.offset,
        pre_vote=request.is_pre_vote,
    )
    topic = vote_request.TopicData(topic_name=TOPIC, partitions=[partition])
    voter_id = request.voter.id if request.voter else -1
    return vote_request.VoteRequest(cluster_id=cluster_id, voter_id=voter_id, topics=[topic])


def _begin(request: raft.BeginQuorumEpochRequest, cluster_id: str) -> Message:
    partition = begin_request.PartitionData(
        voter_directory_id=request.voter.directory_id if request.voter else bytes(16),
        leader_id=request.leader_id,
        leader_epoch=request.epoch,
    )
    topic = begin_request.TopicData(topic_name=TOPIC, partitions=[partition])
    return begin_request.BeginQuorumEpochRequest(
        cluster_id=cluster_id,
        voter_id=request.voter.id if request.voter else -1,
        topics=[topic],
        leader_endpoints=[
            begin_request.LeaderEndpoint(**each._asdict()) for each in request.endpoints
        ],
    )


def _end(request: raft.EndQuorumEpochRequest, cluster_id: str) -> Message:
    partition = end_request.PartitionData(
        leader_id=request.leader_id,
        leader_epoch=request.epoch,
        preferred_successors=[each.id for each in request.successors],
        preferred_candidates=[
            end_request.ReplicaInfo(candidate_id=each.id, candidate_directory_id=each.directory_id)
            for each in request.successors
        ],
    )
    topic = end_request.TopicData(topic_name=TOPIC, partitions=[partition])
    return end_request.EndQuorumEpochRequest(
        cluster_id=cluster_id,
        topics=[topic],
        leader_endpoints=[
            end_request.LeaderEndpoint(**each._asdict()) for each in request.endpoints
        ],
    )


def _fetch(request: raft.FetchRequest, cluster_id: str) -> Message:
    partition = fetch_request.FetchPartition(
        current_leader_epoch=request.epoch,
        fetch_offset=request.offset,
        last_fetched_epoch=request.last_fetched_epoch,
        partition_max_bytes=PART_SIZE_MAX,
        replica_directory_id=request.replica.directory_id,
        high_watermark=request.high_watermark,
    )
    topic = fetch_request.FetchTopic(topic_id=METADATA_TOPIC_ID, partitions=[partition])
    return fetch_request.FetchRequest(
        cluster_id=cluster_id,
        replica_state=fetch_request.ReplicaState(replica_id=request.replica.id),
        max_wait_ms=request.max_wait_ms,
        min_bytes=0,
        max_bytes=PART_SIZE_MAX,
        topics=[topic],
    )


def _fetch_snapshot(request: raft.FetchSnapshotRequest, cluster_id: str) -> Message:
    partition = snapshot_request.PartitionSnapshot(
        current_leader_epoch=request.epoch,
        snapshot_id=snapshot_request.SnapshotId(
            end_offset=request.snapshot.offset, epoch=request.snapshot.epoch
        ),
        position=request.position,
        replica_directory_id=request.replica.directory_id,
    )
    return snapshot_request.FetchSnapshotRequest(
        cluster_id=cluster_id,
        replica_id=request.replica.id,
        max_bytes=PART_SIZE_MAX,
        topics=[snapshot_request.TopicSnapshot(name=TOPIC, partitions=[partition])],
    )


def _update(request: raft.UpdateVoterRequest, cluster_id: str) -> Message:
    voter = request.voter
    return update_request.UpdateRaftVoterRequest(
        cluster_id=cluster_id,
        current_leader_epoch=request.epoch,
        voter_id=voter.key.id,
        voter_directory_id=voter.key.directory_id,
        listeners=[update_request.Listener(**each._asdict()) for each in voter.endpoints],
        kraft_version_feature=update_request.KRaftVersionFeature(
            min_supported_version=voter.kraft_version_min,
            max_supported_version=voter.kraft_version_max,
        ),
    )


def _add(request: raft.AddVoterRequest, cluster_id: str) -> Message:
    voter = request.voter
    return add_request.AddRaftVoterRequest(
        cluster_id=cluster_id,
        timeout_ms=request.timeout_ms,
        voter_id=voter.key.id,
        voter_directory_id=voter.key.directory_id,
        listeners=[add_request.Listener(**each._asdict()) for each in voter.endpoints],
        ack_when_committed=request.ack_when_committed,
    )


def _remove(request: raft.RemoveVoterRequest, cluster_id: str) -> Message:
    return remove_request.RemoveRaftVoterRequest(
        cluster_id=cluster_id,
        voter_id=request.voter.id,
        voter_directory_id=request.voter.directory_id,
    )


def _versions(_request: raft.VersionsRequest, _cluster_id: str) -> Message:
    return versions_request.ApiVersionsRequest(
        client_software_name=SOFTWARE_NAME, client_software_version=__version__
    )


_TO_REQUEST: dict[type, Callable[[Any, str], Message]] = {
    raft.VoteRequest: _vote,
    raft.BeginQuorumEpochRequest: _begin,
    raft.EndQuorumEpochRequest: _end,
    raft.FetchRequest: _fetch,
    raft.FetchSnapshotRequest: _fetch_snapshot,
    raft.UpdateVoterRequest: _update,
    raft.AddVoterRequest: _add,
    raft.RemoveVoterRequest: _remove,
    raft.VersionsRequest: _versions,
}


# -- responses that are received --------------------------------------------------------------------


def from_response(request: raft.Request, message: Any) -> raft.Response | None:
    """Return the response of a message; None if the metadata log is not in the message."""
    if type(request) in _WITHOUT_PARTITIONS:
        return _WITHOUT_PARTITIONS[type(request)](message)
    if isinstance(request, raft.FetchSnapshotRequest):
        topics = message.topics
    else:
        topics = message.responses if isinstance(request, raft.FetchRequest) else message.topics
    partitions = topics[0].partitions if topics else []
    if message.error_code or not partitions:
        return None
    part = partitions[0]
    error = ErrorCode(part.error_code)  # type: ignore[call-arg]
    leads = part.current_leader if hasattr(part, "current_leader") else part
    common = {
        "error": error,
        "epoch": leads.leader_epoch,
        "leader_id": leads.leader_id,
        "leader": _leader_address(leads.leader_id, message.node_endpoints),
    }
    if isinstance(request, raft.VoteRequest):
        return raft.VoteResponse(**common, is_granted=part.vote_granted)
    if isinstance(request, raft.FetchRequest):
        return raft.FetchResponse(
            **common,
            high_watermark=part.high_watermark,
            log_start_offset=part.log_start_offset,
            diverging=_end_of(part.diverging_epoch),
            snapshot=_end_of(part.snapshot_id),
            records=part.records or b"",
        )
    if isinstance(request, raft.FetchSnapshotRequest):
        return raft.FetchSnapshotResponse(
            **common,
            snapshot=OffsetAndEpoch(part.snapshot_id.end_offset, part.snapshot_id.epoch),
            position=part.position,
            size=part.size,
            data=part.unaligned_records or b"",
        )
    return raft.EpochResponse(**common)


def _from_update_answer(message: Any) -> raft.Response:
    leads = message.current_leader
    leader = Destination(leads.leader_id, leads.host, leads.port) if leads.host else None
    return raft.VoterChangeResponse(
        error=ErrorCode(message.error_code),  # type: ignore[call-arg]
        epoch=leads.leader_epoch,
        leader_id=leads.leader_id,
        leader=leader,
    )


def _from_change_answer(message: Any) -> raft.Response:
    return raft.VoterChangeResponse(
        error=ErrorCode(message.error_code),  # type: ignore[call-arg]
        epoch=UNKNOWN_EPOCH,
        message=message.error_message,
    )


def _from_versions_answer(message: Any) -> raft.Response:
    found = [each for each in message.supported_features if each.name == KRAFT_VERSION]
    return raft.VersionsResponse(
        error=ErrorCode(message.error_code),  # type: ignore[call-arg]
        kraft_version_min=found[0].min_version if found else 0,
        kraft_version_max=found[0].max_version if found else 0,
    )


_WITHOUT_PARTITIONS: dict[type, Callable[[Any], raft.Response]] = {
    raft.UpdateVoterRequest: _from_update_answer,
    raft.AddVoterRequest: _from_change_answer,
    raft.RemoveVoterRequest: _from_change_answer,
    raft.VersionsRequest: _from_versions_answer,
}


def _end_of(end: Any) -> OffsetAndEpoch | None:
    return OffsetAndEpoch(end.end_offset, end.epoch) if end.end_offset >= 0 else None


def _leader_address(leader_id: int, endpoints: Any) -> Destination | None:
    for each in endpoints:
        if each.node_id == leader_id:
            return Destination(leader_id, each.host, each.port)
    return None


# -- requests that are received ---------------------------------------------------------------------


def from_request(message: Any) -> raft.Request:
    """Return the request of a message.

    Raises:
        UnknownPartition: the request is not for the metadata log.
    """
    return _FROM_REQUEST[type(message)](message)


def _only(topics: Any) -> Any:
    """The partition of the metadata log, which must be the only one."""
    if len(topics) != 1 or len(topics[0].partitions) != 1:
        raise UnknownPartition
    return topics[0].partitions[0]


def _only_named(topics: Any) -> Any:
    part = _only(topics)
    index = part.partition if hasattr(part, "partition") else part.partition_index
    name = topics[0].name if hasattr(topics[0], "name") else topics[0].topic_name
    if (name, index) != METADATA_PARTITION:
        raise UnknownPartition
    return part


def _voter(voter_id: int, directory_id: bytes) -> ReplicaKey | None:
    """The replica to which a request is sent; None if the version does not have this field."""
    return None if voter_id < 0 else ReplicaKey(voter_id, bytes(directory_id))


def _from_vote(message: vote_request.VoteRequest) -> raft.Request:
    part = _only_named(message.topics)
    return raft.VoteRequest(
        part.replica_epoch,
        ReplicaKey(part.replica_id, bytes(part.replica_directory_id)),
        _voter(message.voter_id, part.voter_directory_id),
        OffsetAndEpoch(part.last_offset, part.last_offset_epoch),
        is_pre_vote=part.pre_vote,
    )


def _endpoints(listeners: Any) -> tuple[VoterEndpoint, ...]:
    return tuple(VoterEndpoint(each.name, each.host, each.port) for each in listeners)


def _from_begin(message: begin_request.BeginQuorumEpochRequest) -> raft.Request:
    part = _only_named(message.topics)
    return raft.BeginQuorumEpochRequest(
        part.leader_epoch,
        part.leader_id,
        _voter(message.voter_id, part.voter_directory_id),
        _endpoints(message.leader_endpoints),
    )


def _from_end(message: end_request.EndQuorumEpochRequest) -> raft.Request:
    part = _only_named(message.topics)
    successors = tuple(
        ReplicaKey(each.candidate_id, bytes(each.candidate_directory_id))
        for each in part.preferred_candidates
    ) or tuple(ReplicaKey(each, bytes(16)) for each in part.preferred_successors)
    return raft.EndQuorumEpochRequest(
        part.leader_epoch, part.leader_id, successors, _endpoints(message.leader_endpoints)
    )


def _from_fetch(message: fetch_request.FetchRequest) -> raft.Request:
    part = _only(message.topics)
    topic = message.topics[0]
    is_metadata = topic.topic == TOPIC or bytes(topic.topic_id) == METADATA_TOPIC_ID
    if not is_metadata or part.partition != METADATA_PARTITION.partition:
        raise UnknownPartition
    replica_id = max(message.replica_id, message.replica_state.replica_id)
    return raft.FetchRequest(
        part.current_leader_epoch,
        ReplicaKey(replica_id, bytes(part.replica_directory_id)),
        part.fetch_offset,
        part.last_fetched_epoch,
        max(0, message.max_wait_ms),
        part.high_watermark,
    )


def _from_fetch_snapshot(message: snapshot_request.FetchSnapshotRequest) -> raft.Request:
    part = _only_named(message.topics)
    return raft.FetchSnapshotRequest(
        part.current_leader_epoch,
        ReplicaKey(message.replica_id, bytes(part.replica_directory_id)),
        OffsetAndEpoch(part.snapshot_id.end_offset, part.snapshot_id.epoch),
        part.position,
    )


def _from_add(message: add_request.AddRaftVoterRequest) -> raft.Request:
    key = ReplicaKey(message.voter_id, bytes(message.voter_directory_id))
    return raft.AddVoterRequest(
        Voter(key, _endpoints(message.listeners)), message.ack_when_committed, message.timeout_ms
    )


def _from_remove(message: remove_request.RemoveRaftVoterRequest) -> raft.Request:
    return raft.RemoveVoterRequest(ReplicaKey(message.voter_id, bytes(message.voter_directory_id)))


def _from_update(message: update_request.UpdateRaftVoterRequest) -> raft.Request:
    key = ReplicaKey(message.voter_id, bytes(message.voter_directory_id))
    versions = message.kraft_version_feature
    voter = Voter(
        key,
        _endpoints(message.listeners),
        versions.min_supported_version,
        versions.max_supported_version,
    )
    return raft.UpdateVoterRequest(message.current_leader_epoch, voter)


_FROM_REQUEST: dict[type, Callable[[Any], raft.Request]] = {
    vote_request.VoteRequest: _from_vote,
    begin_request.BeginQuorumEpochRequest: _from_begin,
    end_request.EndQuorumEpochRequest: _from_end,
    fetch_request.FetchRequest: _from_fetch,
    snapshot_request.FetchSnapshotRequest: _from_fetch_snapshot,
    add_request.AddRaftVoterRequest: _from_add,
    remove_request.RemoveRaftVoterRequest: _from_remove,
    update_request.UpdateRaftVoterRequest: _from_update,
}


# -- responses that are sent ------------------------------------------------------------------------


def to_response(request: Any, response: raft.Response) -> Message:
    """Return the message of the response to a message."""
    return _TO_RESPONSE[type(request)](request, response)


def _node(module: Any, response: raft.Response) -> Any:
    """The list with the address of the leader, if it is known."""
    leader = response.leader
    if leader is None or response.leader_id == NO_LEADER:
        return []
    return [module.NodeEndpoint(node_id=leader.node_id, host=leader.host, port=leader.port)]


def _vote_answer(_request: Any, response: raft.VoteResponse) -> Message:
    part = vote_response.PartitionData(
        error_code=response.error,
        leader_id=response.leader_id,
        leader_epoch=response.epoch,
        vote_granted=response.is_granted,
    )
    topic = vote_response.TopicData(topic_name=TOPIC, partitions=[part])
    return vote_response.VoteResponse(topics=[topic], node_endpoints=_node(vote_response, response))


def _begin_answer(_request: Any, response: raft.Response) -> Message:
    part = begin_response.PartitionData(
        error_code=response.error, leader_id=response.leader_id, leader_epoch=response.epoch
    )
    topic = begin_response.TopicData(topic_name=TOPIC, partitions=[part])
    return begin_response.BeginQuorumEpochResponse(
        topics=[topic], node_endpoints=_node(begin_response, response)
    )


def _end_answer(_request: Any, response: raft.Response) -> Message:
    part = end_response.PartitionData(
        error_code=response.error, leader_id=response.leader_id, leader_epoch=response.epoch
    )
    topic = end_response.TopicData(topic_name=TOPIC, partitions=[part])
    return end_response.EndQuorumEpochResponse(
        topics=[topic], node_endpoints=_node(end_response, response)
    )


def _fetch_answer(request: Any, response: raft.FetchResponse) -> Message:
    part = fetch_response.PartitionData(
        error_code=response.error,
        high_watermark=response.high_watermark,
        last_stable_offset=response.high_watermark,
        log_start_offset=response.log_start_offset,
        current_leader=fetch_response.LeaderIdAndEpoch(
            leader_id=response.leader_id, leader_epoch=response.epoch
        ),
        records=response.records,
    )
    if response.diverging is not None:
        part.diverging_epoch = fetch_response.EpochEndOffset(
            epoch=response.diverging.epoch, end_offset=response.diverging.offset
        )
    if response.snapshot is not None:
        part.snapshot_id = fetch_response.SnapshotId(
            epoch=response.snapshot.epoch, end_offset=response.snapshot.offset
        )
    topic = fetch_response.FetchableTopicResponse(
        topic=TOPIC, topic_id=METADATA_TOPIC_ID, partitions=[part]
    )
    return fetch_response.FetchResponse(
        responses=[topic], node_endpoints=_node(fetch_response, response)
    )


def _fetch_snapshot_answer(_request: Any, response: raft.FetchSnapshotResponse) -> Message:
    part = snapshot_response.PartitionSnapshot(
        error_code=response.error,
        snapshot_id=snapshot_response.SnapshotId(
            end_offset=response.snapshot.offset, epoch=response.snapshot.epoch
        ),
        current_leader=snapshot_response.LeaderIdAndEpoch(
            leader_id=response.leader_id, leader_epoch=response.epoch
        ),
        size=response.size,
        position=response.position,
        unaligned_records=response.data,
    )
    topic = snapshot_response.TopicSnapshot(name=TOPIC, partitions=[part])
    return snapshot_response.FetchSnapshotResponse(
        topics=[topic], node_endpoints=_node(snapshot_response, response)
    )


def _add_answer(_request: Any, response: raft.VoterChangeResponse) -> Message:
    return add_response.AddRaftVoterResponse(
        error_code=response.error, error_message=response.message
    )


def _remove_answer(_request: Any, response: raft.VoterChangeResponse) -> Message:
    return remove_response.RemoveRaftVoterResponse(
        error_code=response.error, error_message=response.message
    )


def _update_answer(_request: Any, response: raft.VoterChangeResponse) -> Message:
    leader = update_response.CurrentLeader(
        leader_id=response.leader_id, leader_epoch=response.epoch
    )
    if response.leader is not None:
        leader.host, leader.port = response.leader.host, response.leader.port
    return update_response.UpdateRaftVoterResponse(error_code=response.error, current_leader=leader)


_TO_RESPONSE: dict[type, Callable[[Any, Any], Message]] = {
    vote_request.VoteRequest: _vote_answer,
    begin_request.BeginQuorumEpochRequest: _begin_answer,
    end_request.EndQuorumEpochRequest: _end_answer,
    fetch_request.FetchRequest: _fetch_answer,
    snapshot_request.FetchSnapshotRequest: _fetch_snapshot_answer,
    add_request.AddRaftVoterRequest: _add_answer,
    remove_request.RemoveRaftVoterRequest: _remove_answer,
    update_request.UpdateRaftVoterRequest: _update_answer,
}
