"""Vote (52), versions 0-2: a candidate of the metadata quorum requests a vote (KIP-595, KIP-996).

- Version 2 adds pre-votes. Before version 1, directory ids are unknown, and not checked.
- The response is sent when the vote is durable.
- The quorum's machine decides (`odradek.core.raft`).
"""

from __future__ import annotations

from collections.abc import Awaitable

from odradek.broker.clients.request_context import RequestContext
from odradek.broker.controller.controller import Controller
from odradek.handlers.authorization import AclOperation, require_cluster
from odradek.handlers.handler import Handler
from odradek.wire.generated.vote_request import VoteRequest
from odradek.wire.primitives import Message


def handle(
    controller: Controller, context: RequestContext, request: VoteRequest
) -> Awaitable[Message]:
    """Pass the request to the quorum."""
    require_cluster(controller, context, AclOperation.CLUSTER_ACTION)
    return controller.quorum.answer(request)


HANDLER = Handler(request=VoteRequest, controller=handle)
