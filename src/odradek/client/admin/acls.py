"""ACLs: which principals may do what, and why (KIP-140, KIP-290).

`explain` asks for the ACLs that apply to a resource, and decides as a broker does
(`odradek.core.authorizer`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from odradek.client.admin.configs import ConfigEntry, Resource, describe_configs
from odradek.client.cluster import Cluster
from odradek.client.errors import BrokerError, ClientError, broker_error
from odradek.config.authorizer import parse_super_users
from odradek.core.authorizer.authorizer import Rule, StandardAuthorizer
from odradek.core.authorizer.filters import AclFilter
from odradek.core.metadata.image import AccessControlEntry
from odradek.model.acl import AclOperation, AclPermissionType, AclResourceType, PatternType
from odradek.model.config_resource import ResourceType
from odradek.model.errors import ErrorCode
from odradek.wire.generated.create_acls_request import AclCreation, CreateAclsRequest
from odradek.wire.generated.create_acls_response import CreateAclsResponse
from odradek.wire.generated.delete_acls_request import DeleteAclsFilter, DeleteAclsRequest
from odradek.wire.generated.delete_acls_response import DeleteAclsResponse
from odradek.wire.generated.describe_acls_request import DescribeAclsRequest
from odradek.wire.generated.describe_acls_response import DescribeAclsResponse

AUTHORIZER = "authorizer.class.name"
SUPER_USERS = "super.users"
ALLOW_EVERYONE = "allow.everyone.if.no.acl.found"


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a principal may do something, or may not. `rule` is None without an authorizer."""

    is_allowed: bool
    rule: Rule | None
    applying: tuple[AccessControlEntry, ...]
    """All ACLs that apply to the resource, for any principal."""
    hidden: tuple[str, ...] = ()
    """The settings of the authorizer whose values the broker does not show. Apache Kafka hides
    them. Then the rule is the one that would decide if they had their defaults."""


def list_acls(cluster: Cluster, wanted: AclFilter) -> list[AccessControlEntry]:
    """Return the ACLs that a filter selects, in order.

    Raises:
        ClientError: the broker does not respond, or rejects the request.
    """
    request = DescribeAclsRequest(
        resource_type_filter=wanted.resource_type,
        resource_name_filter=wanted.resource_name,
        pattern_type_filter=wanted.pattern_type,
        principal_filter=wanted.principal,
        host_filter=wanted.host,
        operation=wanted.operation,
        permission_type=wanted.permission_type,
    )
    response = cluster.ask_any(
        request, DescribeAclsResponse, lambda r: _check(r.error_code, r.error_message)
    )
    return sorted(
        AccessControlEntry(
            resource.resource_type,
            resource.resource_name,
            resource.pattern_type,
            acl.principal,
            acl.host,
            acl.operation,
            acl.permission_type,
        )
        for resource in response.resources
        for acl in resource.acls
    )


def create_acls(cluster: Cluster, entries: Sequence[AccessControlEntry]) -> None:
    """Create ACLs. ACLs that exist already are not an error.

    Raises:
        ClientError: the controller does not respond, or rejects an ACL.
    """
    request = CreateAclsRequest(
        creations=[
            AclCreation(
                resource_type=each.resource_type,
                resource_name=each.resource_name,
                resource_pattern_type=each.pattern_type,
                principal=each.principal,
                host=each.host,
                operation=each.operation,
                permission_type=each.permission_type,
            )
            for each in entries
        ]
    )

    def check_all(response: CreateAclsResponse) -> None:
        for result in response.results:
            _check(result.error_code, result.error_message)

    cluster.ask_controller(request, CreateAclsResponse, check_all)


def delete_acls(cluster: Cluster, wanted: AclFilter) -> int:
    """Delete the ACLs that a filter selects; return their number.

    Raises:
        ClientError: the controller does not respond, or does not delete an ACL.
    """
    request = DeleteAclsRequest(
        filters=[
            DeleteAclsFilter(
                resource_type_filter=wanted.resource_type,
                resource_name_filter=wanted.resource_name,
                pattern_type_filter=wanted.pattern_type,
                principal_filter=wanted.principal,
                host_filter=wanted.host,
                operation=wanted.operation,
                permission_type=wanted.permission_type,
            )
        ]
    )

    def check_all(response: DeleteAclsResponse) -> None:
        for result in response.filter_results:
            _check(result.error_code, result.error_message)
            for acl in result.matching_acls:
                _check(acl.error_code, acl.error_message)

    response = cluster.ask_controller(request, DeleteAclsResponse, check_all)
    return sum(len(result.matching_acls) for result in response.filter_results)


def explain(
    cluster: Cluster,
    principal: str,
    host: str,
    operation: AclOperation,
    resource_type: AclResourceType,
    name: str,
) -> Explanation:
    """Return whether a principal at a host may do something with a resource, and why.

    Raises:
        ClientError: the broker does not respond, or rejects a request.
    """
    entries = _settings(cluster)
    settings = {each.name: each.value for each in entries}
    hidden = tuple(each.name for each in entries if each.sensitive and each.value is None)
    if not settings.get(AUTHORIZER) and AUTHORIZER not in hidden:
        return Explanation(True, None, ())
    applying = list_acls(
        cluster,
        AclFilter(
            resource_type,
            name,
            PatternType.MATCH,
            None,
            None,
            AclOperation.ANY,
            AclPermissionType.ANY,
        ),
    )
    authorizer = StandardAuthorizer(
        parse_super_users(settings.get(SUPER_USERS) or ""), settings.get(ALLOW_EVERYONE) == "true"
    )
    authorizer.load({number.to_bytes(16, "big"): each for number, each in enumerate(applying)})
    rule = authorizer.explain(principal, host, operation, resource_type, name)
    return Explanation(rule.is_allowed, rule, tuple(applying), hidden)


def _settings(cluster: Cluster) -> list[ConfigEntry]:
    node_id = next(iter(cluster.refresh([]).nodes))
    broker = Resource(ResourceType.BROKER, str(node_id))
    names = (AUTHORIZER, SUPER_USERS, ALLOW_EVERYONE)
    found = describe_configs(cluster, [broker], names=names)[broker]
    if isinstance(found, ClientError):
        raise found
    return found


def _check(code: int, message: str | None) -> None:
    if code == ErrorCode.SECURITY_DISABLED:
        raise BrokerError(
            ErrorCode.SECURITY_DISABLED,
            message,
            "ACLs",
            "Set authorizer.class.name="
            "org.apache.kafka.metadata.authorizer.StandardAuthorizer and super.users, and restart "
            "the nodes.",
        )
    error = broker_error(code, message, "ACLs")
    if error is not None:
        raise error
