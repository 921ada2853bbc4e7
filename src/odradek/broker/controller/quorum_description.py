"""Builds the response to DescribeQuorum (KIP-595, KIP-853).

The response contains the leader, the high watermark, and the log end offset of each voter.
"""

from __future__ import annotations

from odradek.broker.raft.client import RaftClient
from odradek.broker.raft.metadata_log import METADATA_PARTITION
from odradek.core.raft.leader import ReplicaProgress
from odradek.model.errors import ErrorCode
from odradek.model.uuids import ZERO
from odradek.wire.generated import describe_quorum_response as wire
from odradek.wire.generated.describe_quorum_request import DescribeQuorumRequest
from odradek.wire.generated.describe_quorum_response import DescribeQuorumResponse


def describe_quorum(
    quorum: RaftClient, request: DescribeQuorumRequest, version: int, now_ms: int
) -> DescribeQuorumResponse:
    """Return the state of the quorum. Partitions other than the metadata log's get an error."""
    topics = [
        wire.TopicData(
            topic_name=topic.topic_name,
            partitions=[
                _partition(quorum, topic.topic_name, each.partition_index, version, now_ms)
                for each in topic.partitions
            ],
        )
        for topic in request.topics
    ]
    is_told = any(not each.error_code for topic in topics for each in topic.partitions)
    nodes = _nodes(quorum) if version >= 2 and is_told else []
    return DescribeQuorumResponse(topics=topics, nodes=nodes)


def _partition(
    quorum: RaftClient, topic: str, index: int, version: int, now_ms: int
) -> wire.PartitionData:
    if (topic, index) != METADATA_PARTITION:
        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return wire.PartitionData(
            partition_index=index, error_code=code, error_message=code.message
        )
    machine = quorum.machine
    replicas = quorum.replicas()
    return wire.PartitionData(
        partition_index=index,
        leader_id=machine.leader_id,
        leader_epoch=machine.epoch,
        high_watermark=machine.high_watermark,
        current_voters=[_replica(each, version, now_ms) for each in replicas if each.is_voter],
        observers=[_replica(each, version, now_ms) for each in replicas if not each.is_voter],
    )


def _replica(replica: ReplicaProgress, version: int, now_ms: int) -> wire.ReplicaState:
    return wire.ReplicaState(
        replica_id=replica.key.id,
        replica_directory_id=replica.key.directory_id if version >= 2 else ZERO,
        log_end_offset=replica.end_offset,
        last_fetch_timestamp=_time(replica.last_fetch_age_ms, now_ms),
        last_caught_up_timestamp=_time(replica.last_caught_up_age_ms, now_ms),
    )


def _time(age_ms: int | None, now_ms: int) -> int:
    return -1 if age_ms is None else now_ms - age_ms


def _nodes(quorum: RaftClient) -> list[wire.Node]:
    return [
        wire.Node(
            node_id=voter.key.id,
            listeners=[
                wire.Listener(name=each.name, host=each.host, port=each.port)
                for each in voter.endpoints
            ],
        )
        for voter in quorum.settings.voters.voters.values()
    ]
