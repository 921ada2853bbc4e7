"""BeginQuorumEpoch (53), versions 0-1: a new leader of the quorum announces itself (KIP-595).

- Before version 1, the address of the leader is not in the request. It must be one of the voters.
- The quorum's machine decides (`odradek.core.raft`).
"""

from __future__ import annotations

from collections.abc import Awaitable

from odradek.broker.clients.request_context import RequestContext
from odradek.broker.controller.controller import Controller
from odradek.handlers.authorization import AclOperation, require_cluster
from odradek.handlers.handler import Handler
from odradek.wire.generated.begin_quorum_epoch_request import BeginQuorumEpochRequest
from odradek.wire.primitives import Message


def handle(
    controller: Controller, context: RequestContext, request: BeginQuorumEpochRequest
) -> Awaitable[Message]:
    """Pass the request to the quorum."""
    require_cluster(controller, context, AclOperation.CLUSTER_ACTION)
    return controller.quorum.answer(request)


HANDLER = Handler(request=BeginQuorumEpochRequest, controller=handle)
