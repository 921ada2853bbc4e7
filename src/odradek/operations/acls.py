"""ACLs as words: resources, operations and principals, and why something is allowed or not.

A resource is written as `topic:flights`, `group:jobs`, `transactional-id:job`, `user:alice`,
`delegation-token:ID` or `cluster`. A star at the end makes it a prefix: `topic:flights-*`. The star
alone, `topic:*`, stands for all resources of the type.
"""

from __future__ import annotations

from typing import NamedTuple

from odradek.client.admin.acls import ALLOW_EVERYONE, AUTHORIZER, SUPER_USERS, Explanation
from odradek.core.metadata.image import AccessControlEntry
from odradek.model.acl import (
    CLUSTER_NAME,
    WILDCARD,
    AclOperation,
    AclPermissionType,
    AclResourceType,
    PatternType,
)

_TYPES = {
    each.name.lower().replace("_", "-"): each
    for each in AclResourceType
    if each > AclResourceType.ANY
}
_OPERATIONS = {
    each.name.lower().replace("_", "-"): each for each in AclOperation if each > AclOperation.ANY
}


class Pattern(NamedTuple):
    """The resources that an ACL applies to."""

    resource_type: AclResourceType
    name: str
    kind: PatternType

    def __str__(self) -> str:
        return resource_text(self.resource_type, self.name, self.kind)


def principal_of(text: str) -> str:
    """Return the principal that a word names: without a type it is a user."""
    return text if ":" in text else f"User:{text}"


def parse_pattern(text: str) -> Pattern:
    """Parse a resource, such as `topic:flights-*`.

    Raises:
        ValueError: there is no such type, or the name is missing.
    """
    kind, colon, name = text.partition(":")
    resource_type = _TYPES.get(kind.lower().replace("_", "-"))
    if resource_type is None:
        raise ValueError(f"{text!r}: write TYPE:NAME with one of {', '.join(_TYPES)}")
    if resource_type is AclResourceType.CLUSTER:
        if name not in ("", CLUSTER_NAME):
            raise ValueError(f"{text!r}: write cluster, without a name")
        return Pattern(resource_type, CLUSTER_NAME, PatternType.LITERAL)
    if not colon or not name:
        raise ValueError(f"{text!r} has no name; write {kind}:NAME, or {kind}:* for all")
    if name.endswith(WILDCARD) and name != WILDCARD:
        return Pattern(resource_type, name.removesuffix(WILDCARD), PatternType.PREFIXED)
    return Pattern(resource_type, name, PatternType.LITERAL)


def parse_operation(text: str) -> AclOperation:
    """Parse an operation, such as `describe-configs`.

    Raises:
        ValueError: there is no such operation.
    """
    found = _OPERATIONS.get(text.strip().lower().replace("_", "-"))
    if found is None:
        raise ValueError(f"there is no operation {text!r}; write {', '.join(_OPERATIONS)}")
    return found


def operation_text(value: int) -> str:
    """Return the word for an operation."""
    return AclOperation(value).name.lower().replace("_", "-")


def resource_text(resource_type: int, name: str, pattern_type: int) -> str:
    """Return the word for the resources of an ACL."""
    if resource_type == AclResourceType.CLUSTER:
        return "cluster"
    star = WILDCARD if pattern_type == PatternType.PREFIXED else ""
    return f"{AclResourceType(resource_type).name.lower().replace('_', '-')}:{name}{star}"


def acl_json(entry: AccessControlEntry) -> dict[str, object]:
    """Return an ACL as JSON."""
    return {
        "principal": entry.principal,
        "permission": AclPermissionType(entry.permission_type).name.lower(),
        "operation": operation_text(entry.operation),
        "resource_type": AclResourceType(entry.resource_type).name.lower(),
        "resource_name": entry.resource_name,
        "pattern_type": PatternType(entry.pattern_type).name.lower(),
        "host": entry.host,
    }


def reason_text(found: Explanation, wanted: AclOperation) -> str:
    """Say which rule allows or denies an operation."""
    rule = found.rule
    if rule is None:
        return (
            f"The brokers have no authorizer ({AUTHORIZER} is empty): everyone may do everything."
        )
    if rule.name == "SuperUser":
        return f"The principal is in {SUPER_USERS}."
    entry = rule.entry
    if entry is not None:
        where = resource_text(entry.resource_type, entry.resource_name, entry.pattern_type)
        verb = "allows" if rule.is_allowed else "denies"
        implied = ""
        if entry.operation not in (wanted, AclOperation.ALL):
            implied = f", which implies {operation_text(wanted)}"
        return (
            f"An ACL {verb} {entry.principal} {operation_text(entry.operation)} on {where} "
            f"from {'any address' if entry.host == WILDCARD else entry.host}{implied}."
        )
    if found.applying:
        return "ACLs apply to the resource, but none allows this. What is not allowed is denied."
    if rule.is_allowed:
        return f"No ACL applies to the resource, and {ALLOW_EVERYONE} is true."
    return f"No ACL applies to the resource, and {ALLOW_EVERYONE} is false."
