"""Which checkpoints are written, and which offsets of groups are set at the target."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from odradek.client.group_metadata import CommittedOffset
from odradek.connectors.mirror.filters import TopicFilter
from odradek.connectors.mirror.formats import Checkpoint
from odradek.connectors.mirror.offset_syncs import SyncStore
from odradek.connectors.mirror.policies import ReplicationPolicy
from odradek.model.topic_partition import TopicPartition

Offsets = Mapping[TopicPartition, CommittedOffset]


class Checkpoints:
    """The last checkpoint of each group and partition."""

    def __init__(
        self, source: str, target: str, policy: ReplicationPolicy, topics: TopicFilter
    ) -> None:
        self._source = source
        self._target = target
        self._policy = policy
        self._topics = topics
        self._last: dict[str, dict[TopicPartition, Checkpoint]] = {}

    def load(self, found: Iterable[Checkpoint]) -> None:
        """Take earlier checkpoints, in their order."""
        for each in found:
            self._last.setdefault(each.group, {})[each.partition] = each

    def make(self, group: str, committed: Offsets, syncs: SyncStore) -> list[Checkpoint]:
        """Return the new checkpoints of a group whose offsets at the source are these."""
        known = self._last.setdefault(group, {})
        made = []
        for partition, offset in committed.items():
            if not self._topics.accepts(partition.topic):
                continue
            downstream = syncs.translate(partition, offset.offset)
            if downstream is None or downstream < 0:
                continue
            found = Checkpoint(
                group, self._renamed(partition), offset.offset, downstream, offset.metadata
            )
            if _is_news(found, known.get(found.partition)):
                made.append(found)
        known.update((each.partition, each) for each in made)
        return made

    def _renamed(self, partition: TopicPartition) -> TopicPartition:
        """Return the partition at the target. A topic that came from there has its own name again."""
        topic, index = partition
        if self._policy.topic_source(topic) == self._target:
            return TopicPartition(self._policy.original_topic(topic), index)
        return TopicPartition(self._policy.remote_topic(self._source, topic), index)

    def to_commit(
        self, at_target: Mapping[str, Offsets]
    ) -> dict[str, dict[TopicPartition, CommittedOffset]]:
        """Return the offsets to set at the target by group.

        `at_target` has the present offsets there of the groups that may be set: those without members.
        Offsets are not set back.
        """
        found: dict[str, dict[TopicPartition, CommittedOffset]] = {}
        for group, present in at_target.items():
            wanted = {}
            for partition, each in list(self._last.get(group, {}).items()):
                there = present.get(partition)
                if there is None or there.offset < each.downstream:
                    wanted[partition] = CommittedOffset(each.downstream, -1, each.metadata)
            if wanted:
                found[group] = wanted
        return found


def _is_news(found: Checkpoint, last: Checkpoint | None) -> bool:
    """Return whether a checkpoint is written: the group went back, or the translated offset has grown."""
    if last is None:
        return True
    return found.upstream < last.upstream or found.downstream > last.downstream
