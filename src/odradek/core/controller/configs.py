"""Changes and replaces settings of topics, brokers, groups and client metrics.

`odradek.config.alter` checks all new settings of a resource together. If one value is invalid, no
setting of the resource changes. The log levels of a broker are not part of the metadata, so the
controller rejects changes of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeVar

from odradek.config.alter import (
    apply_operation,
    check_broker,
    check_client_metrics,
    check_group,
    check_topic,
)
from odradek.core.controller.state import ControllerState, Decision, check_record_count
from odradek.core.metadata.image import ConfigResource
from odradek.model.config_resource import Operation, ResourceType
from odradek.model.errors import ApiError, ErrorCode
from odradek.model.topic_name import name_problem
from odradek.wire.generated import alter_configs_response as legacy_wire
from odradek.wire.generated.alter_configs_request import AlterConfigsRequest
from odradek.wire.generated.alter_configs_request import AlterConfigsResource as LegacyResource
from odradek.wire.generated.alter_configs_response import AlterConfigsResponse
from odradek.wire.generated.clear_elr_record import ClearElrRecord
from odradek.wire.generated.config_record import ConfigRecord
from odradek.wire.generated.incremental_alter_configs_request import (
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from odradek.wire.generated.incremental_alter_configs_response import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsResponse,
)
from odradek.wire.primitives import Message

MIN_INSYNC_REPLICAS = "min.insync.replicas"

Settings = Mapping[str, str | None]
"""New values by name. None removes the setting."""


def incremental_alter_configs(
    state: ControllerState, request: IncrementalAlterConfigsRequest, version: int
) -> Decision[IncrementalAlterConfigsResponse]:
    """Change single settings: set, delete, append or subtract (KIP-339)."""
    records: list[Message] = []
    responses: list[AlterConfigsResourceResponse] = []
    for each, resource, wrong in _marked(request.resources):
        error: ApiError | None = None
        try:
            if wrong:
                raise ApiError(ErrorCode.INVALID_REQUEST, wrong)
            records += _changes(state, resource, _operated(state, resource, each), {})
        except ApiError as problem:
            error = problem
        responses.append(
            AlterConfigsResourceResponse(
                resource_type=each.resource_type,
                resource_name=each.resource_name,
                error_code=ErrorCode.NONE if error is None else error.code,
                error_message=None if error is None else error.message,
            )
        )
    response = IncrementalAlterConfigsResponse(responses=responses)
    return _decision(state, records, request.validate_only, response)


def alter_configs(
    state: ControllerState, request: AlterConfigsRequest, version: int
) -> Decision[AlterConfigsResponse]:
    """Replace all settings of each resource; settings that are not in the request are removed."""
    records: list[Message] = []
    responses: list[legacy_wire.AlterConfigsResourceResponse] = []
    for each, resource, wrong in _marked(request.resources):
        error: ApiError | None = None
        try:
            if wrong:
                raise ApiError(ErrorCode.INVALID_REQUEST, wrong)
            given = {
                setting.name: apply_operation(
                    _kind(resource.type), setting.name, Operation.SET, None, setting.value
                )
                for setting in each.configs
            }
            current = state.image.configs.of(*resource)
            removed = {name: None for name in current if name not in given}
            records += _changes(state, resource, given, removed)
        except ApiError as problem:
            error = problem
        responses.append(
            legacy_wire.AlterConfigsResourceResponse(
                resource_type=each.resource_type,
                resource_name=each.resource_name,
                error_code=ErrorCode.NONE if error is None else error.code,
                error_message=None if error is None else error.message,
            )
        )
    response = AlterConfigsResponse(responses=responses)
    return _decision(state, records, request.validate_only, response)


ResourceT = TypeVar("ResourceT", AlterConfigsResource, LegacyResource)
ResponseT = TypeVar("ResponseT")


def _marked(resources: Sequence[ResourceT]) -> Iterator[tuple[ResourceT, ConfigResource, str]]:
    """Yield each resource, its type and name, and its error message (empty if it is valid).

    A resource that is repeated is yielded once.
    """
    names = [ConfigResource(each.resource_type, each.resource_name) for each in resources]
    counts = Counter(names)
    told: set[ConfigResource] = set()
    for each, name in zip(resources, names, strict=True):
        if name in told:
            continue
        told.add(name)
        settings = Counter(setting.name for setting in each.configs)
        problem = ""
        if counts[name] > 1:
            problem = "Each resource must appear at most once."
        elif any(count > 1 for count in settings.values()):
            problem = "Error due to duplicate config keys"
        yield each, name, problem


def _operated(
    state: ControllerState, resource: ConfigResource, request: AlterConfigsResource
) -> dict[str, str | None]:
    """Return the new value of each setting in the request."""
    current = state.image.configs.of(*resource)
    return {
        each.name: apply_operation(
            _kind(resource.type),
            each.name,
            _operation(each.config_operation),
            current.get(each.name),
            each.value,
        )
        for each in request.configs
    }


def _kind(number: int) -> ResourceType:
    try:
        return ResourceType(number)
    except ValueError:
        problem = f"Unknown resource type {number}"
        raise ApiError(ErrorCode.UNSUPPORTED_VERSION, problem) from None


def _operation(number: int) -> Operation:
    try:
        return Operation(number)
    except ValueError:
        problem = f"Unknown operations type {number}"
        raise ApiError(ErrorCode.INVALID_REQUEST, problem) from None


def _changes(
    state: ControllerState, resource: ConfigResource, given: Settings, removed: Settings
) -> list[Message]:
    """Return the records that change one resource.

    Raises:
        ApiError: the new settings are invalid.
    """
    current = state.image.configs.of(*resource)
    # For a broker, also write a value that is the same as before: this makes the broker reload its
    # key store (KAFKA-14136).
    always = resource.type == ResourceType.BROKER
    changed = {name: value for name, value in given.items() if always or current.get(name) != value}
    changed.update(removed)
    _check_min_insync_replicas(state, resource, changed)
    after = {name: value for name, value in {**current, **changed}.items() if value is not None}
    _check(state, resource, after)
    return [
        ConfigRecord(
            resource_type=resource.type, resource_name=resource.name, name=name, value=value
        )
        for name, value in changed.items()
    ]


def _check_min_insync_replicas(
    state: ControllerState, resource: ConfigResource, changed: Settings
) -> None:
    """Check that min.insync.replicas keeps one value for all brokers if ELR is enabled (KIP-966).

    Raises:
        ApiError: INVALID_CONFIG.
    """
    is_broker = resource.type == ResourceType.BROKER
    if not is_broker or MIN_INSYNC_REPLICAS not in changed or not state.elr_enabled:
        return
    problem = ""
    if resource.name:
        problem = "it cannot be set for one broker"
    elif changed[MIN_INSYNC_REPLICAS] is None:
        problem = "it cannot be removed for all brokers"
    if problem:
        raise ApiError(
            ErrorCode.INVALID_CONFIG,
            f"{MIN_INSYNC_REPLICAS}: {problem} while eligible leader replicas are enabled",
        )


def _check(state: ControllerState, resource: ConfigResource, after: Mapping[str, str]) -> None:
    match _kind(resource.type):
        case ResourceType.TOPIC:
            _check_topic(state, resource.name, after)
        case ResourceType.BROKER:
            _check_broker(state, resource.name, after)
        case ResourceType.GROUP:
            if not resource.name:
                raise ApiError(
                    ErrorCode.INVALID_REQUEST, "Default group resources are not allowed."
                )
            check_group(after, state.config)
        case ResourceType.CLIENT_METRICS:
            if not resource.name:
                raise ApiError(ErrorCode.INVALID_REQUEST, "Subscription name can't be empty")
            check_client_metrics(after)
        case ResourceType.BROKER_LOGGER:
            raise ApiError(
                ErrorCode.INVALID_REQUEST,
                f"Unknown resource type {int(ResourceType.BROKER_LOGGER)}",
            )


def _check_topic(state: ControllerState, name: str, after: Mapping[str, str]) -> None:
    if not name:
        raise ApiError(ErrorCode.INVALID_REQUEST, "Default topic resources are not allowed.")
    problem = name_problem(name)
    if problem is not None:
        raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, problem)
    check_topic(after, state.config)
    if name not in state.image.topics.by_name:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")


def _check_broker(state: ControllerState, name: str, after: Mapping[str, str]) -> None:
    if name:
        if not name.isascii() or not name.isdecimal():
            raise ApiError(ErrorCode.INVALID_REQUEST, f"{name!r} is not the id of a broker")
        cluster = state.image.cluster
        if int(name) not in cluster.brokers and int(name) not in cluster.controllers:
            raise ApiError(ErrorCode.BROKER_ID_NOT_REGISTERED, f"No node with id {name} found.")
    check_broker(after, state.config, per_broker=bool(name))


def _decision(
    state: ControllerState, records: list[Message], validate_only: bool, response: ResponseT
) -> Decision[ResponseT]:
    """Return the decision. A change of min.insync.replicas also clears the ELR."""
    if validate_only:
        return Decision([], response)
    if state.elr_enabled:
        records += [
            ClearElrRecord(
                topic_name=record.resource_name
                if record.resource_type == ResourceType.TOPIC
                else ""
            )
            for record in records
            if isinstance(record, ConfigRecord) and record.name == MIN_INSYNC_REPLICAS
        ]
    check_record_count(len(records))
    return Decision(records, response)
