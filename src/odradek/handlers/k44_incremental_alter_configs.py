"""IncrementalAlterConfigs (44), versions 0-1: single settings are set, deleted, appended to.

- A resource is changed as a whole or not at all; one named twice is INVALID_REQUEST.
- Settings of a broker are changed by that broker or, under an empty name, for all of them.
- Loggers of this broker change at once and are not kept; all else is the controller's decision.
"""

from __future__ import annotations

from odradek.broker import loggers
from odradek.broker.broker import Broker
from odradek.broker.context import RequestContext
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
    """What concerns this node alone is done here, the rest by the controller."""
    responses: dict[int, AlterConfigsResourceResponse] = {}
    for number, resource in enumerate(request.resources):
        error = _alter_here(broker, resource, request)
        if error is not None:
            responses[number] = _response(resource, error)
    remaining = [each for each in range(len(request.resources)) if each not in responses]
    if remaining:
        forwarded = IncrementalAlterConfigsRequest(
            resources=[request.resources[each] for each in remaining],
            validate_only=request.validate_only,
        )
        answer = await broker.controller.submit(context, forwarded)
        responses.update(zip(remaining, answer.responses, strict=True))
    return IncrementalAlterConfigsResponse(
        responses=[responses[each] for each in sorted(responses)]
    )


_DONE = ApiError(ErrorCode.NONE)


def _alter_here(
    broker: Broker, resource: AlterConfigsResource, request: IncrementalAlterConfigsRequest
) -> ApiError | None:
    """The outcome, or None if it is the controller's to decide."""
    try:
        if resource.resource_type == ResourceType.BROKER and resource.resource_name:
            check_own_id(broker, resource.resource_name)
        if resource.resource_type != ResourceType.BROKER_LOGGER:
            return None
        check_own_id(broker, resource.resource_name)
        same = [each for each in request.resources if _name(each) == _name(resource)]
        if len(same) > 1:
            raise ApiError(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
        loggers.alter(resource.configs, request.validate_only)
    except ApiError as error:
        return error
    return _DONE


def check_own_id(broker: Broker, name: str) -> None:
    """Refuse to change the settings of another broker.

    Raises:
        ApiError: INVALID_REQUEST.
    """
    if name != str(broker.node_id):
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            f"Unexpected broker id, expected {broker.node_id}, but received {name}",
        )


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
    request=IncrementalAlterConfigsRequest, versions=(0, 1), handle=handle, forwarded=True
)
