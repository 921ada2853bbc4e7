"""ElectLeaders (43), versions 0-2: the controller elects preferred or unclean leaders.

- Unclean leaders can be elected from version 1 on.
- If partitions are null, leaders of all partitions are elected. The response then omits partitions
  that need no election.
- A partition that needs no election gets the error ELECTION_NOT_NEEDED. A partition without an
  eligible leader gets PREFERRED_LEADER_NOT_AVAILABLE or ELIGIBLE_LEADERS_NOT_AVAILABLE.
"""

from __future__ import annotations

from odradek.handlers.decisions import decide
from odradek.handlers.handler import Handler
from odradek.model.errors import ApiError
from odradek.wire.generated.elect_leaders_request import ElectLeadersRequest
from odradek.wire.generated.elect_leaders_response import (
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)


def _error_response(request: ElectLeadersRequest, error: ApiError) -> ElectLeadersResponse:
    """Return the error of the request, and the same error for each requested partition."""
    return ElectLeadersResponse(
        error_code=error.code,
        replica_election_results=[
            ReplicaElectionResult(
                topic=topic.topic,
                partition_result=[
                    PartitionResult(
                        partition_id=each, error_code=error.code, error_message=error.message
                    )
                    for each in topic.partitions
                ],
            )
            for topic in request.topic_partitions or ()
        ],
    )


HANDLER = Handler(
    request=ElectLeadersRequest,
    controller=decide,
    error_response=_error_response,
)
