"""The operations that a client may perform on a resource.

Fields such as `topic_authorized_operations` are sets of operations, with one bit per operation. The
number of the bit is the number of the operation in Kafka's AclOperation. There are no ACLs yet.
Every client may perform all operations that a type of resource has.
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
"""The value of the field if the client did not request it."""


def _bits(*operations: int) -> int:
    return sum(1 << operation for operation in operations)


ALL_OF_TOPIC = _bits(READ, WRITE, CREATE, DESCRIBE, DELETE, ALTER, DESCRIBE_CONFIGS, ALTER_CONFIGS)
ALL_OF_GROUP = _bits(READ, DESCRIBE, DELETE, DESCRIBE_CONFIGS, ALTER_CONFIGS)
ALL_OF_CLUSTER = _bits(
    CREATE, CLUSTER_ACTION, DESCRIBE_CONFIGS, ALTER_CONFIGS, IDEMPOTENT_WRITE, ALTER, DESCRIBE
)
