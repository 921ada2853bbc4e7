"""The rights with which each request of the matrix is sent.

A `Right` is one ACL. Each different set of rights has its own user, so that all ACLs can be created
before the first request.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from odradek.model.acl import (
    CLUSTER_NAME,
    AclOperation,
    AclPermissionType,
    AclResourceType,
    PatternType,
)

TOPIC, GROUP = AclResourceType.TOPIC, AclResourceType.GROUP
CLUSTER, TRANSACTIONAL_ID = AclResourceType.CLUSTER, AclResourceType.TRANSACTIONAL_ID
DESCRIBE = AclOperation.DESCRIBE


class Right(NamedTuple):
    """An ACL of one user. Without `principal` it is an ACL of the user's own principal."""

    operation: AclOperation
    kind: AclResourceType
    name: str
    pattern: PatternType = PatternType.LITERAL
    permission: AclPermissionType = AclPermissionType.ALLOW
    host: str = "*"
    principal: str | None = None

    def acl(self, user: str) -> dict[str, object]:
        """Return the fields of a creation in CreateAcls."""
        return {
            "resource_type": int(self.kind),
            "resource_name": self.name,
            "resource_pattern_type": int(self.pattern),
            "principal": self.principal or f"User:{user}",
            "host": self.host,
            "operation": int(self.operation),
            "permission_type": int(self.permission),
        }


Rights = frozenset[Right]


def topics(operation: AclOperation, *names: str) -> list[Right]:
    """Return the right for topics; by default for one that exists and one that does not."""
    return [Right(operation, TOPIC, name) for name in names or ("t", "gone")]


def groups(operation: AclOperation, *names: str) -> list[Right]:
    """Return the right for groups."""
    return [Right(operation, GROUP, name) for name in names or ("g",)]


def transactions(operation: AclOperation, *names: str) -> list[Right]:
    """Return the right for transactional ids."""
    return [Right(operation, TRANSACTIONAL_ID, name) for name in names or ("x",)]


def cluster(operation: AclOperation) -> list[Right]:
    """Return the right for the cluster."""
    return [Right(operation, CLUSTER, CLUSTER_NAME)]


def variants(needs: Sequence[Right]) -> Iterator[tuple[str, Rights]]:
    """Yield the names and sets of rights with which a request with these needs is sent.

    The last one is `right`. The same set does not occur twice.
    """
    seen: set[Rights] = set()
    for name, rights in _all_variants(needs):
        if rights not in seen:
            seen.add(rights)
            yield name, rights


def _all_variants(needs: Sequence[Right]) -> Iterator[tuple[str, Rights]]:
    yield "nothing", frozenset()
    yield "elsewhere", frozenset(map(_elsewhere, needs))
    yield "only DESCRIBE", frozenset(each._replace(operation=DESCRIBE) for each in needs)
    kinds = list(dict.fromkeys((each.operation, each.kind) for each in needs))
    for kind in kinds:
        without = [each for each in needs if (each.operation, each.kind) != kind]
        yield f"without {kind[0].name} {kind[1].title}", frozenset(without)
    for kind in kinds:
        denied = [
            each._replace(permission=AclPermissionType.DENY)
            for each in needs
            if (each.operation, each.kind) == kind
        ]
        yield f"denied {kind[0].name} {kind[1].title}", frozenset((*needs, *denied))
    yield "right", frozenset(needs)


def _elsewhere(need: Right) -> Right:
    """Return the right for another resource whose name begins alike, or another right."""
    if need.kind is not CLUSTER:
        return need._replace(name=f"{need.name}t")
    other = AclOperation.CREATE if need.operation is DESCRIBE else DESCRIBE
    return need._replace(operation=other)


class Users:
    """The users of the matrix, one for each set of rights."""

    def __init__(self, sets: Iterable[Rights]) -> None:
        self.names = {each: f"user{at}" for at, each in enumerate(dict.fromkeys(sets))}

    def acls(self) -> list[dict[str, object]]:
        """Return the ACLs of all users, as creations in CreateAcls."""
        found = [right.acl(name) for rights, name in self.names.items() for right in sorted(rights)]
        return list({tuple(each.values()): each for each in found}.values())
