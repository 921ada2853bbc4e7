"""AllocateProducerIds (67), version 0: a broker gets a block of producer ids.

- Each block has 1000 ids. An id belongs to one block only.
- Only the active controller serves it. A standby responds with NOT_CONTROLLER.
"""

from __future__ import annotations

from odradek.handlers.decisions import decide
from odradek.handlers.handler import Handler
from odradek.wire.generated.allocate_producer_ids_request import AllocateProducerIdsRequest

HANDLER = Handler(request=AllocateProducerIdsRequest, controller=decide)
