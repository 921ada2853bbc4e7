"""Reads a setting of groups."""

from __future__ import annotations

from collections.abc import Iterable

from odradek.client.admin.configs import Resource, describe_configs
from odradek.client.cluster import Cluster
from odradek.client.errors import ClientError
from odradek.model.config_resource import ResourceType


def read_setting(
    cluster: Cluster, groups: Iterable[str], name: str
) -> dict[str, str | ClientError]:
    """Return the value of a setting by group. It is empty if the brokers do not have the setting.

    Raises:
        ClientError: a broker does not respond.
    """
    resources = [Resource(ResourceType.GROUP, each) for each in groups]
    found: dict[str, str | ClientError] = {}
    if not resources:
        return found
    for resource, entries in describe_configs(cluster, resources, names=[name]).items():
        if isinstance(entries, ClientError):
            found[resource.name] = entries
        else:
            values = [entry.value for entry in entries if entry.name == name]
            found[resource.name] = (values[0] if values else None) or ""
    return found
