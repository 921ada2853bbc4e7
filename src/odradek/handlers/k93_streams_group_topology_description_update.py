"""StreamsGroupTopologyDescriptionUpdate (93), version 0: a member describes its topology (KIP-1331).

- The error is UNSUPPORTED_VERSION if Streams groups are not enabled, or if this broker keeps no
  descriptions (`group.streams.topology.description.plugin.class`).
- The error STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED means that the description is too large. Then
  members are not asked again.
"""

from __future__ import annotations

from odradek.broker.broker import Broker
from odradek.broker.clients.request_context import RequestContext
from odradek.handlers.authorization import GROUP, AclOperation, require
from odradek.handlers.handler import Handler
from odradek.handlers.streams_groups import check_enabled
from odradek.wire.generated.streams_group_topology_description_update_request import (
    StreamsGroupTopologyDescriptionUpdateRequest,
)
from odradek.wire.generated.streams_group_topology_description_update_response import (
    StreamsGroupTopologyDescriptionUpdateResponse,
)


async def handle(
    broker: Broker,
    context: RequestContext,
    request: StreamsGroupTopologyDescriptionUpdateRequest,
) -> StreamsGroupTopologyDescriptionUpdateResponse:
    """Store the description."""
    check_enabled(broker)
    require(broker, context, AclOperation.READ, GROUP, request.group_id)
    return await broker.coordinators.groups.update_topology_description(request)


HANDLER = Handler(request=StreamsGroupTopologyDescriptionUpdateRequest, handle=handle)
