"""FetchSnapshot (59), versions 0-1: a replica of the metadata log fetches a snapshot (KIP-630).

- Each response has at most 1 MiB of the snapshot's file, and its size.
- Only the leader of the quorum responds with data.
- The quorum's machine decides (`odradek.core.raft`).
"""

from __future__ import annotations

from collections.abc import Awaitable

from odradek.broker.clients.request_context import RequestContext
from odradek.broker.controller.controller import Controller
from odradek.handlers.authorization import AclOperation, require_cluster
from odradek.handlers.handler import Handler
from odradek.wire.generated.fetch_snapshot_request import FetchSnapshotRequest
from odradek.wire.primitives import Message


def handle(
    controller: Controller, context: RequestContext, request: FetchSnapshotRequest
) -> Awaitable[Message]:
    """Pass the request to the quorum."""
    require_cluster(controller, context, AclOperation.CLUSTER_ACTION)
    return controller.quorum.answer(request)


HANDLER = Handler(request=FetchSnapshotRequest, controller=handle)
