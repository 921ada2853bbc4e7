"""Processes AlterPartitionReassignments and ListPartitionReassignments (KIP-455, KIP-860)."""

from __future__ import annotations

from collections.abc import Iterable

from odradek.core.controller import reassignment
from odradek.core.controller.partition_change import Election, PartitionChange
from odradek.core.controller.state import ControllerState, Decision, check_record_count
from odradek.core.controller.topics import check_assignment
from odradek.core.metadata.image import TopicImage
from odradek.core.metadata.registrations import PartitionRegistration
from odradek.model.errors import ApiError, ErrorCode
from odradek.wire.generated.alter_partition_reassignments_request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
)
from odradek.wire.generated.alter_partition_reassignments_response import (
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from odradek.wire.generated.list_partition_reassignments_request import (
    ListPartitionReassignmentsRequest,
)
from odradek.wire.generated.list_partition_reassignments_response import (
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)
from odradek.wire.primitives import Message


def alter_partition_reassignments(
    state: ControllerState, request: AlterPartitionReassignmentsRequest, version: int
) -> Decision[AlterPartitionReassignmentsResponse]:
    """Begin reassignments. For a partition with null replicas, cancel its reassignment."""
    records: list[Message] = []
    responses: list[ReassignableTopicResponse] = []
    for topic in request.topics:
        outcomes: list[ReassignablePartitionResponse] = []
        for each in topic.partitions:
            error: ApiError | None = None
            try:
                record = _alter(state, topic.name, each, request.allow_replication_factor_change)
                if record is not None:
                    records.append(record)
            except ApiError as problem:
                error = problem
            outcomes.append(
                ReassignablePartitionResponse(
                    partition_index=each.partition_index,
                    error_code=ErrorCode.NONE if error is None else error.code,
                    error_message=None if error is None else error.details,
                )
            )
        responses.append(ReassignableTopicResponse(name=topic.name, partitions=outcomes))
    check_record_count(len(records))
    response = AlterPartitionReassignmentsResponse(
        error_message=None,
        allow_replication_factor_change=request.allow_replication_factor_change,
        responses=responses,
    )
    return Decision(records, response)


def _alter(
    state: ControllerState, name: str, request: ReassignablePartition, may_change_factor: bool
) -> Message | None:
    topic = state.image.topics.by_name.get(name)
    partition = None if topic is None else topic.partitions.get(request.partition_index)
    if topic is None or partition is None:
        what = f"a topic named {name}"
        if topic is not None:
            what = f"partition {name}:{request.partition_index}"
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find {what}.")
    index = request.partition_index
    if request.replicas is None:
        return _cancel(state, topic, index, partition)
    check_assignment(state, request.replicas, None)
    if not may_change_factor:
        _check_factor(partition, len(request.replicas))
    plan = reassignment.plan(partition.replicas, request.replicas, partition.adding_replicas)
    return PartitionChange(
        state,
        name,
        topic.id,
        index,
        partition,
        replicas=plan.replicas,
        removing=plan.removing,
        adding=plan.adding,
    ).record()


def _cancel(
    state: ControllerState, topic: TopicImage, index: int, partition: PartitionRegistration
) -> Message | None:
    if not partition.is_reassigning:
        raise ApiError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
    reversal = reassignment.reverse(partition.replicas, partition.isr, partition.adding_replicas)
    may_be_unclean = state.unclean_election_enabled(topic.name)
    if reversal.is_unclean and not may_be_unclean:
        raise ApiError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"no old replica of {topic.name}-{index} is in the ISR, so the reassignment cannot be "
            "cancelled without an unclean election",
        )
    return PartitionChange(
        state,
        topic.name,
        topic.id,
        index,
        partition,
        election=Election.UNCLEAN if may_be_unclean else Election.ONLINE,
        isr=reversal.isr,
        replicas=reversal.replicas,
        removing=(),
        adding=(),
    ).record()


def _check_factor(partition: PartitionRegistration, wanted: int) -> None:
    settled = {*partition.replicas, *partition.adding_replicas}
    settled -= set(partition.removing_replicas)
    present = len(settled) if partition.is_reassigning else len(partition.replicas)
    if present != wanted:
        raise ApiError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"The replication factor is changed from {present} to {wanted}",
        )


def list_partition_reassignments(
    state: ControllerState, request: ListPartitionReassignmentsRequest, version: int
) -> Decision[ListPartitionReassignmentsResponse]:
    """List the reassignments in progress of the requested partitions, or of all partitions."""
    topics = state.image.topics.by_name
    found: list[OngoingTopicReassignment] = []
    if request.topics is None:
        found = [_ongoing(topic, topic.partitions) for topic in topics.values()]
    else:
        for each in request.topics:
            if each.name in topics:
                found.append(_ongoing(topics[each.name], each.partition_indexes))
    response = ListPartitionReassignmentsResponse(
        error_message=None, topics=[each for each in found if each.partitions]
    )
    return Decision([], response)


def _ongoing(topic: TopicImage, indexes: Iterable[int]) -> OngoingTopicReassignment:
    ongoing: list[OngoingPartitionReassignment] = []
    for index in indexes:
        partition = topic.partitions.get(index)
        if partition is not None and partition.is_reassigning:
            ongoing.append(
                OngoingPartitionReassignment(
                    partition_index=index,
                    replicas=list(partition.replicas),
                    adding_replicas=list(partition.adding_replicas),
                    removing_replicas=list(partition.removing_replicas),
                )
            )
    return OngoingTopicReassignment(name=topic.name, partitions=ongoing)
