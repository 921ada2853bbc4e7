"""EndQuorumEpoch (54), versions 0-1: the leader of the metadata quorum resigns (KIP-595).

- The request names the successors. The first one starts an election at once, the others later.
- The quorum's machine decides (`odradek.core.raft`).
"""

from __future__ import annotations

from collections.abc import Awaitable

from odradek.broker.clients.request_context import RequestContext
from odradek.broker.controller.controller import Controller
from odradek.handlers.authorization import AclOperation, require_cluster
from odradek.handlers.handler import Handler
from odradek.wire.generated.end_quorum_epoch_request import EndQuorumEpochRequest
from odradek.wire.primitives import Message


def handle(
    controller: Controller, context: RequestContext, request: EndQuorumEpochRequest
) -> Awaitable[Message]:
    """Pass the request to the quorum."""
    require_cluster(controller, context, AclOperation.CLUSTER_ACTION)
    return controller.quorum.answer(request)


HANDLER = Handler(request=EndQuorumEpochRequest, controller=handle)
