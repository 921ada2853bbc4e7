"""Processes AssignReplicasToDirs: a broker reports the log directories of its replicas (KIP-858).

A broker that has several log directories chooses the directory of a new replica itself, and then
reports it. So the controller knows which replicas are lost when a directory fails. If the directory
has already failed, the replica leaves the ISR, and another replica becomes the leader.
"""

from __future__ import annotations

from odradek.core.controller.partition_change import Election, PartitionChange, without
from odradek.core.controller.state import ControllerState, Decision, has_online_directory
from odradek.core.metadata.image import TopicImage
from odradek.core.metadata.registrations import BrokerRegistration
from odradek.core.metadata.versions import LEVEL_DIRECTORIES, METADATA_VERSION
from odradek.model.errors import ApiError, ErrorCode
from odradek.wire.generated.assign_replicas_to_dirs_request import AssignReplicasToDirsRequest
from odradek.wire.generated.assign_replicas_to_dirs_response import (
    AssignReplicasToDirsResponse,
    DirectoryData,
    PartitionData,
    TopicData,
)
from odradek.wire.primitives import Message


def assign_replicas_to_directories(
    state: ControllerState, request: AssignReplicasToDirsRequest, version: int
) -> Decision[AssignReplicasToDirsResponse]:
    """Record the log directory of each replica in the request, or return an error for it.

    Raises:
        ApiError: STALE_BROKER_EPOCH; UNSUPPORTED_VERSION: the finalized metadata.version has no
            directories.
    """
    if state.level < LEVEL_DIRECTORIES:
        raise ApiError(
            ErrorCode.UNSUPPORTED_VERSION,
            f"replicas have directories from {METADATA_VERSION} {LEVEL_DIRECTORIES} on",
        )
    broker = state.check_broker_epoch(request.broker_id, request.broker_epoch)
    records: list[Message] = []
    directories: list[DirectoryData] = []
    for directory in request.directories:
        topics: list[TopicData] = []
        for topic in directory.topics:
            image = state.image.topics.by_id.get(topic.topic_id)
            outcomes: list[PartitionData] = []
            for each in topic.partitions:
                error = _assign(state, broker, directory.id, image, each.partition_index, records)
                outcomes.append(
                    PartitionData(partition_index=each.partition_index, error_code=error)
                )
            topics.append(TopicData(topic_id=topic.topic_id, partitions=outcomes))
        directories.append(DirectoryData(id=directory.id, topics=topics))
    response = AssignReplicasToDirsResponse(directories=directories)
    return Decision(records, response, is_atomic=False)


def _assign(
    state: ControllerState,
    broker: BrokerRegistration,
    directory: bytes,
    topic: TopicImage | None,
    index: int,
    records: list[Message],
) -> ErrorCode:
    """Append the record for a replica to `records`, if its directory changes."""
    if topic is None:
        return ErrorCode.UNKNOWN_TOPIC_ID
    partition = topic.partitions.get(index)
    if partition is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if broker.id not in partition.replicas:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    assigned = {broker.id: directory}
    if has_online_directory(broker, directory):
        change = PartitionChange(
            state, topic.name, topic.id, index, partition, directories=assigned
        )
    else:
        may_be_unclean = state.unclean_election_enabled(topic.name)
        change = PartitionChange(
            state,
            topic.name,
            topic.id,
            index,
            partition,
            may_lead=lambda replica: replica != broker.id and state.is_active(replica),
            election=Election.UNCLEAN if may_be_unclean else Election.ONLINE,
            isr=without(partition.isr, broker.id),
            directories=assigned,
        )
    record = change.record()
    if record is not None:
        records.append(record)
    return ErrorCode.NONE
