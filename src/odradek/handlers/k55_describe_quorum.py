"""DescribeQuorum (55), versions 0-2: leader and voters of the metadata log (KIP-595, KIP-853).

- The controller responds. All partitions except the partition of the metadata log get the error
  UNKNOWN_TOPIC_OR_PARTITION.
- Version 2 adds the directory ids and the endpoints of the voters.
"""

from __future__ import annotations

from odradek.handlers.decisions import decide
from odradek.handlers.handler import Handler
from odradek.wire.generated.describe_quorum_request import DescribeQuorumRequest

HANDLER = Handler(request=DescribeQuorumRequest, controller=decide)
