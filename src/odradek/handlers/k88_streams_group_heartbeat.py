"""StreamsGroupHeartbeat (88), versions 0-1: a Streams client joins, gets tasks, leaves (KIP-1071).

- With member epoch 0 a member joins the group and sends its topology, and with -1 it leaves. Members
  choose their own member id.
- A static member that leaves with -2 keeps its tasks until it returns, with another member id.
- From version 1 on a member may be asked for the description of its topology (see
  `core.group.streams.descriptions`).
- After the errors FENCED_MEMBER_EPOCH and UNKNOWN_MEMBER_ID a member must join again.
- If internal topics are missing, their creation begins with the permissions of the client, and the
  response has the status MISSING_INTERNAL_TOPICS. If it fails, the next responses have the error.
- The error is UNSUPPORTED_VERSION if the level of the feature streams.version is 0, or if
  group.coordinator.rebalance.protocols does not contain `streams`.
"""

from __future__ import annotations

from collections.abc import Mapping

from odradek.broker.broker import Broker
from odradek.broker.clients.request_context import RequestContext
from odradek.broker.coordinator.coordinator import settled
from odradek.core.group.streams.heartbeat import Outcome
from odradek.core.group.streams.status import MISSING_INTERNAL_TOPICS
from odradek.handlers.authorization import (
    GROUP,
    TOPIC,
    AclOperation,
    denied,
    permits_cluster,
    require,
)
from odradek.handlers.handler import Handler
from odradek.handlers.streams_groups import check_enabled
from odradek.model.errors import ApiError, ErrorCode
from odradek.model.topic_name import is_internal, name_problem
from odradek.wire.generated.create_topics_request import CreatableTopic
from odradek.wire.generated.streams_group_heartbeat_request import (
    StreamsGroupHeartbeatRequest,
    Topology,
)
from odradek.wire.generated.streams_group_heartbeat_response import (
    Status,
    StreamsGroupHeartbeatResponse,
)

ERROR_TTL_HEARTBEATS = 2
"""After the creation of internal topics has failed, the responses contain the error for this number
of heartbeat intervals, and the creation is not repeated."""


async def handle(
    broker: Broker, context: RequestContext, request: StreamsGroupHeartbeatRequest
) -> StreamsGroupHeartbeatResponse:
    """Return the member's epoch, and the member's tasks if they have changed."""
    check_enabled(broker)
    require(broker, context, AclOperation.READ, GROUP, request.group_id)
    if request.topology is not None:
        _check_topics(broker, context, request.topology)
    outcome: Outcome = await settled(broker.coordinators.groups.streams_heartbeat(context, request))
    if outcome.missing_topics:
        _create(broker, context, outcome.response, outcome.missing_topics)
    return outcome.response


def _check_topics(broker: Broker, context: RequestContext, topology: Topology) -> None:
    """Check the names of all topics of a topology, and that the client may describe them.

    Raises:
        ApiError: STREAMS_INVALID_TOPOLOGY or TOPIC_AUTHORIZATION_FAILED.
    """
    names = list(
        dict.fromkeys(
            name
            for each in topology.subtopologies
            for name in (
                *each.source_topics,
                *each.repartition_sink_topics,
                *(topic.name for topic in each.repartition_source_topics),
                *(topic.name for topic in each.state_changelog_topics),
            )
        )
    )
    prohibited = ",".join(name for name in names if is_internal(name))
    if prohibited:
        raise ApiError(
            ErrorCode.STREAMS_INVALID_TOPOLOGY,
            f"Use of Kafka internal topics {prohibited} in a Kafka Streams topology is prohibited.",
        )
    invalid = ",".join(name for name in names if name_problem(name) is not None)
    if invalid:
        raise ApiError(
            ErrorCode.STREAMS_INVALID_TOPOLOGY,
            f"Topic names {invalid} are not valid topic names.",
        )
    if denied(broker, context, AclOperation.DESCRIBE, TOPIC, names):
        raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)


def _create(
    broker: Broker,
    context: RequestContext,
    response: StreamsGroupHeartbeatResponse,
    topics: Mapping[str, CreatableTopic],
) -> None:
    """Begin to create internal topics. Add to the response why they cannot be created."""
    refused: set[str] | frozenset[str] = frozenset()
    create = AclOperation.CREATE
    if not permits_cluster(broker, context, create, log_denied=False):
        refused = denied(broker, context, create, TOPIC, topics)
    if refused:
        shown = ", ".join(each for each in topics if each in refused)
        _explain(response, f"Unauthorized to CREATE on topics {shown}.")
        return
    ttl_ms = ERROR_TTL_HEARTBEATS * response.heartbeat_interval_ms
    broker.topic_creation.begin_internal(topics, context, ttl_ms)
    errors = broker.topic_creation.internal_errors(topics)
    if errors:
        shown = ", ".join(f"{name} ({text})" for name, text in errors.items())
        _explain(response, f"Creation failed: {shown}.")


def _explain(response: StreamsGroupHeartbeatResponse, why: str) -> None:
    statuses = response.status or []
    for each in statuses:
        if each.status_code == MISSING_INTERNAL_TOPICS:
            each.status_detail = f"{each.status_detail}; {why}"
            return
    response.status = [*statuses, Status(status_code=MISSING_INTERNAL_TOPICS, status_detail=why)]


HANDLER = Handler(request=StreamsGroupHeartbeatRequest, handle=handle)
