"""UpdateRaftVoter (82), version 0: a voter reports its addresses and its software (KIP-853).

- A voter sends it if the voters record has other addresses or other levels of kraft.version. The
  response is sent when the new record is appended.
- With kraft.version 0 each voter sends it to each new leader. The leader keeps it in memory until
  kraft.version is raised.
- The quorum's machine decides (`odradek.core.raft.reconfiguration`).
"""

from __future__ import annotations

from collections.abc import Awaitable

from odradek.broker.clients.request_context import RequestContext
from odradek.broker.controller.controller import Controller
from odradek.handlers.authorization import AclOperation, require_cluster
from odradek.handlers.handler import Handler
from odradek.wire.generated.update_raft_voter_request import UpdateRaftVoterRequest
from odradek.wire.primitives import Message


def handle(
    controller: Controller, context: RequestContext, request: UpdateRaftVoterRequest
) -> Awaitable[Message]:
    """Pass the request to the quorum."""
    require_cluster(controller, context, AclOperation.CLUSTER_ACTION)
    return controller.quorum.answer(request)


HANDLER = Handler(request=UpdateRaftVoterRequest, controller=handle)
