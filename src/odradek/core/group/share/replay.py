"""Applies the records of share groups: new records, and the records of a log that is loaded."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from odradek.core.group.modern.assignment import Assignment
from odradek.core.group.modern.replay import EpochReplay
from odradek.core.group.share.group import ShareGroup
from odradek.core.group.share.member import ShareMember, assignment_of
from odradek.core.group.share.state_partitions import StatePartitions, Topics, TopicState
from odradek.core.group.state import GroupState
from odradek.wire.generated.share_group_state_partition_metadata_key import (
    ShareGroupStatePartitionMetadataKey,
)
from odradek.wire.generated.share_group_state_partition_metadata_value import (
    ShareGroupStatePartitionMetadataValue,
    TopicPartitionsInfo,
)
from odradek.wire.generated.share_group_target_assignment_member_value import (
    ShareGroupTargetAssignmentMemberValue,
)


class ShareReplay(EpochReplay[ShareGroup, ShareMember, Assignment]):
    """Has one method per record type. `by_kind` has the methods."""

    group_class = ShareGroup
    member_class = ShareMember

    def __init__(self, state: GroupState) -> None:
        super().__init__(state)
        self.by_kind: Mapping[int, Callable[[Any, Any], None]] = {
            10: self._member_metadata,
            11: self._group_metadata,
            12: self._target_epoch,
            13: self._target,
            14: self._current_assignment,
            15: self._state_partitions,
        }

    def _target_of(self, value: ShareGroupTargetAssignmentMemberValue) -> Assignment:
        return assignment_of(value.topic_partitions)

    def _state_partitions(
        self,
        key: ShareGroupStatePartitionMetadataKey,
        value: ShareGroupStatePartitionMetadataValue | None,
    ) -> None:
        if value is not None:
            partitions = StatePartitions(
                self._topics(value.initializing_topics),
                self._topics(value.initialized_topics),
                frozenset(each.topic_id for each in value.deleting_topics),
            )
            self._known_or_new(key.group_id).set_state_partitions(partitions)
            return
        known = self._known(key.group_id)
        if known is not None:
            known.set_state_partitions(None)

    def _topics(self, topics: Iterable[TopicPartitionsInfo]) -> Topics:
        now_ms = self._state.clock.now_ms()
        return {
            each.topic_id: TopicState(each.topic_name, frozenset(each.partitions), now_ms)
            for each in topics
        }
