"""Lets an application begin again: without its internal topics and committed offsets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from odradek.client.admin.admin import Admin
from odradek.core.streams.topology.definition import Topology


class Leftovers(NamedTuple):
    """What an application has left in a cluster."""

    topics: list[str]
    """The internal topics that exist."""
    has_group: bool
    """Whether the group exists."""


def leftovers(topology: Topology, admin: Admin) -> Leftovers:
    """Return what a reset would delete."""
    existing = {each.name for each in admin.list_topics()}
    wanted = {topology.full_name(topic) for topic in topology.internal_topics}
    for store in topology.stores.values():
        changelog = topology.changelog_of(store)
        if changelog is not None:
            wanted.add(changelog)
    groups = {each.id for each in admin.list_groups()}
    return Leftovers(sorted(existing & wanted), topology.application_id in groups)


def reset(topology: Topology, connection: Mapping[str, Any], *, execute: bool) -> Leftovers:
    """Delete the internal topics and the group of an application; without `execute` only return them.

    Then it reads its input from where its streams say, by default from the beginning.

    Raises:
        ClientError: the group has members, or the cluster refuses.
    """
    with Admin(connection) as admin:
        found = leftovers(topology, admin)
        if execute:
            if found.has_group:
                admin.delete_groups([topology.application_id])
            if found.topics:
                admin.delete_topics(found.topics)
        return found
