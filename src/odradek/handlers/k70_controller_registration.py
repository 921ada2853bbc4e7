"""ControllerRegistration (70), version 0: a controller registers its endpoints and features.

- It needs metadata.version 15 (KIP-919). Below that the error is UNSUPPORTED_VERSION.
- Only the active controller serves it. A standby responds with NOT_CONTROLLER.
"""

from __future__ import annotations

from odradek.handlers.decisions import decide
from odradek.handlers.handler import Handler
from odradek.wire.generated.controller_registration_request import ControllerRegistrationRequest

HANDLER = Handler(request=ControllerRegistrationRequest, controller=decide)
