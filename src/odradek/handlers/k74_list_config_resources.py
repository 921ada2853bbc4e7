"""ListConfigResources (74), versions 0-1: the resources that may have settings (KIP-1142).

- Version 0 lists client metrics only. Version 1 lists the requested types of resources, or all
  types if the request contains none.
- Groups and client metrics are listed if they have settings. All topics and brokers are listed.
- An unknown type gets the error UNSUPPORTED_VERSION.
"""

from __future__ import annotations

from collections.abc import Iterable

from odradek.broker.broker import Broker
from odradek.broker.clients.request_context import RequestContext
from odradek.broker.metadata.listener_view import ListenerView
from odradek.handlers.authorization import AclOperation, require_cluster
from odradek.handlers.handler import Handler
from odradek.model.config_resource import ResourceType
from odradek.model.errors import ApiError, ErrorCode
from odradek.wire.generated.list_config_resources_request import ListConfigResourcesRequest
from odradek.wire.generated.list_config_resources_response import (
    ConfigResource,
    ListConfigResourcesResponse,
)

KINDS = {
    0: (ResourceType.CLIENT_METRICS,),
    1: (
        ResourceType.TOPIC,
        ResourceType.BROKER,
        ResourceType.BROKER_LOGGER,
        ResourceType.CLIENT_METRICS,
        ResourceType.GROUP,
    ),
}
"""Version of the API -> the types of resources that it lists."""


def handle(
    broker: Broker, context: RequestContext, request: ListConfigResourcesRequest
) -> ListConfigResourcesResponse:
    """Return the names of the resources, ordered by type.

    Raises:
        ApiError: UNSUPPORTED_VERSION: the request contains an unknown type.
    """
    require_cluster(broker, context, AclOperation.DESCRIBE_CONFIGS)
    kinds = KINDS[context.api_version]
    for kind in request.resource_types:
        if kind not in kinds:
            raise ApiError(ErrorCode.UNSUPPORTED_VERSION)
    wanted = [
        kind for kind in kinds if not request.resource_types or kind in request.resource_types
    ]
    resources = [
        ConfigResource(resource_name=name, resource_type=kind)
        for kind in wanted
        for name in _names(broker, context, kind)
    ]
    return ListConfigResourcesResponse(config_resources=resources)


def _names(broker: Broker, context: RequestContext, kind: ResourceType) -> Iterable[str]:
    image = broker.metadata.image
    match kind:
        case ResourceType.TOPIC:
            return image.topics.by_name
        case ResourceType.BROKER | ResourceType.BROKER_LOGGER:
            view = ListenerView(image, broker.config, context.peer)
            return [str(each.id) for each, _ in view.brokers(with_fenced=True)]
        case ResourceType.CLIENT_METRICS | ResourceType.GROUP:
            return [each.name for each in image.configs.by_resource if each.type == kind]


HANDLER = Handler(request=ListConfigResourcesRequest, handle=handle)
