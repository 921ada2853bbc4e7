"""UnregisterController (94), version 0: the controller removes the registration of a controller.

- If the controller is not registered, the error is CONTROLLER_ID_NOT_REGISTERED.
- The active controller refuses to unregister itself (INVALID_REQUEST). A controller that runs
  registers again, so it must be stopped first. Removing it from the voters is RemoveRaftVoter.
- Below metadata.version 33 (4.4-IV2), the error is UNSUPPORTED_VERSION.
"""

from __future__ import annotations

from odradek.handlers.decisions import decide
from odradek.handlers.handler import Handler
from odradek.wire.generated.unregister_controller_request import UnregisterControllerRequest

HANDLER = Handler(request=UnregisterControllerRequest, controller=decide)
