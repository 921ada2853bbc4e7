"""The handler of the five APIs of the share coordinator (KIP-932). Only brokers send their requests."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

from odradek.broker.broker import Broker
from odradek.broker.clients.request_context import RequestContext
from odradek.broker.coordinator.share_apis import ShareStateApi
from odradek.handlers.authorization import AclOperation, require_cluster
from odradek.handlers.handler import Handler


def handler(api: ShareStateApi) -> Handler:
    """Return the handler of an API, whose response has a result for each share partition.

    The requests need CLUSTER_ACTION on the cluster.
    """

    def handle(broker: Broker, context: RequestContext, request: Any) -> Awaitable[Any]:
        require_cluster(broker, context, AclOperation.CLUSTER_ACTION)
        return broker.coordinators.shares.answer(api, request)

    return Handler(request=api.request, handle=handle)
