"""The parts of an ACL: resource types, patterns, operations and permissions.

The protocol defines the numbers (Kafka's AclOperation, ResourceType, PatternType and
AclPermissionType). They occur in the ACL requests, in the AccessControlEntryRecord of the metadata
log, and in sets of authorized operations. UNKNOWN stands for numbers of newer versions. ANY and
MATCH occur only in filters.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Self

WILDCARD = "*"
"""The resource name that matches every resource, and the host that matches every host."""
ANYONE = "User:*"
"""The principal that matches every principal."""
CLUSTER_NAME = "kafka-cluster"
"""The name of the only resource of the type CLUSTER."""


class _Number(IntEnum):
    """An enumeration of which newer versions have more members."""

    @classmethod
    def _missing_(cls, value: object) -> Self | None:
        return cls(0) if isinstance(value, int) else None


class AclResourceType(_Number):
    """The type of a resource that ACLs protect (Kafka's ResourceType)."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7

    @property
    def title(self) -> str:
        """The name as in the audit log: TransactionalId."""
        return "".join(word.capitalize() for word in self.name.split("_"))


class PatternType(_Number):
    """How the name of an ACL's resource is compared with the name of a resource (KIP-290)."""

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class AclOperation(_Number):
    """What a client does with a resource."""

    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class AclPermissionType(_Number):
    """Whether an ACL allows or denies."""

    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


OPERATIONS = {
    AclResourceType.TOPIC: (
        AclOperation.READ,
        AclOperation.WRITE,
        AclOperation.CREATE,
        AclOperation.DESCRIBE,
        AclOperation.DELETE,
        AclOperation.ALTER,
        AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER_CONFIGS,
    ),
    AclResourceType.GROUP: (
        AclOperation.READ,
        AclOperation.DESCRIBE,
        AclOperation.DELETE,
        AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER_CONFIGS,
    ),
    AclResourceType.CLUSTER: (
        AclOperation.CREATE,
        AclOperation.CLUSTER_ACTION,
        AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER_CONFIGS,
        AclOperation.IDEMPOTENT_WRITE,
        AclOperation.ALTER,
        AclOperation.DESCRIBE,
    ),
}
"""The operations that responses report for a resource, by its type (Kafka's AclEntry)."""


def operation_bits(operations: tuple[AclOperation, ...]) -> int:
    """Return a set of operations as in the responses: one bit per operation."""
    return sum(1 << operation for operation in operations)
