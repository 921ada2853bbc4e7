"""Looks whether processes of the application run, which the query cannot share the tasks with."""

from __future__ import annotations

from odradek.client.admin.groups import Group, describe_groups
from odradek.client.cluster import Cluster
from odradek.core.streams.model.errors import StreamsError


class MembersError(StreamsError):
    """Processes of the application are members of its group."""


def check_members(cluster: Cluster, group: str) -> None:
    """Check that a group has no members. It may be of any type, or not exist.

    Raises:
        MembersError: it has members.
        ClientError: the coordinator does not answer.
    """
    found = describe_groups(cluster, [group])[group]
    if isinstance(found, Group) and found.members:
        raise MembersError(
            f"the group {group} has {len(found.members)} member(s): the application runs as a "
            "process too. Stop it, and start the query again"
        )
