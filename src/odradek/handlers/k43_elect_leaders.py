"""ElectLeaders (43), versions 0-2: preferred or (from version 1 on) unclean leaders are elected.

- Decided by the controller. Null partitions mean all; the response then omits partitions that
  already have this leader.
- A partition that already has this leader is ELECTION_NOT_NEEDED; one without an eligible leader is
  PREFERRED_LEADER_NOT_AVAILABLE or ELIGIBLE_LEADERS_NOT_AVAILABLE.
"""

from __future__ import annotations

from odradek.handlers.handler import Handler
from odradek.wire.generated.elect_leaders_request import ElectLeadersRequest

HANDLER = Handler(request=ElectLeadersRequest, versions=(0, 2), forwarded=True)
