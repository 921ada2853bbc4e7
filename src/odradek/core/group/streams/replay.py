"""Applies the records of Streams groups: new records, and the records of a log that is loaded."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from odradek.core.group.description_record import KIND, DescriptionKey, DescriptionValue
from odradek.core.group.modern.replay import EpochReplay
from odradek.core.group.state import GroupState
from odradek.core.group.streams.descriptions import Descriptions
from odradek.core.group.streams.group import StreamsGroup
from odradek.core.group.streams.member import StreamsMember
from odradek.core.group.streams.records import DescriptionEpochs
from odradek.core.group.streams.tasks import Tasks, task_set
from odradek.core.group.streams.topology import Topology
from odradek.wire.generated.streams_group_metadata_key import StreamsGroupMetadataKey
from odradek.wire.generated.streams_group_metadata_value import StreamsGroupMetadataValue
from odradek.wire.generated.streams_group_target_assignment_member_value import (
    StreamsGroupTargetAssignmentMemberValue,
)
from odradek.wire.generated.streams_group_topology_key import StreamsGroupTopologyKey
from odradek.wire.generated.streams_group_topology_value import StreamsGroupTopologyValue


class StreamsReplay(EpochReplay[StreamsGroup, StreamsMember, Tasks]):
    """Has one method per record type. `by_kind` has the methods."""

    group_class = StreamsGroup
    member_class = StreamsMember

    def __init__(self, state: GroupState, descriptions: Descriptions) -> None:
        super().__init__(state)
        self._descriptions = descriptions
        self.by_kind: Mapping[int, Callable[[Any, Any], None]] = {
            17: self._group_metadata,
            19: self._member_metadata,
            20: self._target_epoch,
            21: self._target,
            22: self._current_assignment,
            23: self._topology,
            KIND: self._description,
        }

    def _set_metadata(self, group: StreamsGroup, value: StreamsGroupMetadataValue) -> None:
        super()._set_metadata(group, value)
        configs = {each.key: each.value for each in value.last_assignment_configs or ()}
        group.set_validation(value.validated_topology_epoch, configs)
        group.set_description_epochs(
            DescriptionEpochs(
                value.stored_description_topology_epoch, value.failed_description_topology_epoch
            )
        )

    def _target_of(self, value: StreamsGroupTargetAssignmentMemberValue) -> Tasks:
        return Tasks(
            task_set(value.active_tasks),
            task_set(value.standby_tasks),
            task_set(value.warmup_tasks),
        )

    def _group_metadata(
        self, key: StreamsGroupMetadataKey, value: StreamsGroupMetadataValue | None
    ) -> None:
        super()._group_metadata(key, value)
        if value is None:
            self._descriptions.forget(key.group_id)

    def _description(self, key: DescriptionKey, value: DescriptionValue | None) -> None:
        self._descriptions.set(key.group_id, value)

    def _topology(
        self, key: StreamsGroupTopologyKey, value: StreamsGroupTopologyValue | None
    ) -> None:
        if value is not None:
            self._known_or_new(key.group_id).set_topology(Topology.of(value))
            return
        known = self._known(key.group_id)
        if known is not None:
            known.set_topology(None)
