"""Settings of topics, brokers, groups, client metrics and loggers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from odradek.client.cluster import Cluster
from odradek.client.connection import Connection
from odradek.client.errors import ClientError, broker_error, check
from odradek.client.fan_out import Route, fan_out
from odradek.model.config_resource import Operation, ResourceType, Source
from odradek.wire.generated.describe_configs_request import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from odradek.wire.generated.describe_configs_response import (
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
)
from odradek.wire.generated.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from odradek.wire.generated.incremental_alter_configs_response import (
    IncrementalAlterConfigsResponse,
)
from odradek.wire.generated.list_config_resources_request import ListConfigResourcesRequest
from odradek.wire.generated.list_config_resources_response import ListConfigResourcesResponse


class Resource(NamedTuple):
    """A resource with settings. A broker's name is its id; an empty name means all brokers."""

    type: ResourceType
    name: str

    def __str__(self) -> str:
        kind = self.type.name.lower().replace("_", " ")
        return f"{kind} {self.name or '(default of all)'}"


VALUE_TYPES = (
    "unknown",
    "boolean",
    "string",
    "int",
    "short",
    "long",
    "double",
    "list",
    "class",
    "password",
)


@dataclass(frozen=True, slots=True)
class Synonym:
    """A source of a setting's value. It is used if no source before it has a value."""

    name: str
    value: str | None
    source: Source


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """A setting with its value. `value` is None if it is sensitive or not set."""

    name: str
    value: str | None
    source: Source
    read_only: bool
    sensitive: bool
    value_type: str
    synonyms: tuple[Synonym, ...]
    documentation: str | None

    @property
    def is_set(self) -> bool:
        """Whether the value was set explicitly, rather than by default."""
        return self.source != Source.DEFAULT


class Change(NamedTuple):
    """One change of one setting; `value` is None for DELETE."""

    name: str
    value: str | None
    operation: Operation = Operation.SET


def describe_configs(
    cluster: Cluster,
    resources: Iterable[Resource],
    *,
    names: Sequence[str] | None = None,
    documentation: bool = False,
) -> dict[Resource, list[ConfigEntry] | ClientError]:
    """Return the settings of resources, sorted by name. `names` limits the settings in the result.

    Raises:
        ClientError: a broker does not respond, or does not support the request.
    """

    def build(some: list[Resource]) -> DescribeConfigsRequest:
        keys = None if names is None else list(names)
        return DescribeConfigsRequest(
            resources=[
                DescribeConfigsResource(
                    resource_type=r.type, resource_name=r.name, configuration_keys=keys
                )
                for r in some
            ],
            include_synonyms=True,
            include_documentation=documentation,
        )

    def read(
        response: DescribeConfigsResponse,
    ) -> dict[Resource, list[ConfigEntry] | ClientError]:
        found: dict[Resource, list[ConfigEntry] | ClientError] = {}
        for result in response.results:
            key = Resource(ResourceType(result.resource_type), result.resource_name)
            error = broker_error(result.error_code, result.error_message, str(key))
            entries = sorted(map(_entry, result.configs), key=lambda e: e.name)
            found[key] = error or entries
        return found

    return fan_out(
        resources, _route(cluster), build, DescribeConfigsResponse, read, cluster.timeout_ms
    )


def _entry(config: DescribeConfigsResourceResult) -> ConfigEntry:
    known = 0 <= config.config_type < len(VALUE_TYPES)
    return ConfigEntry(
        config.name,
        config.value,
        _source(config.config_source),
        config.read_only,
        config.is_sensitive,
        VALUE_TYPES[config.config_type if known else 0],
        tuple(Synonym(s.name, s.value, _source(s.source)) for s in config.synonyms),
        config.documentation,
    )


def _source(value: int) -> Source:
    return Source(value) if 0 <= value <= Source.GROUP else Source.UNKNOWN


def alter_configs(
    cluster: Cluster,
    changes: Mapping[Resource, Sequence[Change]],
    *,
    validate_only: bool = False,
) -> dict[Resource, ClientError | None]:
    """Change settings. Either all changes of a resource are applied, or none of them (KIP-339).

    Raises:
        ClientError: a broker does not respond, or does not support the request.
    """

    def build(some: list[Resource]) -> IncrementalAlterConfigsRequest:
        return IncrementalAlterConfigsRequest(
            resources=[
                AlterConfigsResource(
                    resource_type=r.type,
                    resource_name=r.name,
                    configs=[
                        AlterableConfig(name=c.name, config_operation=c.operation, value=c.value)
                        for c in changes[r]
                    ],
                )
                for r in some
            ],
            validate_only=validate_only,
        )

    def read(response: IncrementalAlterConfigsResponse) -> dict[Resource, ClientError | None]:
        done: dict[Resource, ClientError | None] = {}
        for each in response.responses:
            key = Resource(ResourceType(each.resource_type), each.resource_name)
            done[key] = broker_error(each.error_code, each.error_message, str(key))
        return done

    return fan_out(
        changes, _route(cluster), build, IncrementalAlterConfigsResponse, read, cluster.timeout_ms
    )


def _route(cluster: Cluster) -> Route[Resource]:
    """Route requests about a broker or its loggers to this broker, other requests to any broker."""

    def find(resource: Resource) -> Connection:
        if resource.type in (ResourceType.BROKER, ResourceType.BROKER_LOGGER) and resource.name:
            return cluster.node(int(resource.name))
        return cluster.any()

    return Route(find, lambda _: None)


def list_config_resources(cluster: Cluster, types: Iterable[ResourceType]) -> list[Resource]:
    """List the resources of these types that may have settings (KIP-1142).

    Raises:
        ClientError: no response, or the broker is too old.
    """
    request = ListConfigResourcesRequest(resource_types=[int(t) for t in types])
    response = cluster.ask_any(request, ListConfigResourcesResponse)
    check(response.error_code)
    return [
        Resource(ResourceType(r.resource_type), r.resource_name) for r in response.config_resources
    ]
