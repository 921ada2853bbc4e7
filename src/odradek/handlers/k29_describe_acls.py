"""DescribeAcls (29), versions 1-3: the ACLs that a filter selects.

- The response has the ACLs by pattern. A number in the filter that is not known selects nothing.
- The client needs DESCRIBE on the cluster.
- Without an authorizer the error is SECURITY_DISABLED.
"""

from __future__ import annotations

from odradek.broker.broker import Broker
from odradek.broker.clients.request_context import RequestContext
from odradek.broker.controller.controller import Controller
from odradek.core.authorizer.filters import AclFilter
from odradek.handlers.handler import Handler
from odradek.model.acl import AclOperation, AclPermissionType, AclResourceType, PatternType
from odradek.model.errors import ApiError, ErrorCode
from odradek.wire.generated.describe_acls_request import DescribeAclsRequest
from odradek.wire.generated.describe_acls_response import (
    AclDescription,
    DescribeAclsResource,
    DescribeAclsResponse,
)


def handle(
    node: Broker | Controller, context: RequestContext, request: DescribeAclsRequest
) -> DescribeAclsResponse:
    """Return the ACLs of this node's newest metadata.

    Raises:
        ApiError: SECURITY_DISABLED or CLUSTER_AUTHORIZATION_FAILED.
    """
    if node.authorizer is None:
        problem = "No Authorizer is configured on the broker"
        raise ApiError(ErrorCode.SECURITY_DISABLED, problem)
    node.authorizer.require_cluster(context, AclOperation.DESCRIBE)
    acl_filter = AclFilter(
        AclResourceType(request.resource_type_filter),
        request.resource_name_filter,
        PatternType(request.pattern_type_filter),
        request.principal_filter,
        request.host_filter,
        AclOperation(request.operation),
        AclPermissionType(request.permission_type),
    )
    resources: dict[tuple[int, str, int], DescribeAclsResource] = {}
    for _, acl in acl_filter.select(node.metadata.image.acls.items()):
        pattern = acl.resource_type, acl.resource_name, acl.pattern_type
        resource = resources.get(pattern)
        if resource is None:
            resource = resources[pattern] = DescribeAclsResource(
                resource_type=acl.resource_type,
                resource_name=acl.resource_name,
                pattern_type=acl.pattern_type,
            )
        resource.acls.append(
            AclDescription(
                principal=acl.principal,
                host=acl.host,
                operation=acl.operation,
                permission_type=acl.permission_type,
            )
        )
    return DescribeAclsResponse(resources=list(resources.values()))


HANDLER = Handler(request=DescribeAclsRequest, handle=handle, controller=handle)
