"""Settings of topics, brokers, groups and loggers: which a resource has, and advice about changes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from odradek.client.admin.configs import ConfigEntry, Resource, describe_configs
from odradek.client.cluster import Cluster
from odradek.client.errors import ClientError
from odradek.model.config_resource import ResourceType

LISTENER_PREFIX = "listener.name."
"""The prefix of settings of one listener. A broker does not describe these settings."""


def known_settings(cluster: Cluster, resource: Resource) -> list[ConfigEntry]:
    """Return all settings that a resource has.

    For the default of all brokers (a broker without a name), the settings of one broker are included.

    Raises:
        ClientError: the resource does not exist, or no broker responds.
    """
    resources = [resource]
    if resource.type == ResourceType.TOPIC:
        cluster.topic(resource.name)
    elif resource.type == ResourceType.BROKER and not resource.name:
        resources += [resource._replace(name=str(min(cluster.refresh([]).nodes)))]
    entries: list[ConfigEntry] = []
    for found in describe_configs(cluster, resources).values():
        if isinstance(found, ClientError):
            raise found
        entries += found
    return entries


def unknown_names(
    resource: Resource, wanted: Iterable[str], known: Mapping[str, ConfigEntry]
) -> list[str]:
    """Return the names that a resource does not have and that can therefore not be set.

    A logger may be set before a broker uses it, and a broker does not describe the settings of single
    listeners: such names count as known.
    """
    if resource.type == ResourceType.BROKER_LOGGER:
        return []
    return [each for each in wanted if each not in known and not each.startswith(LISTENER_PREFIX)]


def advice(names: Iterable[str], known: Mapping[str, ConfigEntry]) -> str:
    """Return the advice for settings that cannot be changed while the broker runs; or an empty text."""
    for name in names:
        sibling = known.get(name.rpartition(".")[0] + ".ms")
        if name in known and known[name].read_only and sibling and not sibling.read_only:
            return f"{sibling.name} can be set while brokers run."
    return ""
