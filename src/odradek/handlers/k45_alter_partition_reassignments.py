"""AlterPartitionReassignments (45), versions 0-1: partitions move to other brokers (KIP-455).

- Decided by the controller. Null replicas cancel a reassignment; without one the result is
  NO_REASSIGNMENT_IN_PROGRESS. Unregistered brokers are INVALID_REPLICA_ASSIGNMENT.
- From version 1 on the client may forbid a change of the replication factor (KIP-860).
"""

from __future__ import annotations

from odradek.handlers.handler import Handler
from odradek.wire.generated.alter_partition_reassignments_request import (
    AlterPartitionReassignmentsRequest,
)

HANDLER = Handler(request=AlterPartitionReassignmentsRequest, versions=(0, 1), forwarded=True)
