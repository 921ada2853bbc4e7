"""IncrementalAlterConfigs (44), versions 0-1: single settings of a resource are changed.

- A setting can be set or deleted. Values can be appended to a list or subtracted from it.
- If one change of a resource is invalid, the resource is not changed. If a request contains a
  resource twice, the error is INVALID_REQUEST.
- The settings of a broker can be changed only by a request to this broker. An empty broker name
  means all brokers.
- This broker changes the levels of its loggers immediately. The new levels last until the node
  stops. The controller changes all other resources.
"""

from __future__ import annotations

from collections.abc import Sequence

from odradek.broker import loggers
from odradek.broker.broker import Broker
from odradek.broker.context import RequestContext
from odradek.handlers.authorization import AclOperation, require_cluster
from odradek.handlers.config_resources import answers_in_order, check_own_id
from odradek.handlers.decisions import decide
from odradek.handlers.handler import Handler
from odradek.model.config_resource import ResourceType
from odradek.model.errors import ApiError, ErrorCode
from odradek.wire.generated.incremental_alter_configs_request import (
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from odradek.wire.generated.incremental_alter_configs_response import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsResponse,
)


async def handle(
    broker: Broker, context: RequestContext, request: IncrementalAlterConfigsRequest
) -> IncrementalAlterConfigsResponse:
    """Change loggers of this broker; forward all other resources to the controller."""

    def here(resource: AlterConfigsResource) -> AlterConfigsResourceResponse | None:
        outcome = _alter_here(broker, context, resource, request)
        return None if outcome is None else _response(resource, outcome)

    async def by_controller(
        left: list[AlterConfigsResource],
    ) -> Sequence[AlterConfigsResourceResponse]:
        forwarded = IncrementalAlterConfigsRequest(
            resources=left, validate_only=request.validate_only
        )
        answer: IncrementalAlterConfigsResponse = await broker.controller.submit(context, forwarded)
        return answer.responses

    return IncrementalAlterConfigsResponse(
        responses=await answers_in_order(request.resources, here, by_controller)
    )


_DONE = ApiError(ErrorCode.NONE)


def _alter_here(
    broker: Broker,
    context: RequestContext,
    resource: AlterConfigsResource,
    request: IncrementalAlterConfigsRequest,
) -> ApiError | None:
    """Return the result, or None if the controller must change the resource."""
    try:
        if resource.resource_type == ResourceType.BROKER and resource.resource_name:
            check_own_id(broker, resource.resource_name)
        if resource.resource_type != ResourceType.BROKER_LOGGER:
            return None
        require_cluster(broker, context, AclOperation.ALTER_CONFIGS)
        check_own_id(broker, resource.resource_name)
        same = [each for each in request.resources if _name(each) == _name(resource)]
        if len(same) > 1:
            raise ApiError(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
        loggers.alter(resource.configs, request.validate_only)
    except ApiError as error:
        return error
    return _DONE


def _name(resource: AlterConfigsResource) -> tuple[int, str]:
    return resource.resource_type, resource.resource_name


def _response(resource: AlterConfigsResource, error: ApiError) -> AlterConfigsResourceResponse:
    return AlterConfigsResourceResponse(
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        error_code=error.code,
        error_message=None if error.code is ErrorCode.NONE else error.message,
    )


HANDLER = Handler(
    request=IncrementalAlterConfigsRequest,
    versions=(0, 1),
    handle=handle,
    controller=decide,
    forwarded=True,
)
