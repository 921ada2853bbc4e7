"""Deletes offsets: on request (OffsetDelete), with their group, with their topic, or by age."""

from __future__ import annotations

from collections.abc import Iterable

from odradek.core.coordinator.record import CoordinatorRecord
from odradek.core.coordinator.result import NOTHING, CoordinatorResult
from odradek.core.group.group import Group
from odradek.core.group.offset_store import CommittedOffset, GroupOffsets, OffsetStore
from odradek.core.group.records import offset_tombstone
from odradek.core.group.state import GroupState
from odradek.model.errors import ErrorCode
from odradek.model.uuids import ZERO
from odradek.wire.generated.offset_delete_request import OffsetDeleteRequest
from odradek.wire.generated.offset_delete_response import (
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)

EXPIRY_KEY = "expiry"
SLICE_OFFSETS = 5_000
"""Number of offsets that one step of the expiry check reads. Other work can run between steps."""


class Deletion:
    """Creates the tombstones of offsets, and of empty groups without offsets."""

    def __init__(self, state: GroupState, store: OffsetStore) -> None:
        self._state = state
        self._store = store

    # -- on request ---------------------------------------------------------------------------

    def delete(self, request: OffsetDeleteRequest) -> CoordinatorResult[OffsetDeleteResponse]:
        """Process OffsetDelete (KIP-496). Topics with a subscriber get an error.

        Raises:
            ApiError: the group does not exist, or it has members that are not consumers.
        """
        group = self._state.group(request.group_id)
        group.validate_offset_delete()
        records: list[CoordinatorRecord] = []
        response = OffsetDeleteResponse()
        for topic in request.topics:
            is_read = group.is_subscribed_to(topic.name)
            error = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if is_read else ErrorCode.NONE
            result = OffsetDeleteResponseTopic(name=topic.name)
            response.topics.append(result)
            for each in topic.partitions:
                index = each.partition_index
                result.partitions.append(
                    OffsetDeleteResponsePartition(partition_index=index, error_code=error)
                )
                if not is_read and self._has_offset(group.group_id, topic.name, index):
                    records.append(offset_tombstone(group.group_id, topic.name, index))
        self._state.offset_counts.on_deleted(len(records))
        return CoordinatorResult(records, response)

    def _has_offset(self, group_id: str, topic: str, partition: int) -> bool:
        committed = self._store.of_group(group_id).get(topic, {})
        return partition in committed or self._store.has_pending(group_id, topic, partition)

    def tombstones(self, group_id: str) -> list[CoordinatorRecord]:
        """Return the records that delete all offsets of a group.

        They also delete the offsets in open transactions.
        """
        partitions = {
            (topic, partition): None
            for topic, offsets in self._store.of_group(group_id).items()
            for partition in offsets
        }
        for topic, partition in self._store.pending_partitions(group_id):
            partitions[topic, partition] = None
        return [offset_tombstone(group_id, *each) for each in partitions]

    # -- with their topic ---------------------------------------------------------------------

    def on_topics_deleted(self, deleted: Iterable[tuple[bytes, str]]) -> CoordinatorResult[None]:
        """Delete the offsets of deleted topics. `deleted` has the id and the name of each topic.

        There may be a new topic with the same name. Its offsets are kept if their records have a
        topic id.
        """
        records: dict[tuple[str, str, int], CoordinatorRecord] = {}
        deleted = list(deleted)
        for offsets in (self._store.committed, *self._store.pending.values()):
            for topic_id, name in deleted:
                for group_id, index in _of_topic(offsets, topic_id, name):
                    records[group_id, name, index] = offset_tombstone(group_id, name, index)
        return CoordinatorResult(list(records.values()), None, atomic=False)

    # -- by age -------------------------------------------------------------------------------

    def schedule_expiry(self) -> None:
        """Check for expired offsets every `offsets.retention.check.interval.ms`."""
        interval_ms = self._state.config.offsets_retention_check_interval_ms
        self._state.timers.schedule(
            EXPIRY_KEY, interval_ms, self.begin_expiry, retry_ms=interval_ms
        )

    def begin_expiry(self) -> CoordinatorResult[None]:
        """Begin to check all groups, in several steps."""
        return self.expire(list(self._state.groups))

    def expire(self, group_ids: list[str]) -> CoordinatorResult[None]:
        """Check the last groups of the list, and schedule a step for the others.

        Return tombstones of the expired offsets.
        """
        records: list[CoordinatorRecord] = []
        seen = 0
        while group_ids and seen < SLICE_OFFSETS:
            group = self._state.groups.get(group_ids.pop())
            seen += 1
            if group is not None:
                seen += self._expire_group(group, records)
        if group_ids:
            self._state.timers.schedule(EXPIRY_KEY, 0, self.expire, group_ids, retry_ms=1000)
        else:
            self.schedule_expiry()
        if not records:
            return NOTHING
        return CoordinatorResult(records, None, atomic=False)

    def _expire_group(self, group: Group, records: list[CoordinatorRecord]) -> int:
        """Add the tombstones of a group's expired offsets. Return the number of checked offsets."""
        topics = self._store.of_group(group.group_id)
        seen = 0
        kept = 0
        before = len(records)
        since = group.offset_expiry_base()
        now_ms = self._state.clock.now_ms()
        retention_ms = self._state.config.offsets_retention_minutes * 60_000
        for topic, partitions in topics.items():
            seen += len(partitions)
            if since is None or group.is_subscribed_to(topic):
                kept += len(partitions)
                continue
            for index, offset in partitions.items():
                if _is_expired(offset, since(offset), now_ms, retention_ms) and (
                    not self._store.has_pending(group.group_id, topic, index)
                ):
                    records.append(offset_tombstone(group.group_id, topic, index))
                else:
                    kept += 1
        self._state.offset_counts.on_expired(len(records) - before)
        is_unused = kept == 0 and group.is_empty and group.group_id not in self._store.open
        if is_unused and group.expires:
            self._state.note(group.group_id, "deleted: it is empty and has no offsets")
            records.extend(group.tombstones())
            group.cancel_timers(self._state.timers)
        return seen


def _is_expired(offset: CommittedOffset, since_ms: int, now_ms: int, retention_ms: int) -> bool:
    if offset.expire_timestamp_ms != -1:
        return now_ms >= offset.expire_timestamp_ms
    return now_ms - since_ms >= retention_ms


def _of_topic(offsets: GroupOffsets, topic_id: bytes, name: str) -> Iterable[tuple[str, int]]:
    """Yield the group id and the partition of each offset of a topic."""
    for group_id, topics in offsets.items():
        for index, offset in topics.get(name, {}).items():
            if offset.topic_id in (ZERO, topic_id):
                yield group_id, index
