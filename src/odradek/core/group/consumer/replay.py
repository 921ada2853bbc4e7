"""Applies the records of consumer groups: new records, and the records of a log that is loaded."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from odradek.core.group.consumer.group import ConsumerGroup
from odradek.core.group.consumer.member import ConsumerMember
from odradek.core.group.modern.assignment import Assignment, ordered_set
from odradek.core.group.modern.replay import EpochReplay
from odradek.core.group.modern.subscriptions import ResolvedRegex
from odradek.core.group.state import GroupState
from odradek.wire.generated.consumer_group_partition_metadata_key import (
    ConsumerGroupPartitionMetadataKey,
)
from odradek.wire.generated.consumer_group_regular_expression_key import (
    ConsumerGroupRegularExpressionKey,
)
from odradek.wire.generated.consumer_group_regular_expression_value import (
    ConsumerGroupRegularExpressionValue,
)
from odradek.wire.generated.consumer_group_target_assignment_member_value import (
    ConsumerGroupTargetAssignmentMemberValue,
)


class Replay(EpochReplay[ConsumerGroup, ConsumerMember, Assignment]):
    """Has one method per record type. `by_kind` has the methods."""

    group_class = ConsumerGroup
    member_class = ConsumerMember

    def __init__(self, state: GroupState) -> None:
        super().__init__(state)
        self.by_kind: Mapping[int, Callable[[Any, Any], None]] = {
            3: self._group_metadata,
            4: self._partition_metadata,
            5: self._member_metadata,
            6: self._target_epoch,
            7: self._target,
            8: self._current_assignment,
            16: self._resolved_regex,
        }

    def _target_of(self, value: ConsumerGroupTargetAssignmentMemberValue) -> Assignment:
        return {
            each.topic_id: ordered_set(each.partitions)
            for each in value.topic_partitions
            if each.partitions
        }

    def _partition_metadata(self, key: ConsumerGroupPartitionMetadataKey, value: object) -> None:
        if value is not None:
            self._known_or_new(key.group_id).set_has_partition_metadata(True)
            return
        group = self._known(key.group_id)
        if group is not None:
            group.set_has_partition_metadata(False)

    def _resolved_regex(
        self,
        key: ConsumerGroupRegularExpressionKey,
        value: ConsumerGroupRegularExpressionValue | None,
    ) -> None:
        if value is not None:
            resolved = ResolvedRegex(frozenset(value.topics), value.version, value.timestamp)
            group = self._known_or_new(key.group_id)
            group.set_resolved_regex(key.regular_expression, resolved)
            return
        known = self._known(key.group_id)
        if known is not None:
            known.set_resolved_regex(key.regular_expression, None)
