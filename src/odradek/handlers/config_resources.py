"""Functions that AlterConfigs (33) and IncrementalAlterConfigs (44) share.

Some resources are changed by this node, all others by the controller.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from typing import Protocol, TypeVar

from odradek.broker.access.listener_keys import check_keys
from odradek.broker.broker import Broker
from odradek.broker.clients.request_context import RequestContext
from odradek.broker.controller.controller import Controller
from odradek.config.checks import ConfigurationError
from odradek.env.tls_files import TlsError
from odradek.handlers.authorization import AclOperation, permits_cluster
from odradek.model.config_resource import ResourceType
from odradek.model.errors import ApiError, ErrorCode


class _Resource(Protocol):
    """A resource of either request, or its result."""

    resource_type: int
    resource_name: str


Resource = TypeVar("Resource", bound=_Resource)
Answer = TypeVar("Answer", bound=_Resource)


async def answers_in_order(
    resources: Sequence[Resource],
    here: Callable[[Resource], Answer | None],
    by_controller: Callable[[list[Resource]], Awaitable[Sequence[Answer]]],
) -> list[Answer]:
    """Return one result per resource, in the order of the resources.

    `here` returns the result of this node, or None if the controller must change the resource. One
    request to the controller contains all resources that the controller must change. Controllers of
    Apache Kafka return the results in any order, and one result for a resource that is repeated.
    """
    answers = [here(resource) for resource in resources]
    left = [each for each, answer in zip(resources, answers, strict=True) if answer is None]
    decided = {_name(each): each for each in (await by_controller(left) if left else ())}
    found: list[Answer] = []
    for resource, answer in zip(resources, answers, strict=True):
        result = decided.pop(_name(resource), None) if answer is None else answer
        if result is not None:
            found.append(result)
    return found


def _name(resource: _Resource) -> tuple[int, str]:
    return resource.resource_type, resource.resource_name


class _Setting(Protocol):
    """A setting of either request."""

    name: str
    value: str | None


_TYPES = frozenset(ResourceType)


def repeated(resources: Iterable[_Resource]) -> set[tuple[int, str]]:
    """Return the type and name of each resource that occurs more than once."""
    counts = Counter(map(_name, resources))
    return {name for name, count in counts.items() if count > 1}


def check_resource(resource: _Resource, repeated_names: Collection[tuple[int, str]]) -> None:
    """Check the type of a resource, and that it is not one of `repeated_names`.

    Raises:
        ApiError: INVALID_REQUEST.
    """
    if _name(resource) in repeated_names:
        raise ApiError(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
    if resource.resource_type not in _TYPES:
        problem = f"Unknown resource type {resource.resource_type}"
        raise ApiError(ErrorCode.INVALID_REQUEST, problem)


def check_settings(settings: Sequence[_Setting], removed: Collection[str] = ()) -> None:
    """Check the form of a resource's settings, before the authorization as in Apache Kafka.

    `removed` are the names of settings that need no value.

    Raises:
        ApiError: INVALID_REQUEST.
    """
    names = [each.name for each in settings]
    if len(set(names)) < len(names):
        raise ApiError(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
    nulls = [each.name for each in settings if each.value is None and each.name not in removed]
    if nulls:
        problem = f"Null value not supported for : {', '.join(nulls)}"
        raise ApiError(ErrorCode.INVALID_REQUEST, problem)


def check_own_id(node: Broker | Controller, name: str) -> None:
    """Raise an error if the resource `name` is not the id of this node.

    Raises:
        ApiError: INVALID_REQUEST.
    """
    if name != str(node.node_id):
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            f"Unexpected broker id, expected {node.node_id}, but received {name}",
        )


def check_keys_of_listeners(
    broker: Broker, context: RequestContext, changed: Iterable[str], values: Mapping[str, str]
) -> None:
    """Check the keys and certificates of listeners whose settings change.

    `values` are all settings of this broker after the change. A client that may not change settings
    gets its error from the controller, so that it learns nothing about the files of this node.

    Raises:
        ApiError: INVALID_REQUEST.
    """
    names = [each for each in changed if each.startswith("listener.name.")]
    if not names or not permits_cluster(
        broker, context, AclOperation.ALTER_CONFIGS, log_denied=False
    ):
        return
    try:
        check_keys(broker.config, names, values, broker.certificate_names)
    except (ConfigurationError, TlsError) as error:
        raise ApiError(ErrorCode.INVALID_REQUEST, str(error)) from error
