"""Adds partitions to topics (CreatePartitions)."""

from __future__ import annotations

from collections import Counter

from odradek.core.controller.placement import place
from odradek.core.controller.state import ControllerState, Decision, check_record_count
from odradek.core.controller.topics import check_assignment, new_partitions
from odradek.core.metadata.snapshot import partition_record
from odradek.model.errors import ApiError, ErrorCode
from odradek.wire.generated.create_partitions_request import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from odradek.wire.generated.create_partitions_response import (
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)
from odradek.wire.primitives import Message


def create_partitions(
    state: ControllerState, request: CreatePartitionsRequest, version: int
) -> Decision[CreatePartitionsResponse]:
    """Add partitions to each topic up to the requested count.

    The response has a result or an error for each topic.

    Raises:
        ApiError: POLICY_VIOLATION: the request is too large.
    """
    counts = Counter(topic.name for topic in request.topics)
    records: list[Message] = []
    results: dict[str, CreatePartitionsTopicResult] = {}
    for topic in request.topics:
        error: ApiError | None = None
        try:
            if counts[topic.name] > 1:
                raise ApiError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
            _grow(state, topic, records)
        except ApiError as problem:
            error = problem
        results[topic.name] = CreatePartitionsTopicResult(
            name=topic.name,
            error_code=ErrorCode.NONE if error is None else error.code,
            error_message=None if error is None else error.details,
        )
    check_record_count(len(records))
    response = CreatePartitionsResponse(results=list(results.values()))
    return Decision([] if request.validate_only else records, response)


def _grow(state: ControllerState, request: CreatePartitionsTopic, records: list[Message]) -> None:
    topic = state.image.topics.by_name.get(request.name)
    if topic is None:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    present = len(topic.partitions)
    if request.count == present:
        raise ApiError(ErrorCode.INVALID_PARTITIONS, f"Topic already has {present} partition(s).")
    if request.count < present:
        raise ApiError(
            ErrorCode.INVALID_PARTITIONS,
            f"The topic {request.name} currently has {present} partition(s); "
            f"{request.count} would not be an increase.",
        )
    additional = request.count - present
    if request.assignments is not None and len(request.assignments) != additional:
        raise ApiError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"Attempted to add {additional} additional partition(s), but only "
            f"{len(request.assignments)} assignment(s) were specified.",
        )
    check_record_count(additional)
    state.count_partitions(additional)
    placements = _placements(state, request, additional, len(topic.partitions[0].replicas))
    code = ErrorCode.INVALID_REPLICATION_FACTOR
    if request.assignments is not None:
        code = ErrorCode.INVALID_REPLICA_ASSIGNMENT
    records += [
        partition_record(topic.id, index, partition, state.level)
        for index, partition in enumerate(new_partitions(state, placements, code), present)
    ]


def _placements(
    state: ControllerState, request: CreatePartitionsTopic, additional: int, factor: int
) -> list[tuple[int, ...]]:
    if request.assignments is None:
        return place(state, additional, factor)
    for each in request.assignments:
        check_assignment(state, each.broker_ids, factor)
    return [tuple(each.broker_ids) for each in request.assignments]
