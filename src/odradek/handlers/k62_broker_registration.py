"""BrokerRegistration (62), versions 0-4: a broker joins the cluster.

- The response has the broker epoch. The broker is fenced until its heartbeats have unfenced it.
- If the session of an earlier incarnation has not expired, the error is
  DUPLICATE_BROKER_REGISTRATION.
- Only the active controller serves it. A standby responds with NOT_CONTROLLER.
"""

from __future__ import annotations

from odradek.handlers.decisions import decide
from odradek.handlers.handler import Handler
from odradek.wire.generated.broker_registration_request import BrokerRegistrationRequest

HANDLER = Handler(request=BrokerRegistrationRequest, controller=decide)
