"""BrokerHeartbeat (63), versions 0-2: a broker extends its session.

- The request says how far the broker has read the metadata, whether it wants to be fenced or to
  shut down, and which log directories have failed. The response says what it may do.
- A broker with another broker epoch gets the error STALE_BROKER_EPOCH.
- Only the active controller serves it. A standby responds with NOT_CONTROLLER.
"""

from __future__ import annotations

from odradek.handlers.decisions import decide
from odradek.handlers.handler import Handler
from odradek.wire.generated.broker_heartbeat_request import BrokerHeartbeatRequest

HANDLER = Handler(request=BrokerHeartbeatRequest, controller=decide)
