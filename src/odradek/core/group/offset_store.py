"""Stores the committed offsets of all groups, and the pending offsets of open transactions.

    committed: group -> topic -> partition -> CommittedOffset
    pending:   producer id -> group -> topic -> partition -> CommittedOffset
    open:      group -> topic -> partition -> producer ids with a pending offset for the partition

An offset in a transaction is pending until the transaction ends. Only the replay of records changes
the store, through the journal.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import NamedTuple, TypeVar

from odradek.core.coordinator.journal import Journal
from odradek.wire.generated.offset_commit_value import OffsetCommitValue

INVALID_OFFSET = -1
"""The offset if nothing was committed."""


class CommittedOffset(NamedTuple):
    """A committed offset. `record_offset` is the offset of its record in `__consumer_offsets`."""

    record_offset: int
    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp_ms: int
    expire_timestamp_ms: int
    """-1 if the commit has no retention time of its own."""
    topic_id: bytes
    """Zero in records from before Kafka 4.1."""

    @classmethod
    def from_record(cls, record_offset: int, value: OffsetCommitValue) -> CommittedOffset:
        """Create the offset from its record."""
        return cls(
            record_offset,
            value.offset,
            value.leader_epoch,
            value.metadata,
            value.commit_timestamp,
            value.expire_timestamp,
            value.topic_id,
        )


def since_commit(offset: CommittedOffset) -> int:
    """Return the time of the commit, at which the retention begins."""
    return offset.commit_timestamp_ms


PartitionOffsets = dict[int, CommittedOffset]
TopicOffsets = dict[str, PartitionOffsets]
GroupOffsets = dict[str, TopicOffsets]

_NO_TOPICS: TopicOffsets = {}

KeyT = TypeVar("KeyT", bound=Hashable)
InnerKeyT = TypeVar("InnerKeyT", bound=Hashable)
ValueT = TypeVar("ValueT")


class OffsetStore:
    """The committed and pending offsets of one partition of `__consumer_offsets`."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self.committed: GroupOffsets = {}
        self.pending: dict[int, GroupOffsets] = {}
        self.open: dict[str, dict[str, dict[int, dict[int, None]]]] = {}

    # -- queries ------------------------------------------------------------------------------

    def of_group(self, group_id: str) -> TopicOffsets:
        """Return the committed offsets of a group. The caller must not modify them."""
        return self.committed.get(group_id, _NO_TOPICS)

    def has_pending(self, group_id: str, topic: str, partition: int) -> bool:
        """Return whether an open transaction has an offset of the partition."""
        return partition in self.open.get(group_id, {}).get(topic, {})

    def pending_partitions(self, group_id: str) -> Iterator[tuple[str, int]]:
        """Yield the topic and partition of each offset that is pending."""
        for topic, partitions in self.open.get(group_id, {}).items():
            for partition in partitions:
                yield topic, partition

    # -- replaying ----------------------------------------------------------------------------

    def commit(self, group_id: str, topic: str, partition: int, value: CommittedOffset) -> None:
        """Store an offset that is not part of a transaction."""
        self._put(self.committed, group_id, topic, partition, value)

    def commit_pending(
        self, producer_id: int, group_id: str, topic: str, partition: int, value: CommittedOffset
    ) -> None:
        """Store an offset that becomes visible when the producer's transaction commits."""
        self._put(self._inner(self.pending, producer_id), group_id, topic, partition, value)
        partitions = self._inner(self._inner(self.open, group_id), topic)
        self._journal.put(self._inner(partitions, partition), producer_id, None)

    def forget(self, group_id: str, topic: str, partition: int) -> None:
        """Remove the committed offset and all pending offsets of a partition."""
        self._remove(self.committed, group_id, topic, partition)
        for producer_id in list(self.open.get(group_id, {}).get(topic, {}).get(partition, ())):
            offsets = self.pending.get(producer_id)
            if offsets is not None:
                self._remove(offsets, group_id, topic, partition)
        self._remove(self.open, group_id, topic, partition)

    def end_transaction(self, producer_id: int, committed: bool) -> None:
        """Commit or drop the pending offsets of a producer.

        If a later record has committed another offset of a partition, that offset stays.
        """
        offsets = self._journal.remove(self.pending, producer_id)
        if offsets is None:
            return
        for group_id, topics in offsets.items():
            for topic, partitions in topics.items():
                for partition, value in partitions.items():
                    self._close_producer(group_id, topic, partition, producer_id)
                    if committed:
                        self._commit_ended(group_id, topic, partition, value)

    def _commit_ended(
        self, group_id: str, topic: str, partition: int, value: CommittedOffset
    ) -> None:
        known = self.committed.get(group_id, {}).get(topic, {}).get(partition)
        if known is None or value.record_offset > known.record_offset:
            self._put(self.committed, group_id, topic, partition, value)

    def place(self, group_id: str, topic: str) -> PartitionOffsets:
        """Return the dict of the committed offsets of a group and topic.

        Create the dict if necessary. It is valid until an offset is removed.
        """
        return self._place(self.committed, group_id, topic)

    def _put(
        self,
        offsets: GroupOffsets,
        group_id: str,
        topic: str,
        partition: int,
        value: CommittedOffset,
    ) -> None:
        self._journal.put(self._place(offsets, group_id, topic), partition, value)

    def _place(self, offsets: GroupOffsets, group_id: str, topic: str) -> PartitionOffsets:
        return self._inner(self._inner(offsets, group_id), topic)

    def _inner(
        self, outer: dict[KeyT, dict[InnerKeyT, ValueT]], key: KeyT
    ) -> dict[InnerKeyT, ValueT]:
        """Return the dict of a key. Create the dict if necessary."""
        inner = outer.get(key)
        if inner is None:
            inner = {}
            self._journal.put(outer, key, inner)
        return inner

    def _remove(
        self,
        groups: dict[str, dict[str, dict[int, ValueT]]],
        group_id: str,
        topic: str,
        partition: int,
    ) -> None:
        """Remove the value of a partition, and the dicts that become empty."""
        topics = groups.get(group_id)
        partitions = None if topics is None else topics.get(topic)
        if topics is None or partitions is None:
            return
        self._journal.remove(partitions, partition)
        if not partitions:
            self._journal.remove(topics, topic)
            if not topics:
                self._journal.remove(groups, group_id)

    def _close_producer(self, group_id: str, topic: str, partition: int, producer_id: int) -> None:
        """Remove a producer's pending offset of a partition from the open ones."""
        producers = self.open.get(group_id, {}).get(topic, {}).get(partition)
        if producers is None:
            return
        self._journal.remove(producers, producer_id)
        if not producers:
            self._remove(self.open, group_id, topic, partition)
