"""AlterPartitionReassignments (45), versions 0-1: partitions move to other brokers (KIP-455).

- The controller decides. Null replicas cancel a reassignment. If no reassignment is in progress,
  the error is NO_REASSIGNMENT_IN_PROGRESS.
- If a new replica is on a broker that is not registered, the error is INVALID_REPLICA_ASSIGNMENT.
- From version 1 on the client may forbid a change of the replication factor (KIP-860).
"""

from __future__ import annotations

from odradek.handlers.decisions import decide
from odradek.handlers.handler import Handler
from odradek.model.errors import ApiError
from odradek.wire.generated.alter_partition_reassignments_request import (
    AlterPartitionReassignmentsRequest,
)
from odradek.wire.generated.alter_partition_reassignments_response import (
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)


def _error_response(
    request: AlterPartitionReassignmentsRequest, error: ApiError
) -> AlterPartitionReassignmentsResponse:
    """Return the error of the request, and the same error for each partition."""
    return AlterPartitionReassignmentsResponse(
        error_code=error.code,
        error_message=error.message,
        responses=[
            ReassignableTopicResponse(
                name=topic.name,
                partitions=[
                    ReassignablePartitionResponse(
                        partition_index=each.partition_index,
                        error_code=error.code,
                        error_message=error.message,
                    )
                    for each in topic.partitions
                ],
            )
            for topic in request.topics
        ],
    )


HANDLER = Handler(
    request=AlterPartitionReassignmentsRequest,
    controller=decide,
    error_response=_error_response,
)
