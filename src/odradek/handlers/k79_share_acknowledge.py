"""ShareAcknowledge (79), versions 1-2: share consumers acknowledge records (KIP-932).

- The types of acknowledgements are 0 (a gap), 1 (accept), 2 (release), 3 (reject) and, from version
  2 on, 4 (renew the lock, KIP-1222). A renewal needs `is_renew_ack`.
- The response is sent when the share coordinator has stored the result. If it cannot be stored, the
  records stay acquired until their lock expires.
- A request with epoch -1 closes the session, and releases all records that the member has acquired.
  A request with epoch 0 gets the error INVALID_SHARE_SESSION_EPOCH.
"""

from __future__ import annotations

from collections.abc import Coroutine, Mapping

from odradek.broker.broker import Broker
from odradek.broker.clients.request_context import RequestContext
from odradek.core.share.session import FINAL_EPOCH, INITIAL_EPOCH, PartitionKey
from odradek.handlers.handler import Handler
from odradek.handlers.share import (
    Acknowledgements,
    Acknowledging,
    Outcome,
    PartitionErrors,
    check_request,
    current_leader,
    read_batches,
)
from odradek.model.errors import ApiError, ErrorCode
from odradek.wire.generated.share_acknowledge_request import ShareAcknowledgeRequest
from odradek.wire.generated.share_acknowledge_response import (
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    ShareAcknowledgeResponse,
    ShareAcknowledgeTopicResponse,
)


def handle(
    broker: Broker, context: RequestContext, request: ShareAcknowledgeRequest
) -> ShareAcknowledgeResponse | Coroutine[None, None, ShareAcknowledgeResponse]:
    """Apply the acknowledgements. Respond at once if they are stored at once."""
    key = check_request(broker, context, request.group_id, request.member_id)
    epoch = request.share_session_epoch
    if epoch == INITIAL_EPOCH:
        raise ApiError(ErrorCode.INVALID_SHARE_SESSION_EPOCH)
    broker.share_partitions.sessions.use(key, epoch)
    acknowledgements: Acknowledgements = {
        (topic.topic_id, partition.partition_index): read_batches(partition.acknowledgement_batches)
        for topic in request.topics
        for partition in topic.partitions
    }
    errors = PartitionErrors(broker, context, acknowledgements)
    acknowledging = Acknowledging(
        broker, key, acknowledgements, errors, context.api_version, is_renew=request.is_renew_ack
    )
    lock_duration_ms = broker.share_partitions.settings.of(key.group_id).record_lock_duration_ms

    def answer() -> ShareAcknowledgeResponse:
        results = acknowledging.results()
        if epoch == FINAL_EPOCH:
            broker.share_partitions.close_session(key)
        return _respond(broker, context, results, lock_duration_ms)

    async def wait() -> ShareAcknowledgeResponse:
        await acknowledging.wait()
        return answer()

    return answer() if acknowledging.is_stored else wait()


def _respond(
    broker: Broker,
    context: RequestContext,
    results: Mapping[PartitionKey, Outcome],
    lock_duration_ms: int,
) -> ShareAcknowledgeResponse:
    response = ShareAcknowledgeResponse(acquisition_lock_timeout_ms=lock_duration_ms)
    topics: dict[bytes, ShareAcknowledgeTopicResponse] = {}
    nodes: dict[int, NodeEndpoint] = {}
    for partition, outcome in results.items():
        topic = topics.get(partition[0])
        if topic is None:
            topic = topics[partition[0]] = ShareAcknowledgeTopicResponse(topic_id=partition[0])
            response.responses.append(topic)
        result = PartitionData(
            partition_index=partition[1],
            error_code=outcome.code,
            error_message=outcome.message,
        )
        topic.partitions.append(result)
        leader = current_leader(broker, context, partition, outcome.code)
        if leader is not None:
            result.current_leader = LeaderIdAndEpoch(
                leader_id=leader.leader_id, leader_epoch=leader.leader_epoch
            )
            if leader.host is not None:
                nodes[leader.leader_id] = NodeEndpoint(
                    node_id=leader.leader_id, host=leader.host, port=leader.port, rack=leader.rack
                )
    response.node_endpoints = list(nodes.values())
    return response


HANDLER = Handler(request=ShareAcknowledgeRequest, handle=handle)
