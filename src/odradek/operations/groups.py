"""Facts about groups: who has which partition, what is committed, and how far behind it is."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from odradek.client.admin.groups import Group, Member, describe_groups
from odradek.client.admin.share_groups import describe_share_groups
from odradek.client.cluster import Cluster
from odradek.client.commits import CommittedOffset, fetch_offsets
from odradek.client.errors import BrokerError, ClientError
from odradek.client.offsets import LATEST
from odradek.model import api_keys
from odradek.model.errors import ErrorCode
from odradek.model.topic_partition import TopicPartition
from odradek.operations.positions import known_offsets


@dataclass(frozen=True, slots=True)
class GroupFacts:
    """A group with its committed offsets, and the ends of its partitions."""

    group: Group
    committed: Mapping[TopicPartition, CommittedOffset] = field(default_factory=dict)
    ends: Mapping[TopicPartition, int] = field(default_factory=dict)
    """The end of each partition that has a leader."""

    @property
    def owners(self) -> dict[TopicPartition, Member]:
        """The member that has each assigned partition."""
        return {each: member for member in self.group.members for each in member.partitions}

    @property
    def partitions(self) -> list[TopicPartition]:
        """The partitions with a committed offset or a member."""
        return sorted({*self.committed, *self.owners})

    def committed_offset(self, key: TopicPartition) -> int | None:
        """Return the committed offset of a partition; None if there is none."""
        return self.committed[key].offset if key in self.committed else None

    def lag(self, key: TopicPartition) -> int | None:
        """Return the number of offsets from the committed offset to the end; None if unknown."""
        committed, end = self.committed_offset(key), self.ends.get(key)
        return None if committed is None or end is None else max(0, end - committed)

    def as_json(self) -> dict[str, object]:
        """The facts as JSON."""
        group, owners = self.group, self.owners
        return {
            "group": group.id,
            "type": group.type,
            "state": group.state,
            "assignor": group.assignor or None,
            "epoch": group.epoch if group.epoch >= 0 else None,
            "members": [_member_json(group, each) for each in group.members],
            "partitions": [self._partition_json(key, owners.get(key)) for key in self.partitions],
        }

    def _partition_json(self, key: TopicPartition, owner: Member | None) -> dict[str, object]:
        committed = self.committed.get(key)
        return {
            **key._asdict(),
            "committed": self.committed_offset(key),
            "metadata": committed.metadata if committed else None,
            "end": self.ends.get(key),
            "lag": self.lag(key),
            "member": owner.id if owner else None,
        }


def gather(cluster: Cluster, group: Group) -> GroupFacts:
    """Ask the cluster for what a group has committed, and for the ends of its partitions.

    Raises:
        ClientError: the coordinator does not respond, or refuses.
    """
    facts = GroupFacts(group, fetch_offsets(cluster, group.id))
    return GroupFacts(group, facts.committed, known_offsets(cluster, facts.partitions, LATEST))


def describe(cluster: Cluster, names: Iterable[str]) -> dict[str, Group | ClientError]:
    """Return each group, or why it is not described.

    Raises:
        ClientError: no broker responds.
    """
    described = describe_groups(cluster, dict.fromkeys(names))
    _advise(cluster, described)
    return described


def _advise(cluster: Cluster, described: dict[str, Group | ClientError]) -> None:
    """Say which of the groups that were not found are share groups."""
    missing = [
        name
        for name, each in described.items()
        if isinstance(each, BrokerError) and each.code is ErrorCode.GROUP_ID_NOT_FOUND
    ]
    if not missing or api_keys.SHARE_GROUP_DESCRIBE not in cluster.any().versions:
        return
    for name, found in describe_share_groups(cluster, missing).items():
        if not isinstance(found, ClientError):
            described[name] = BrokerError(
                ErrorCode.GROUP_ID_NOT_FOUND,
                "This is a share group.",
                f"group {name}",
                f"Describe it with: odradek queue describe {name}",
            )


def host_of(member: Member) -> str:
    """Return the host of a member, without the slash that Java puts before it."""
    return member.host.removeprefix("/")


def _member_json(group: Group, member: Member) -> dict[str, object]:
    unread = member.unread_assignment
    return {
        "id": member.id,
        "instance_id": member.instance_id,
        "client_id": member.client_id,
        "host": host_of(member),
        "partitions": [key._asdict() for key in member.partitions],
        "unread_assignment": base64.b64encode(unread).decode() if unread else None,
        "assignment_problem": member.assignment_problem or None,
        **(_tasks_json(member) if group.type == "streams" else {}),
    }


def _tasks_json(member: Member) -> dict[str, object]:
    tasks = member.tasks
    held = {"active": tasks.active, "standby": tasks.standby, "warm_up": tasks.warm_up}
    return {"tasks": {role: [task._asdict() for task in some] for role, some in held.items()}}
