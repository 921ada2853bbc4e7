"""The interface of the share coordinator for its clients (Kafka's `Persister`).

The leader of a topic's partition reads and writes the state of its share partitions. The group
coordinator initializes, deletes and summarizes this state. The coordinator of a share partition may
be on another broker. The interface has the requests and responses of KIP-932, so callers are
independent of where the state is stored. Writes, which follow every acknowledgement, are an
exception: they concern one share partition, and return at once if the state is stored at once.
"""

from __future__ import annotations

import asyncio
from typing import Protocol

from odradek.core.share_coordinator.key import SharePartitionKey
from odradek.wire.generated.delete_share_group_state_request import DeleteShareGroupStateRequest
from odradek.wire.generated.delete_share_group_state_response import DeleteShareGroupStateResponse
from odradek.wire.generated.initialize_share_group_state_request import (
    InitializeShareGroupStateRequest,
)
from odradek.wire.generated.initialize_share_group_state_response import (
    InitializeShareGroupStateResponse,
)
from odradek.wire.generated.read_share_group_state_request import ReadShareGroupStateRequest
from odradek.wire.generated.read_share_group_state_response import ReadShareGroupStateResponse
from odradek.wire.generated.read_share_group_state_summary_request import (
    ReadShareGroupStateSummaryRequest,
)
from odradek.wire.generated.read_share_group_state_summary_response import (
    ReadShareGroupStateSummaryResponse,
)
from odradek.wire.generated.write_share_group_state_request import PartitionData as WritePartition
from odradek.wire.generated.write_share_group_state_response import PartitionResult as WriteResult


class Persister(Protocol):
    """Stores the state of share partitions.

    A request may contain several topics and partitions of one group. The response has a result for
    each of them. An error is part of the response: a method raises no `ApiError`. Errors that may
    pass (the coordinator moves, loads, or cannot be reached) are retried before the method returns.
    After that, the caller gets Kafka's error for each partition: NOT_COORDINATOR,
    COORDINATOR_NOT_AVAILABLE, COORDINATOR_LOAD_IN_PROGRESS or NETWORK_EXCEPTION.

    Writes of one share partition are applied in the order of the calls.
    """

    async def initialize(
        self, request: InitializeShareGroupStateRequest, /
    ) -> InitializeShareGroupStateResponse:
        """Store the start offset and the state epoch of new share partitions (key 83)."""
        ...

    async def read(self, request: ReadShareGroupStateRequest, /) -> ReadShareGroupStateResponse:
        """Return the state of share partitions (key 84).

        A start offset of -1 means that `share.auto.offset.reset` determines the start offset.
        """
        ...

    def write(
        self, key: SharePartitionKey, data: WritePartition, /
    ) -> WriteResult | asyncio.Future[WriteResult]:
        """Store a change of a share partition (key 85). Return the result, or a future of it.

        A start offset of -1 does not change the start offset.
        """
        ...

    async def delete(
        self, request: DeleteShareGroupStateRequest, /
    ) -> DeleteShareGroupStateResponse:
        """Delete the state of share partitions (key 86)."""
        ...

    async def read_summary(
        self, request: ReadShareGroupStateSummaryRequest, /
    ) -> ReadShareGroupStateSummaryResponse:
        """Return the start offsets and state epochs of share partitions (key 87)."""
        ...
