"""AlterConfigs (33), versions 0-2: all settings of a resource are replaced.

- Settings that are not in the request are removed. Therefore clients should use
  IncrementalAlterConfigs.
- Loggers cannot be changed. Settings of another broker cannot be changed.
"""

from __future__ import annotations

from collections.abc import Sequence

from odradek.broker.broker import Broker
from odradek.broker.clients.request_context import RequestContext
from odradek.handlers.authorization import AclOperation, require_cluster
from odradek.handlers.config_resources import (
    answers_in_order,
    check_keys_of_listeners,
    check_own_id,
    check_resource,
    check_settings,
    repeated,
)
from odradek.handlers.decisions import decide
from odradek.handlers.handler import Handler
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
    """Forward the request to the controller. Resources of other brokers are rejected here."""
    repeated_names = repeated(request.resources)

    def here(resource: AlterConfigsResource) -> AlterConfigsResourceResponse | None:
        try:
            check_resource(resource, repeated_names)
            check_settings(resource.configs)
            if resource.resource_type == ResourceType.BROKER_LOGGER:
                problem = f"Unknown resource type {resource.resource_type}"
                raise ApiError(ErrorCode.INVALID_REQUEST, problem)
            if resource.resource_type == ResourceType.BROKER:
                require_cluster(broker, context, AclOperation.ALTER_CONFIGS)
            if resource.resource_type == ResourceType.BROKER and resource.resource_name:
                check_own_id(broker, resource.resource_name)
                values = {
                    each.name: each.value for each in resource.configs if each.value is not None
                }
                check_keys_of_listeners(broker, context, values, values)
        except ApiError as error:
            return AlterConfigsResourceResponse(
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
                error_code=error.code,
                error_message=error.message,
            )
        return None

    async def by_controller(
        left: list[AlterConfigsResource],
    ) -> Sequence[AlterConfigsResourceResponse]:
        forwarded = AlterConfigsRequest(resources=left, validate_only=request.validate_only)
        answer: AlterConfigsResponse = await broker.controller.submit(context, forwarded)
        return answer.responses

    return AlterConfigsResponse(
        responses=await answers_in_order(request.resources, here, by_controller)
    )


HANDLER = Handler(request=AlterConfigsRequest, handle=handle, controller=decide)
