"""Which topics and settings the target should have."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from odradek.client.admin.configs import Change, ConfigEntry
from odradek.connectors.mirror.filters import PropertyFilter, TopicFilter
from odradek.connectors.mirror.policies import ReplicationPolicy, is_cycle
from odradek.core.metadata.image import AccessControlEntry
from odradek.model.acl import AclOperation, AclPermissionType, AclResourceType, PatternType
from odradek.model.config_resource import Operation, Source
from odradek.model.topic_partition import TopicPartition

Counts = Mapping[str, int]
"""The number of partitions of each topic."""


class Plan(NamedTuple):
    """What the target lacks."""

    new: dict[str, tuple[str, int]]
    """The topics to make: the name at the source, and the number of partitions."""
    bigger: dict[str, int]
    """The topics that need more partitions: how many they should have."""


class Flow:
    """What goes from one cluster to another."""

    def __init__(
        self,
        source: str,
        target: str,
        policy: ReplicationPolicy,
        topics: TopicFilter,
        *,
        copies_heartbeats: bool,
    ) -> None:
        self.source = source
        self.target = target
        self.policy = policy
        self._topics = topics
        self._copies_heartbeats = copies_heartbeats

    def accepts(self, topic: str) -> bool:
        """Return whether a topic is copied."""
        is_wanted = self._topics.accepts(topic) or (
            self._copies_heartbeats and self.policy.is_heartbeats_topic(topic)
        )
        return (
            is_wanted
            and not self.policy.is_internal_topic(topic)
            and not is_cycle(self.policy, topic, self.target)
        )

    def remote(self, topic: str) -> str:
        """Return the name of a topic at the target."""
        return self.policy.remote_topic(self.source, topic)

    def is_copy(self, topic: str) -> bool:
        """Return whether a topic at the target is a copy of this flow."""
        is_own = topic == self.policy.checkpoints_topic(self.source)
        return self.policy.topic_source(topic) == self.source and not is_own

    def plan(self, source: Counts, target: Counts) -> Plan:
        """Compare the topics that are copied with those of the target."""
        new: dict[str, tuple[str, int]] = {}
        bigger: dict[str, int] = {}
        for topic, count in source.items():
            remote = self.remote(topic)
            if remote not in target:
                new[remote] = (topic, count)
            elif count > target[remote]:
                bigger[remote] = count
        return Plan(new, bigger)

    def has_changed(self, before: Counts, source: Counts, target: Counts) -> bool:
        """Return whether tasks should be made again: the source has changed, or the target lacks something."""
        if dict(before) != dict(source):
            return True
        plan = self.plan(source, target)
        return bool(plan.new or plan.bigger)

    def acls(self, found: Iterable[AccessControlEntry]) -> list[AccessControlEntry]:
        """Return the ACLs for the target: who may do everything may read, and nobody may write."""
        wanted = []
        for each in found:
            allows = each.permission_type == AclPermissionType.ALLOW
            if (
                each.resource_type != AclResourceType.TOPIC
                or each.pattern_type != PatternType.LITERAL
                or (allows and each.operation == AclOperation.WRITE)
                or not self.accepts(each.resource_name)
            ):
                continue
            is_all = allows and each.operation == AclOperation.ALL
            wanted.append(
                AccessControlEntry(
                    AclResourceType.TOPIC,
                    self.remote(each.resource_name),
                    PatternType.LITERAL,
                    each.principal,
                    each.host,
                    AclOperation.READ if is_all else each.operation,
                    each.permission_type,
                )
            )
        return wanted


def partitions_of(counts: Counts) -> list[TopicPartition]:
    """Return all partitions, in order."""
    return [TopicPartition(topic, i) for topic in sorted(counts) for i in range(counts[topic])]


def shares(partitions: Sequence[TopicPartition], most: int) -> list[list[TopicPartition]]:
    """Deal partitions out to at most so many tasks, so that those of a topic are spread."""
    count = min(most, len(partitions))
    return [list(partitions[i::count]) for i in range(count)]


def chunks(groups: Sequence[str], most: int) -> list[list[str]]:
    """Cut a list into at most so many parts, which differ by one at most."""
    count = min(most, len(groups))
    if not count:
        return []
    size, rest = divmod(len(groups), count)
    found, start = [], 0
    for i in range(count):
        end = start + size + (1 if i < rest else 0)
        found.append(list(groups[start:end]))
        start = end
    return found


def _is_copied(entry: ConfigEntry, properties: PropertyFilter) -> bool:
    return (
        not entry.read_only
        and not entry.sensitive
        and entry.source != Source.STATIC_BROKER
        and properties.accepts(entry.name)
    )


def settings_of_new(entries: Iterable[ConfigEntry], properties: PropertyFilter) -> dict[str, str]:
    """Return the settings of a new topic."""
    return {
        each.name: each.value
        for each in entries
        if _is_copied(each, properties)
        and each.value is not None
        and (each.is_set or properties.copies_defaults)
    }


def changes(entries: Iterable[ConfigEntry], properties: PropertyFilter) -> list[Change]:
    """Return what makes the settings of a topic those of the source."""
    found = []
    for each in entries:
        if not _is_copied(each, properties):
            continue
        if not each.is_set and not properties.copies_defaults:
            found.append(Change(each.name, None, Operation.DELETE))
        else:
            found.append(Change(each.name, each.value, Operation.SET))
    return found
