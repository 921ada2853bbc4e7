"""ReadShareGroupStateSummary (87), versions 0-1: start offsets of share partitions (KIP-932).

The group coordinator sends this request to describe the offsets of a share group. Version 1 has the
number of records after the start offset whose delivery is complete.

Only brokers send this request. It needs CLUSTER_ACTION on the cluster.
"""

from __future__ import annotations

from odradek.broker.coordinator.share_apis import READ_SUMMARY
from odradek.handlers.share_state import handler

HANDLER = handler(READ_SUMMARY)
