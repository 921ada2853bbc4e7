"""Checks of StreamsGroupHeartbeat requests that do not depend on the group."""

from __future__ import annotations

from typing import Final

from odradek.core.group.modern.assignment import JOIN_EPOCH, LEAVE_EPOCH
from odradek.model.errors import ApiError, ErrorCode
from odradek.wire.generated.streams_group_heartbeat_request import (
    StreamsGroupHeartbeatRequest,
    Topology,
)

STATIC_LEAVE_EPOCH: Final = -2


def validate(request: StreamsGroupHeartbeatRequest) -> None:
    """Check a request. Patterns of source topics are refused, as in Apache Kafka 4.4.

    Raises:
        ApiError: INVALID_REQUEST or STREAMS_INVALID_TOPOLOGY.
    """
    _check_supported(request)
    for name, value in (
        ("MemberId", request.member_id),
        ("GroupId", request.group_id),
        ("InstanceId", request.instance_id),
        ("RackId", request.rack_id),
    ):
        if value is not None and not value.strip():
            raise _invalid(f"{name} can't be empty.")
    tasks = (
        ("ActiveTasks", request.active_tasks),
        ("StandbyTasks", request.standby_tasks),
        ("WarmupTasks", request.warmup_tasks),
    )
    if request.member_epoch == JOIN_EPOCH:
        if request.rebalance_timeout_ms == -1:
            raise _invalid("RebalanceTimeoutMs must be provided in first request.")
        for name, asked in tasks:
            if asked is None or asked:  # as in Apache Kafka, null is not empty
                raise _invalid(f"{name} must be empty when (re-)joining.")
        if request.topology is None:
            raise _invalid("Topology must be non-null when (re-)joining.")
        _check_topology(request.topology)
    elif request.member_epoch == STATIC_LEAVE_EPOCH:
        if request.instance_id is None:
            raise _invalid("InstanceId can't be null.")
    elif request.member_epoch < LEAVE_EPOCH:
        raise _invalid(
            f"MemberEpoch is {request.member_epoch}, but must be greater than or equal to -2."
        )
    if len({asked is None for _, asked in tasks}) > 1:
        raise _invalid("If one task-type is non-null, all must be non-null.")
    if request.member_epoch != JOIN_EPOCH and request.topology is not None:
        raise _invalid("Topology can only be provided when (re-)joining.")


def _check_supported(request: StreamsGroupHeartbeatRequest) -> None:
    if request.topology is not None:
        for each in request.topology.subtopologies:
            if each.source_topic_regex:
                raise _invalid("Regular expressions for source topics are not supported yet.")


def _check_topology(topology: Topology) -> None:
    for each in topology.subtopologies:
        for topic in each.state_changelog_topics:
            if topic.partitions != 0:
                raise ApiError(
                    ErrorCode.STREAMS_INVALID_TOPOLOGY,
                    f"Changelog topic {topic.name} must have an undefined partition count, but it "
                    f"is set to {topic.partitions}.",
                )


def _invalid(message: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_REQUEST, message)
