"""DescribeQuorum (55), versions 0-2: leader and voters of the metadata log (KIP-595, KIP-853).

- Answered by the controller. A partition other than that of the metadata log is
  UNKNOWN_TOPIC_OR_PARTITION.
- Version 2 adds directory ids and the endpoints of voters.
"""

from __future__ import annotations

from odradek.handlers.handler import Handler
from odradek.wire.generated.describe_quorum_request import DescribeQuorumRequest

HANDLER = Handler(request=DescribeQuorumRequest, versions=(0, 2), forwarded=True)
