"""DescribeCluster (60), versions 0-2: the cluster's id, and its brokers or controllers.

- A broker listener returns brokers, a controller listener returns the registered controllers
  (KIP-919). A request for the other kind of node gets the error MISMATCHED_ENDPOINT_TYPE (in
  version 0: INVALID_REQUEST).
- From version 2 on fenced brokers are included if requested.
- A controller listener returns the quorum's leader as the controller's id; -1 if it is not known.
"""

from __future__ import annotations

from odradek.broker.broker import Broker
from odradek.broker.clients.request_context import RequestContext
from odradek.broker.controller.controller import Controller
from odradek.broker.metadata.listener_view import ListenerView
from odradek.handlers.authorization import AclOperation, cluster_operations, require_cluster
from odradek.handlers.handler import Handler
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
    _check_endpoint_type(request.endpoint_type, BROKERS, context.api_version)
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
        response.cluster_authorized_operations = cluster_operations(broker, context)
    return response


def handle_on_controller(
    controller: Controller, context: RequestContext, request: DescribeClusterRequest
) -> DescribeClusterResponse:
    """Return the controllers, with the endpoints of the client's listener.

    Raises:
        ApiError: the request is not for controllers, or the client may not ALTER the cluster.
    """
    require_cluster(controller, context, AclOperation.ALTER)
    _check_endpoint_type(request.endpoint_type, CONTROLLERS, context.api_version)
    listener = context.peer.listener
    controllers = [
        DescribeClusterBroker(broker_id=each.id, host=address.host, port=address.port)
        for each in controller.metadata.image.cluster.controllers.values()
        if (address := each.listeners.get(listener)) is not None
    ]
    response = DescribeClusterResponse(
        endpoint_type=CONTROLLERS,
        cluster_id=controller.quorum.cluster_id,
        controller_id=controller.quorum.leader_id,
        brokers=controllers,
    )
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = cluster_operations(controller, context)
    return response


def _check_endpoint_type(endpoint_type: int, served: int, version: int) -> None:
    if endpoint_type == served:
        return
    code = ErrorCode.UNSUPPORTED_ENDPOINT_TYPE
    if endpoint_type in (BROKERS, CONTROLLERS):
        code = ErrorCode.MISMATCHED_ENDPOINT_TYPE
    if version == 0:
        code = ErrorCode.INVALID_REQUEST
    kind = "brokers" if served == BROKERS else "controllers"
    raise ApiError(code, f"this listener serves {kind}; endpoint type {endpoint_type} was asked")


HANDLER = Handler(
    request=DescribeClusterRequest,
    handle=handle,
    controller=handle_on_controller,
)
