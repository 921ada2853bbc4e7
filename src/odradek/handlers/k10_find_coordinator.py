"""FindCoordinator (10), versions 0-6: the coordinator of a group, transaction or share partition.

- Before version 4 a request has one key, from version 4 on many keys.
- If the coordinator's topic does not exist, it is created, and the response waits for the creation
  up to `CREATION_WAIT_MS`. After that the error is COORDINATOR_NOT_AVAILABLE, and clients retry.
  Apache Kafka returns this error immediately. With Apache Kafka the first consumer therefore waits
  up to a second longer.
- From version 6 on, the key type 2 is valid. Its keys are share partitions (see
  `SharePartitionKey`). It needs CLUSTER_ACTION on the cluster, because only brokers use it.
"""

from __future__ import annotations

from odradek.broker.broker import Broker
from odradek.broker.clients.request_context import RequestContext
from odradek.broker.metadata.listener_view import ListenerView
from odradek.core.coordinator.placement import partition_for
from odradek.core.share_coordinator.key import parse
from odradek.handlers.authorization import (
    GROUP,
    TRANSACTIONAL_ID,
    AclOperation,
    permits,
    require_cluster,
)
from odradek.handlers.handler import Handler
from odradek.handlers.pieces import Pieces
from odradek.model.errors import ApiError, ErrorCode
from odradek.model.topic_name import OFFSETS_TOPIC, SHARE_STATE_TOPIC, TRANSACTION_TOPIC
from odradek.wire.generated.find_coordinator_request import FindCoordinatorRequest
from odradek.wire.generated.find_coordinator_response import Coordinator, FindCoordinatorResponse

MANY_KEYS_VERSION = 4
SHARE_VERSION = 6
"""From this version on, the key type can be `SHARE`."""
SHARE = 2
TOPICS = {0: OFFSETS_TOPIC, 1: TRANSACTION_TOPIC, SHARE: SHARE_STATE_TOPIC}
"""Key type -> the topic of the coordinator."""

_AUTHORIZED = {
    0: (GROUP, ErrorCode.GROUP_AUTHORIZATION_FAILED),
    1: (TRANSACTIONAL_ID, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
}
"""Key type -> the type of the resource that the client must be able to DESCRIBE, and the error."""

CREATION_WAIT_MS = 1000


async def handle(
    broker: Broker, context: RequestContext, request: FindCoordinatorRequest
) -> FindCoordinatorResponse:
    """Return the coordinators, with the endpoints of the client's listener."""
    if request.key_type not in TOPICS:
        raise ApiError(ErrorCode.INVALID_REQUEST)
    has_many = context.api_version >= MANY_KEYS_VERSION
    keys = request.coordinator_keys if has_many else [request.key]
    errors = [_refusal(broker, context, request.key_type, key) for key in keys]
    topic = TOPICS[request.key_type]
    if not all(errors) and topic not in broker.metadata.image.topics.by_name:
        await broker.topic_creation.create(topic, CREATION_WAIT_MS)
    view = ListenerView(broker.metadata.image, broker.config, context.peer)
    coordinators = [
        _failed(key, error) if error else _find(broker, view, request.key_type, key)
        for key, error in zip(keys, errors, strict=True)
    ]
    if has_many:
        return FindCoordinatorResponse(coordinators=coordinators)
    (found,) = coordinators
    error = ErrorCode(found.error_code)  # type: ignore[call-arg]
    return FindCoordinatorResponse(
        error_code=error,
        error_message="NONE" if error is ErrorCode.NONE else error.message,
        node_id=found.node_id,
        host=found.host,
        port=found.port,
    )


def _refusal(broker: Broker, context: RequestContext, key_type: int, key: str) -> ErrorCode | None:
    """Return the error of a key that is invalid or that the client may not use; None if it may."""
    if key_type == SHARE:
        return _share_refusal(broker, context, key)
    kind, error = _AUTHORIZED.get(key_type, (None, None))
    if kind is None or permits(broker, context, AclOperation.DESCRIBE, kind, key):
        return None
    return error


def _share_refusal(broker: Broker, context: RequestContext, key: str) -> ErrorCode | None:
    if context.api_version < SHARE_VERSION:
        return ErrorCode.INVALID_REQUEST
    require_cluster(broker, context, AclOperation.CLUSTER_ACTION)
    try:
        parse(key)
    except ValueError:
        return ErrorCode.INVALID_REQUEST
    return None


def _find(broker: Broker, view: ListenerView, key_type: int, key: str) -> Coordinator:
    topic = TOPICS[key_type]
    image = broker.metadata.image
    known = image.topics.by_name.get(topic)
    if known is None:
        return _failed(key, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    leader = known.partitions[partition_for(key, len(known.partitions))].leader
    address = view.address(leader) if image.cluster.is_alive(leader) else None
    if address is None:
        return _failed(key, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    return Coordinator(key=key, node_id=leader, host=address.host, port=address.port)


def _failed(key: str, error: ErrorCode, message: str = "") -> Coordinator:
    return Coordinator(
        key=key, node_id=-1, host="", port=-1, error_code=error, error_message=message
    )


def _error_response(request: FindCoordinatorRequest, error: ApiError) -> FindCoordinatorResponse:
    return FindCoordinatorResponse(
        error_code=error.code,
        error_message=error.message,
        node_id=-1,
        port=-1,
        coordinators=[
            _failed(each, error.code, error.message) for each in request.coordinator_keys
        ],
    )


HANDLER = Handler(
    request=FindCoordinatorRequest,
    handle=handle,
    error_response=_error_response,
    pieces=Pieces("coordinator_keys", "coordinators", 250),
)
