"""UnregisterBroker (64), version 0: the controller removes the registration of a broker.

- If the broker is not registered, the error is BROKER_ID_NOT_REGISTERED.
"""

from __future__ import annotations

from odradek.handlers.decisions import decide
from odradek.handlers.handler import Handler
from odradek.wire.generated.unregister_broker_request import UnregisterBrokerRequest

HANDLER = Handler(request=UnregisterBrokerRequest, controller=decide)
