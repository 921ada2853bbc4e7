"""AddRaftVoter (80), versions 0-1: a controller becomes a voter of the metadata quorum (KIP-853).

- The controller must follow the log as an observer, and its address must respond to ApiVersions.
- The response is sent when the new voters are committed, or, with version 1, when they are appended
  if `ack_when_committed` is false (KIP-1186).
- A controller listener of a node that does not lead responds with NOT_LEADER_OR_FOLLOWER.
- The quorum's machine decides (`odradek.core.raft.reconfiguration`).
"""

from __future__ import annotations

from collections.abc import Awaitable

from odradek.broker.clients.request_context import RequestContext
from odradek.broker.controller.controller import Controller
from odradek.handlers.authorization import AclOperation, require_cluster
from odradek.handlers.handler import Handler
from odradek.wire.generated.add_raft_voter_request import AddRaftVoterRequest
from odradek.wire.primitives import Message


def handle(
    controller: Controller, context: RequestContext, request: AddRaftVoterRequest
) -> Awaitable[Message]:
    """Pass the request to the quorum."""
    require_cluster(controller, context, AclOperation.ALTER)
    return controller.quorum.answer(request)


HANDLER = Handler(request=AddRaftVoterRequest, controller=handle)
