"""IncrementalAlterConfigs (44), versions 0-1: single settings of a resource are changed.

- A setting can be set or deleted. Values can be appended to a list or subtracted from it.
- If one change of a resource is invalid, the resource is not changed. If a request contains a
  resource twice, the error is INVALID_REQUEST.
- The settings of a broker can be changed only by a request to this broker. An empty broker name
  means all brokers.
- If the new settings name a file with a key or certificates that cannot be used, the error is
  INVALID_REQUEST.
- A node changes the levels of its loggers immediately. The new levels last until the node stops.
  The active controller changes all other resources.
- A controller that is not active changes its loggers, too (KIP-919).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from odradek.broker.broker import Broker
from odradek.broker.clients.request_context import RequestContext
from odradek.broker.controller.controller import Controller
from odradek.broker.settings import loggers
from odradek.config.alter import apply_operation, check_broker_values
from odradek.handlers.authorization import AclOperation, require_cluster
from odradek.handlers.config_resources import (
    answers_in_order,
    check_keys_of_listeners,
    check_own_id,
    check_resource,
    check_settings,
    repeated,
)
from odradek.handlers.handler import Handler
from odradek.model.config_resource import Operation, ResourceType
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
    repeated_names = repeated(request.resources)

    def here(resource: AlterConfigsResource) -> AlterConfigsResourceResponse | None:
        removed = [e.name for e in resource.configs if e.config_operation == Operation.DELETE]
        try:
            check_resource(resource, repeated_names)
            check_settings(resource.configs, removed)
            if resource.resource_type == ResourceType.BROKER:
                require_cluster(broker, context, AclOperation.ALTER_CONFIGS)
                if resource.resource_name:
                    check_own_id(broker, resource.resource_name)
                _check_values(resource)
                if resource.resource_name:
                    _check_files(broker, context, resource, removed)
        except ApiError as error:
            return _response(resource, error)
        return _alter_loggers(
            broker, context, resource, request, operation=AclOperation.ALTER_CONFIGS
        )

    return await _alter(context, request, here, broker.controller.submit)


def _check_values(resource: AlterConfigsResource) -> None:
    """Check each change of a broker's settings by itself."""
    values: dict[str, str] = {}
    for each in resource.configs:
        if each.config_operation == Operation.SET and each.value is not None:
            values[each.name] = each.value
        elif each.config_operation in (Operation.APPEND, Operation.SUBTRACT):
            operation = Operation(each.config_operation)
            apply_operation(ResourceType.BROKER, each.name, operation, None, each.value)
    check_broker_values(values, per_broker=bool(resource.resource_name))


def _check_files(
    broker: Broker, context: RequestContext, resource: AlterConfigsResource, removed: Sequence[str]
) -> None:
    """Check the files that the settings of this broker name after the change."""
    values = dict(broker.metadata.image.configs.of(ResourceType.BROKER, resource.resource_name))
    for each in resource.configs:
        if each.config_operation == Operation.SET and each.value is not None:
            values[each.name] = each.value
    for name in removed:
        values.pop(name, None)
    check_keys_of_listeners(broker, context, [each.name for each in resource.configs], values)


async def handle_on_controller(
    controller: Controller, context: RequestContext, request: IncrementalAlterConfigsRequest
) -> IncrementalAlterConfigsResponse:
    """Change loggers of this controller; the active controller decides on all other resources."""

    def here(resource: AlterConfigsResource) -> AlterConfigsResourceResponse | None:
        return _alter_loggers(
            controller, context, resource, request, operation=AclOperation.CLUSTER_ACTION
        )

    return await _alter(context, request, here, controller.decisions.submit)


async def _alter(
    context: RequestContext,
    request: IncrementalAlterConfigsRequest,
    here: Callable[[AlterConfigsResource], AlterConfigsResourceResponse | None],
    submit: Callable[[RequestContext, Any], Awaitable[Any]],
) -> IncrementalAlterConfigsResponse:
    """Change what `here` changes, and submit the other resources to the active controller."""

    async def by_controller(
        left: list[AlterConfigsResource],
    ) -> Sequence[AlterConfigsResourceResponse]:
        forwarded = IncrementalAlterConfigsRequest(
            resources=left, validate_only=request.validate_only
        )
        answer: IncrementalAlterConfigsResponse = await submit(context, forwarded)
        return answer.responses

    return IncrementalAlterConfigsResponse(
        responses=await answers_in_order(request.resources, here, by_controller)
    )


_DONE = ApiError(ErrorCode.NONE)


def _alter_loggers(
    node: Broker | Controller,
    context: RequestContext,
    resource: AlterConfigsResource,
    request: IncrementalAlterConfigsRequest,
    *,
    operation: AclOperation,
) -> AlterConfigsResourceResponse | None:
    """Change loggers; the client needs `operation`. Return None if the resource is another one."""
    if resource.resource_type != ResourceType.BROKER_LOGGER:
        return None
    try:
        require_cluster(node, context, operation)
        check_own_id(node, resource.resource_name)
        loggers.alter(resource.configs, request.validate_only)
    except ApiError as error:
        return _response(resource, error)
    return _response(resource, _DONE)


def _response(resource: AlterConfigsResource, error: ApiError) -> AlterConfigsResourceResponse:
    return AlterConfigsResourceResponse(
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        error_code=error.code,
        error_message=None if error.code is ErrorCode.NONE else error.message,
    )


HANDLER = Handler(
    request=IncrementalAlterConfigsRequest,
    handle=handle,
    controller=handle_on_controller,
)
