"""AlterConfigs (33), versions 0-2: all settings of a resource are replaced.

- What is not named is removed: clients should use IncrementalAlterConfigs.
- Loggers cannot be changed by it; another broker's settings neither.
"""

from __future__ import annotations

from odradek.broker.broker import Broker
from odradek.broker.context import RequestContext
from odradek.handlers.handler import Handler
from odradek.handlers.k44_incremental_alter_configs import check_own_id
from odradek.model.config_resource import ResourceType
from odradek.model.errors import ApiError, ErrorCode
from odradek.wire.generated.alter_configs_request import AlterConfigsRequest, AlterConfigsResource
from odradek.wire.generated.alter_configs_response import (
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)


async def handle(
    broker: Broker, context: RequestContext, request: AlterConfigsRequest
) -> AlterConfigsResponse:
    """The controller decides; other brokers' resources do not reach it."""
    responses: dict[int, AlterConfigsResourceResponse] = {}
    for number, resource in enumerate(request.resources):
        try:
            if resource.resource_type == ResourceType.BROKER and resource.resource_name:
                check_own_id(broker, resource.resource_name)
        except ApiError as error:
            responses[number] = _response(resource, error)
    remaining = [each for each in range(len(request.resources)) if each not in responses]
    if remaining:
        forwarded = AlterConfigsRequest(
            resources=[request.resources[each] for each in remaining],
            validate_only=request.validate_only,
        )
        answer = await broker.controller.submit(context, forwarded)
        responses.update(zip(remaining, answer.responses, strict=True))
    return AlterConfigsResponse(responses=[responses[each] for each in sorted(responses)])


def _response(resource: AlterConfigsResource, error: ApiError) -> AlterConfigsResourceResponse:
    return AlterConfigsResourceResponse(
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        error_code=error.code,
        error_message=None if error.code is ErrorCode.NONE else error.message,
    )


HANDLER = Handler(request=AlterConfigsRequest, versions=(0, 2), handle=handle, forwarded=True)
