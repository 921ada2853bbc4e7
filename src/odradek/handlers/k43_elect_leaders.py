"""ElectLeaders (43), versions 0-2: the controller elects preferred or unclean leaders.

- Unclean leaders can be elected from version 1 on.
- If partitions are null, leaders of all partitions are elected. The response then omits partitions
  that need no election.
- A partition that needs no election gets the error ELECTION_NOT_NEEDED. A partition without an
  eligible leader gets PREFERRED_LEADER_NOT_AVAILABLE or ELIGIBLE_LEADERS_NOT_AVAILABLE.
"""

from __future__ import annotations

from odradek.handlers.decisions import decide
from odradek.handlers.handler import Handler
from odradek.wire.generated.elect_leaders_request import ElectLeadersRequest

HANDLER = Handler(request=ElectLeadersRequest, versions=(0, 2), controller=decide, forwarded=True)
