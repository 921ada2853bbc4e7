"""DescribeCluster (60), versions 0-2: the cluster's id and brokers.

- A broker listener returns brokers. A request for controllers gets the error
  MISMATCHED_ENDPOINT_TYPE (in version 0: INVALID_REQUEST).
- From version 2 on fenced brokers are included if requested.
- Gap: controller listeners, which would return controllers (KIP-919), do not serve this API.
"""

from __future__ import annotations

from odradek.broker.broker import Broker
from odradek.broker.context import RequestContext
from odradek.broker.metadata.listener_view import ListenerView
from odradek.handlers.handler import Handler
from odradek.model import operations
from odradek.model.errors import ApiError, ErrorCode
from odradek.wire.generated.describe_cluster_request import DescribeClusterRequest
from odradek.wire.generated.describe_cluster_response import (
    DescribeClusterBroker,
    DescribeClusterResponse,
)

BROKERS = 1
CONTROLLERS = 2


def handle(
    broker: Broker, context: RequestContext, request: DescribeClusterRequest
) -> DescribeClusterResponse:
    """Return the brokers, with the endpoints of the client's listener.

    Raises:
        ApiError: the request is not for brokers.
    """
    _check_endpoint_type(request.endpoint_type, context.api_version)
    view = ListenerView(broker.metadata.image, broker.config, context.peer)
    brokers = [
        DescribeClusterBroker(
            broker_id=each.id,
            host=address.host,
            port=address.port,
            rack=each.rack,
            is_fenced=each.fenced,
        )
        for each, address in view.brokers(with_fenced=request.include_fenced_brokers)
    ]
    response = DescribeClusterResponse(
        endpoint_type=BROKERS,
        cluster_id=broker.cluster_id,
        controller_id=view.controller_id,
        brokers=brokers,
    )
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = operations.ALL_OF_CLUSTER
    return response


def _check_endpoint_type(endpoint_type: int, version: int) -> None:
    if endpoint_type == BROKERS:
        return
    code = ErrorCode.UNSUPPORTED_ENDPOINT_TYPE
    if endpoint_type == CONTROLLERS:
        code = ErrorCode.MISMATCHED_ENDPOINT_TYPE
    if version == 0:
        code = ErrorCode.INVALID_REQUEST
    raise ApiError(code, f"this listener serves brokers; endpoint type {endpoint_type} was asked")


HANDLER = Handler(request=DescribeClusterRequest, versions=(0, 2), handle=handle)
