"""AlterPartition (56), versions 2-3: the leader of partitions changes their ISRs.

- If the sender is not the leader of a partition, or the leader epoch or partition epoch is not
  current, the partition gets an error, and the leader waits for newer metadata.
- From version 3 on the request has the broker epochs of the ISR's members (KIP-903).
- Only the active controller serves it. A standby responds with NOT_CONTROLLER.
"""

from __future__ import annotations

from odradek.handlers.decisions import decide
from odradek.handlers.handler import Handler
from odradek.wire.generated.alter_partition_request import AlterPartitionRequest

HANDLER = Handler(request=AlterPartitionRequest, controller=decide)
