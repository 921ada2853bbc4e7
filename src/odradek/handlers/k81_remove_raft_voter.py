"""RemoveRaftVoter (81), version 0: a controller is no longer a voter (KIP-853).

- If the leader is removed, it leads until the new voters are committed, and then resigns.
- The last voter cannot be removed: VOTER_NOT_FOUND, as in Apache Kafka.
- A controller listener of a node that does not lead responds with NOT_LEADER_OR_FOLLOWER.
- The quorum's machine decides (`odradek.core.raft.reconfiguration`).
"""

from __future__ import annotations

from collections.abc import Awaitable

from odradek.broker.clients.request_context import RequestContext
from odradek.broker.controller.controller import Controller
from odradek.handlers.authorization import AclOperation, require_cluster
from odradek.handlers.handler import Handler
from odradek.wire.generated.remove_raft_voter_request import RemoveRaftVoterRequest
from odradek.wire.primitives import Message


def handle(
    controller: Controller, context: RequestContext, request: RemoveRaftVoterRequest
) -> Awaitable[Message]:
    """Pass the request to the quorum."""
    require_cluster(controller, context, AclOperation.ALTER)
    return controller.quorum.answer(request)


HANDLER = Handler(request=RemoveRaftVoterRequest, controller=handle)
