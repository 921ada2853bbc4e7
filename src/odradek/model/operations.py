"""Operations that may be allowed on resources, as bits (`authorized_operations` fields).

A bit's number is the operation's in Kafka's AclOperation. Until there are ACLs every operation
that a kind of resource has is allowed to everyone.
"""

from __future__ import annotations

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

NOT_ASKED = -(2**31)
"""What the field holds if the client did not ask."""


def _bits(*operations: int) -> int:
    return sum(1 << operation for operation in operations)


ALL_OF_TOPIC = _bits(READ, WRITE, CREATE, DESCRIBE, DELETE, ALTER, DESCRIBE_CONFIGS, ALTER_CONFIGS)
ALL_OF_GROUP = _bits(READ, DESCRIBE, DELETE, DESCRIBE_CONFIGS, ALTER_CONFIGS)
ALL_OF_CLUSTER = _bits(
    CREATE, CLUSTER_ACTION, DESCRIBE_CONFIGS, ALTER_CONFIGS, IDEMPOTENT_WRITE, ALTER, DESCRIBE
)
