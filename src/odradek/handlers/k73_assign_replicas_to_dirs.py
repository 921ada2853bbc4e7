"""AssignReplicasToDirs (73), version 0: a broker reports the directories of its replicas.

- The request names replicas by log directory (KIP-858). If a directory has failed, the controller
  elects another leader.
- Only the active controller serves it. A standby responds with NOT_CONTROLLER.
"""

from __future__ import annotations

from odradek.handlers.decisions import decide
from odradek.handlers.handler import Handler
from odradek.wire.generated.assign_replicas_to_dirs_request import AssignReplicasToDirsRequest

HANDLER = Handler(request=AssignReplicasToDirsRequest, controller=decide)
