"""OffsetForLeaderEpoch (23), versions 2-4: the end offset of a leader epoch (KIP-320)."""

from __future__ import annotations

from collections.abc import Collection

from odradek.broker.broker import Broker
from odradek.broker.clients.request_context import RequestContext
from odradek.handlers.authorization import TOPIC, AclOperation, denied, permits_cluster
from odradek.handlers.handler import Handler
from odradek.handlers.pieces import Pieces
from odradek.model.errors import ApiError, ErrorCode
from odradek.wire.generated.offset_for_leader_epoch_request import OffsetForLeaderEpochRequest
from odradek.wire.generated.offset_for_leader_epoch_response import (
    EpochEndOffset,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)


def handle(
    broker: Broker, context: RequestContext, request: OffsetForLeaderEpochRequest
) -> OffsetForLeaderEpochResponse:
    """Return an epoch and its end offset for each partition (`LeaderEpochs.end_offset_for`)."""
    response = OffsetForLeaderEpochResponse()
    refused = _refused(broker, context, request)
    for topic in request.topics:
        result = OffsetForLeaderTopicResult(topic=topic.topic)
        for wanted in topic.partitions:
            answer = EpochEndOffset(partition=wanted.partition)
            try:
                if topic.topic in refused:
                    raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
                partition = broker.replicas.find(topic.topic, wanted.partition)
                partition.check_leader(wanted.current_leader_epoch)
                epoch, end_offset = partition.log.end_offset_for_epoch(wanted.leader_epoch)
                answer.leader_epoch, answer.end_offset = epoch, end_offset
            except ApiError as error:
                answer.error_code = error.code
            result.partitions.append(answer)
        response.topics.append(result)
    return response


def _refused(
    broker: Broker, context: RequestContext, request: OffsetForLeaderEpochRequest
) -> Collection[str]:
    """Return the topics that the client may not see. Followers need CLUSTER_ACTION instead."""
    if permits_cluster(broker, context, AclOperation.CLUSTER_ACTION, log_denied=False):
        return ()
    names = (topic.topic for topic in request.topics)
    return denied(broker, context, AclOperation.DESCRIBE, TOPIC, names)


HANDLER = Handler(
    request=OffsetForLeaderEpochRequest,
    handle=handle,
    pieces=Pieces("topics", "topics", 250),
)
