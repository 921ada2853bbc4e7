"""Processes ElectLeaders, which elects leaders on request (KIP-460)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from odradek.core.controller.partition_change import Election, PartitionChange
from odradek.core.controller.state import ControllerState, Decision, check_record_count
from odradek.core.metadata.registrations import NO_LEADER
from odradek.model.errors import ApiError, ErrorCode
from odradek.wire.generated.elect_leaders_request import ElectLeadersRequest
from odradek.wire.generated.elect_leaders_response import (
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from odradek.wire.primitives import Message

PREFERRED = 0
UNCLEAN = 1
_NOT_AVAILABLE = {
    PREFERRED: ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
    UNCLEAN: ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
}


def elect_leaders(
    state: ControllerState, request: ElectLeadersRequest, version: int
) -> Decision[ElectLeadersResponse]:
    """Elect a leader for each partition in the request.

    If the request has no list of partitions, elect a leader for all partitions. The election type
    is PREFERRED or UNCLEAN.
    """
    records: list[Message] = []
    results: list[ReplicaElectionResult] = []
    for topic, indexes in _wanted(state, request):
        outcomes: list[PartitionResult] = []
        for index in indexes:
            try:
                records.append(_elect(state, topic, index, request.election_type))
                outcomes.append(PartitionResult(partition_id=index, error_message=None))
            except ApiError as error:
                # If the request is for all partitions, the response omits the partitions that
                # need no election.
                if request.topic_partitions is None and error.code is ErrorCode.ELECTION_NOT_NEEDED:
                    continue
                outcomes.append(
                    PartitionResult(
                        partition_id=index, error_code=error.code, error_message=error.message
                    )
                )
        results.append(ReplicaElectionResult(topic=topic, partition_result=outcomes))
    check_record_count(len(records))
    response = ElectLeadersResponse(replica_election_results=results)
    return Decision(records, response, is_atomic=False)


def _wanted(
    state: ControllerState, request: ElectLeadersRequest
) -> Iterator[tuple[str, Iterable[int]]]:
    if request.topic_partitions is None:
        for topic in state.image.topics.by_name.values():
            yield topic.name, topic.partitions
    else:
        for each in request.topic_partitions:
            yield each.topic, each.partitions


def _elect(state: ControllerState, name: str, index: int, election_type: int) -> Message:
    if election_type not in (PREFERRED, UNCLEAN):
        raise ApiError(ErrorCode.INVALID_REQUEST, f"Unknown election type {election_type}")
    topic = state.image.topics.by_name.get(name)
    partition = None if topic is None else topic.partitions.get(index)
    if topic is None or partition is None:
        what = f"topic as {name}" if topic is None else f"partition as {name}-{index}"
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such {what}")
    is_preferred = election_type == PREFERRED
    not_available = _NOT_AVAILABLE[election_type]
    leader = state.image.cluster.brokers.get(partition.leader)
    if partition.leader != NO_LEADER and (leader is None or leader.fenced):
        raise ApiError(not_available)  # the leader keeps the partition, which has no other replica
    if is_preferred:
        is_settled = partition.leader == partition.preferred_leader
    else:
        is_settled = partition.leader != NO_LEADER
    if is_settled:
        raise ApiError(ErrorCode.ELECTION_NOT_NEEDED)
    election = Election.PREFERRED if is_preferred else Election.UNCLEAN
    record = PartitionChange(state, name, topic.id, index, partition, election=election).record()
    if record is None:
        raise ApiError(not_available)
    return record
