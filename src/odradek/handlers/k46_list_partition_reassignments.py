"""ListPartitionReassignments (46), version 0: the reassignments in progress (KIP-455).

- The controller responds. Null topics request all reassignments. Partitions that do not exist or
  are not being reassigned are omitted, without an error.
"""

from __future__ import annotations

from odradek.handlers.decisions import decide
from odradek.handlers.handler import Handler
from odradek.wire.generated.list_partition_reassignments_request import (
    ListPartitionReassignmentsRequest,
)

HANDLER = Handler(
    request=ListPartitionReassignmentsRequest, versions=(0, 0), controller=decide, forwarded=True
)
