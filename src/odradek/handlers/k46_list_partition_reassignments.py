"""ListPartitionReassignments (46), version 0: the reassignments in progress (KIP-455).

- The controller responds. Null topics request all reassignments. Partitions that do not exist or
  are not being reassigned are omitted, without an error.
"""

from __future__ import annotations

from odradek.handlers.decisions import decide
from odradek.handlers.handler import Handler
from odradek.model.errors import ApiError
from odradek.wire.generated.list_partition_reassignments_request import (
    ListPartitionReassignmentsRequest,
)
from odradek.wire.generated.list_partition_reassignments_response import (
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)


def _error_response(
    request: ListPartitionReassignmentsRequest, error: ApiError
) -> ListPartitionReassignmentsResponse:
    """Return the error, and the requested partitions without replicas."""
    return ListPartitionReassignmentsResponse(
        error_code=error.code,
        error_message=error.message,
        topics=[
            OngoingTopicReassignment(
                name=topic.name,
                partitions=[
                    OngoingPartitionReassignment(partition_index=each)
                    for each in topic.partition_indexes
                ],
            )
            for topic in request.topics or ()
        ],
    )


HANDLER = Handler(
    request=ListPartitionReassignmentsRequest,
    controller=decide,
    error_response=_error_response,
)
