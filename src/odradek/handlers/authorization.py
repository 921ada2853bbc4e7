"""Checks in handlers. Without an authorizer, everything is allowed.

The functions take the broker, or the controller of a controller listener. Handlers in fast paths
test `authorizer` themselves.
"""

from __future__ import annotations

from collections.abc import Iterable

from odradek.broker.access.authorizer import CLUSTER, GROUP, TOPIC, Authorizer
from odradek.broker.broker import Broker
from odradek.broker.clients.request_context import RequestContext
from odradek.broker.controller.controller import Controller
from odradek.model.acl import (
    CLUSTER_NAME,
    OPERATIONS,
    AclOperation,
    AclResourceType,
    operation_bits,
)
from odradek.model.errors import ApiError, ErrorCode
from odradek.wire.api import BY_KEY

__all__ = [
    "CLUSTER",
    "GROUP",
    "TOPIC",
    "TRANSACTIONAL_ID",
    "AclOperation",
    "Authorizer",
    "authorized_operations",
    "cluster_operations",
    "denied",
    "permits",
    "permits_cluster",
    "require",
    "require_cluster",
]

TRANSACTIONAL_ID = AclResourceType.TRANSACTIONAL_ID
_FAILURES = {
    AclResourceType.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    AclResourceType.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    AclResourceType.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    AclResourceType.TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}
_NONE: frozenset[str] = frozenset()


def permits(
    node: Broker | Controller,
    context: RequestContext,
    operation: AclOperation,
    resource_type: AclResourceType,
    name: str,
    *,
    log_allowed: bool = True,
    log_denied: bool = True,
) -> bool:
    """Return whether the client may do something with a resource."""
    return node.authorizer is None or node.authorizer.permits(
        context, operation, resource_type, name, log_allowed=log_allowed, log_denied=log_denied
    )


def require(
    node: Broker | Controller,
    context: RequestContext,
    operation: AclOperation,
    resource_type: AclResourceType,
    name: str,
) -> None:
    """Check that the client may do something with a resource.

    Raises:
        ApiError: the error for resources of this type, such as TOPIC_AUTHORIZATION_FAILED.
    """
    if not permits(node, context, operation, resource_type, name):
        raise ApiError(_FAILURES[resource_type])


def permits_cluster(
    node: Broker | Controller,
    context: RequestContext,
    operation: AclOperation,
    *,
    log_denied: bool = True,
) -> bool:
    """Return whether the client may do something with the cluster."""
    return permits(node, context, operation, CLUSTER, CLUSTER_NAME, log_denied=log_denied)


def require_cluster(
    node: Broker | Controller, context: RequestContext, operation: AclOperation
) -> None:
    """Check that the client may do something with the cluster.

    Raises:
        ApiError: CLUSTER_AUTHORIZATION_FAILED.
    """
    if node.authorizer is None:
        return
    try:
        node.authorizer.require_cluster(context, operation)
    except ApiError:
        if operation is AclOperation.CLUSTER_ACTION and isinstance(node, Controller):
            api = BY_KEY[context.api_key].name
            node.quorum.refusals.unauthorized(
                api, context.client_id, context.peer.host, context.principal
            )
        raise


def denied(
    broker: Broker,
    context: RequestContext,
    operation: AclOperation,
    resource_type: AclResourceType,
    names: Iterable[str],
    *,
    log_denied: bool = True,
) -> set[str] | frozenset[str]:
    """Return the names of the resources with which the client may not do something."""
    authorizer = broker.authorizer
    if authorizer is None:
        return _NONE
    names = list(names)
    permitted = authorizer.permitted(
        context, operation, resource_type, names, log_denied=log_denied
    )
    return set(names) - permitted


def authorized_operations(
    node: Broker | Controller, context: RequestContext, resource_type: AclResourceType, name: str
) -> int:
    """Return the operations that the client may do with a resource, one bit for each."""
    if node.authorizer is None:
        return _ALL[resource_type]
    return node.authorizer.operations(context, resource_type, name)


def cluster_operations(node: Broker | Controller, context: RequestContext) -> int:
    """Return the operations that the client may do with the cluster; 0 without DESCRIBE."""
    if not permits_cluster(node, context, AclOperation.DESCRIBE):
        return 0
    return authorized_operations(node, context, CLUSTER, CLUSTER_NAME)


_ALL = {kind: operation_bits(operations) for kind, operations in OPERATIONS.items()}
