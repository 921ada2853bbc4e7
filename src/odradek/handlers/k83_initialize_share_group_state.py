"""InitializeShareGroupState (83), version 0: begin the state of share partitions (KIP-932).

The group coordinator sends this request before it assigns the partitions to members of a share
group, and when an administrator changes the start offsets.

Only brokers send this request. It needs CLUSTER_ACTION on the cluster.
"""

from __future__ import annotations

from odradek.broker.coordinator.share_apis import INITIALIZE
from odradek.handlers.share_state import handler

HANDLER = handler(INITIALIZE)
