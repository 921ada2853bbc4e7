"""Sets of ACLs whose effect on the operations of topics, groups and the cluster is compared.

The authorized operations in the responses show all that the ACLs allow (KIP-430).
"""

from __future__ import annotations

from tests.authorizer.matrix.request import Request
from tests.authorizer.matrix.rights import CLUSTER, GROUP, TOPIC, Right

from odradek.model.acl import CLUSTER_NAME, AclOperation, AclPermissionType, PatternType

ALL, READ, WRITE = AclOperation.ALL, AclOperation.READ, AclOperation.WRITE
DESCRIBE, ALTER, DELETE = AclOperation.DESCRIBE, AclOperation.ALTER, AclOperation.DELETE
CONFIGS, ALTER_CONFIGS = AclOperation.DESCRIBE_CONFIGS, AclOperation.ALTER_CONFIGS
DENY, PREFIXED = AclPermissionType.DENY, PatternType.PREFIXED


def _on(name: str, operation: AclOperation, **fields: object) -> Right:
    return Right(operation, TOPIC, name, **fields)  # type: ignore[arg-type]


def _each(operation: AclOperation) -> tuple[Right, ...]:
    return (
        Right(operation, TOPIC, "abc"),
        Right(operation, GROUP, "abc"),
        Right(operation, CLUSTER, CLUSTER_NAME),
    )


_NAMES = ("a", "ab", "abc", "abcd", "b", "*")
RULES: dict[str, tuple[Right, ...]] = {
    **{operation.name: _each(operation) for operation in AclOperation if operation > 1},
    **{
        f"all but {operation.name}": (
            _on("*", ALL), Right(ALL, GROUP, "*"), Right(ALL, CLUSTER, CLUSTER_NAME),
            *(each._replace(permission=DENY) for each in _each(operation)),
        )
        for operation in AclOperation if operation > 1
    },
    "a prefix": (_on("ab", READ, pattern=PREFIXED),),
    "a longer prefix denied": (
        _on("a", ALL, pattern=PREFIXED), _on("abc", WRITE, pattern=PREFIXED, permission=DENY)
    ),
    "a prefix denied, a name allowed": (
        _on("a", ALL, pattern=PREFIXED, permission=DENY), _on("abc", ALL)
    ),
    "a name denied, everything allowed": (_on("abc", READ, permission=DENY), _on("*", ALL)),
    "everything denied, a name allowed": (_on("*", DESCRIBE, permission=DENY), _on("abc", ALL)),
    "the prefix *": (_on("*", READ, pattern=PREFIXED),),
    "this host": (_on("abc", READ, host="127.0.0.1"),),
    "another host": (_on("abc", READ, host="127.0.0.2"), _on("ab", WRITE)),
    "another host denied": (_on("abc", READ, host="10.0.0.1", permission=DENY), _on("abc", ALL)),
    "this host denied": (_on("abc", READ, host="127.0.0.1", permission=DENY), _on("abc", ALL)),
    "a name denied that is allowed": (_on("abc", WRITE), _on("abc", WRITE, permission=DENY)),
    "writes, and a prefix denied": (
        _on("abc", WRITE), _on("a", WRITE, pattern=PREFIXED, permission=DENY)
    ),
    "writes a prefix, and a longer one denied": (
        _on("a", WRITE, pattern=PREFIXED), _on("ab", WRITE, pattern=PREFIXED, permission=DENY)
    ),
    "all of any name, writes denied": (_on("*", ALL), _on("*", WRITE, permission=DENY)),
    "writes from another host": (_on("abc", WRITE, host="10.0.0.1"),),
    "another type of principal": (_on("abc", READ, principal="Group:u"),),
    "another principal": (_on("abc", READ, principal="User:someone"),),
    "the principal in capitals": (_on("abc", READ, principal="USER:*"),),
    "two operations in two ACLs": (_on("abc", READ), _on("ab", ALTER_CONFIGS, pattern=PREFIXED)),
    "a group of the same name": (Right(READ, GROUP, "abc"),),
    "a prefix of groups": (Right(DELETE, GROUP, "a", PREFIXED), Right(READ, GROUP, "abc")),
}  # fmt: skip
"""They hold for the topics `abc` and so on, which exist, and for the user of each set."""

_TOPICS = {
    "topics": [{"name": each} for each in _NAMES[:-1]],
    "include_topic_authorized_operations": True,
}
_GROUPS = {"groups": ["ab", "abc"], "include_authorized_operations": True}


def rule_requests(name: str) -> list[Request]:
    """Return the requests whose responses show what a set of rules allows."""
    return [
        Request(name, "Metadata", 12, _TOPICS),
        Request(name, "DescribeGroups", 5, _GROUPS),
        Request(name, "DescribeCluster", 1, {"include_cluster_authorized_operations": True}),
        Request(name, "InitProducerId", 4, {"transactional_id": None, "transaction_timeout_ms": 1}),
    ]


TOPICS_OF_RULES = _NAMES[:-1]
