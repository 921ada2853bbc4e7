"""DescribeConfigs (32), versions 1-4: settings, their values, and the sources of the values.

- The types of resources are topic (2), broker (4), broker logger (8), client metrics (16) and group
  (32). An empty broker name means the defaults of all brokers.
- The id of another broker gets the error INVALID_REQUEST. Clients send a request to each broker for
  its own settings.
- Synonyms and documentation are returned only if requested. Sensitive values are never returned.
- A controller listener returns the settings and the loggers of the controller (KIP-919).
"""

from __future__ import annotations

from odradek.broker.broker import Broker
from odradek.broker.clients.request_context import RequestContext
from odradek.broker.controller.controller import Controller
from odradek.broker.settings import loggers
from odradek.config.definition import SettingType
from odradek.config.describe import (
    Described,
    describe_broker,
    describe_client_metrics,
    describe_cluster_default,
    describe_group,
    describe_topic,
)
from odradek.handlers.authorization import GROUP, TOPIC, AclOperation, require, require_cluster
from odradek.handlers.handler import Handler
from odradek.handlers.pieces import Pieces
from odradek.model.config_resource import ResourceType, Source
from odradek.model.errors import ApiError, ErrorCode
from odradek.model.topic_name import name_problem
from odradek.wire.generated.describe_configs_request import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from odradek.wire.generated.describe_configs_response import (
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)

_TYPES = frozenset(ResourceType)


def handle(
    node: Broker | Controller, context: RequestContext, request: DescribeConfigsRequest
) -> DescribeConfigsResponse:
    """Return one result per resource.

    Raises:
        ApiError: INVALID_REQUEST: a resource has an unknown type.
    """
    for each in request.resources:
        if each.resource_type not in _TYPES:
            raise ApiError(
                ErrorCode.INVALID_REQUEST,
                f"Unexpected resource type {each.resource_type} for resource {each.resource_name}",
            )
    return DescribeConfigsResponse(
        results=[_result(node, context, each, request) for each in request.resources]
    )


def _result(
    node: Broker | Controller,
    context: RequestContext,
    resource: DescribeConfigsResource,
    request: DescribeConfigsRequest,
) -> DescribeConfigsResult:
    result = DescribeConfigsResult(
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        error_message=None,
    )
    try:
        _authorize(node, context, resource)
        described = _describe(node, resource)
    except ApiError as error:
        result.error_code, result.error_message = error.code, error.message
        return result
    result.configs = [_setting(each, request) for each in described]
    return result


def _authorize(
    node: Broker | Controller, context: RequestContext, resource: DescribeConfigsResource
) -> None:
    """Check that the client may see the settings of a resource.

    Raises:
        ApiError: TOPIC_, GROUP_ or CLUSTER_AUTHORIZATION_FAILED.
    """
    operation, name = AclOperation.DESCRIBE_CONFIGS, resource.resource_name
    match resource.resource_type:
        case ResourceType.TOPIC:
            require(node, context, operation, TOPIC, name)
        case ResourceType.GROUP:
            require(node, context, operation, GROUP, name)
        case _:
            require_cluster(node, context, operation)


def _describe(node: Broker | Controller, resource: DescribeConfigsResource) -> list[Described]:
    name, keys = resource.resource_name, resource.configuration_keys
    configs = node.metadata.image.configs
    match resource.resource_type:
        case ResourceType.TOPIC:
            _check_topic(node, name)
            return describe_topic(configs.of(ResourceType.TOPIC, name), node.config, keys)
        case ResourceType.BROKER if not name:
            return describe_cluster_default(node.config, keys)
        case ResourceType.BROKER:
            _check_own_id(node, name, "or empty string, ")
            return describe_broker(node.config, keys)
        case ResourceType.BROKER_LOGGER:
            _check_own_id(node, name, "")
            return _describe_loggers(keys)
        case ResourceType.CLIENT_METRICS:
            _check_named(name, "Client metrics subscription")
            return describe_client_metrics(configs.of(ResourceType.CLIENT_METRICS, name), keys)
        case ResourceType.GROUP:
            _check_named(name, "Group")
            return describe_group(configs.of(ResourceType.GROUP, name), node.config, keys)
        case unknown:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"Unsupported resource type: {unknown}")


def _check_topic(node: Broker | Controller, name: str) -> None:
    problem = name_problem(name)
    if problem is not None:
        raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, problem)
    if name not in node.metadata.image.topics.by_name:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "")


def _check_own_id(node: Broker | Controller, name: str, otherwise: str) -> None:
    try:
        int(name)
    except ValueError as error:
        problem = f"Broker id must be an integer, but it is: {name}"
        raise ApiError(ErrorCode.INVALID_REQUEST, problem) from error
    if name != str(node.node_id):
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            f"Unexpected broker id, expected {node.node_id} {otherwise}but received {name}",
        )


def _check_named(name: str, kind: str) -> None:
    if not name:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"{kind} name must not be empty")


def _describe_loggers(names: list[str] | None) -> list[Described]:
    return [
        Described(
            name=name,
            value=level,
            source=Source.DYNAMIC_BROKER_LOGGER,
            read_only=False,
            sensitive=False,
            synonyms=(),
            type=SettingType.UNKNOWN,
            documentation=None,
        )
        for name, level in loggers.levels().items()
        if not names or name in names
    ]


def _setting(each: Described, request: DescribeConfigsRequest) -> DescribeConfigsResourceResult:
    result = DescribeConfigsResourceResult(
        name=each.name,
        value=each.value,
        read_only=each.read_only,
        config_source=each.source,
        is_sensitive=each.sensitive,
        config_type=each.type,
        documentation=each.documentation if request.include_documentation else None,
    )
    if request.include_synonyms:
        result.synonyms = [
            DescribeConfigsSynonym(name=synonym.name, value=synonym.text, source=synonym.source)
            for synonym in each.synonyms
        ]
    return result


HANDLER = Handler(
    request=DescribeConfigsRequest,
    handle=handle,
    controller=handle,
    pieces=Pieces("resources", "results", 10),
)
