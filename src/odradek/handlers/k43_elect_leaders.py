"""ElectLeaders (43), versions 0-2: preferred or (from version 1 on) unclean leaders are elected.

- Decided by the controller. Null partitions mean all; then those that have this leader already
  are left out.
- A partition with that leader is ELECTION_NOT_NEEDED; one for which there is none,
  PREFERRED_LEADER_NOT_AVAILABLE or ELIGIBLE_LEADERS_NOT_AVAILABLE.
"""

from __future__ import annotations

from odradek.handlers.handler import Handler
from odradek.wire.generated.elect_leaders_request import ElectLeadersRequest

HANDLER = Handler(request=ElectLeadersRequest, versions=(0, 2), forwarded=True)
