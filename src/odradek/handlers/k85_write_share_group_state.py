"""WriteShareGroupState (85), versions 0-1: change the state of share partitions (KIP-932).

The leader of a partition sends this request when the delivery state of records has changed. Version
1 has the number of records after the start offset whose delivery is complete.

Only brokers send this request. It needs CLUSTER_ACTION on the cluster.
"""

from __future__ import annotations

from odradek.broker.coordinator.share_apis import WRITE
from odradek.handlers.share_state import handler

HANDLER = handler(WRITE)
