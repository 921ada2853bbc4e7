"""ReadShareGroupState (84), version 0: return the state of share partitions (KIP-932).

The leader of a partition sends this request before it serves the share partition. From then on,
writes of earlier leaders are fenced.

Only brokers send this request. It needs CLUSTER_ACTION on the cluster.
"""

from __future__ import annotations

from odradek.broker.coordinator.share_apis import READ
from odradek.handlers.share_state import handler

HANDLER = handler(READ)
