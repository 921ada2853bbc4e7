"""DeleteShareGroupState (86), version 0: delete the state of share partitions (KIP-932).

The group coordinator sends this request when a share group or its offsets are deleted.

Only brokers send this request. It needs CLUSTER_ACTION on the cluster.
"""

from __future__ import annotations

from odradek.broker.coordinator.share_apis import DELETE
from odradek.handlers.share_state import handler

HANDLER = handler(DELETE)
