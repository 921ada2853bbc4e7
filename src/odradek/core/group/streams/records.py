"""The records of Streams groups. All keys and values are written in version 0."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from odradek.core.coordinator.record import CoordinatorRecord
from odradek.core.group.description_record import DescriptionKey, DescriptionValue
from odradek.core.group.modern.tombstones import Keys
from odradek.core.group.streams.member import StreamsMember
from odradek.core.group.streams.tasks import HeldTasks, Tasks, TaskSet
from odradek.wire.generated.streams_group_current_member_assignment_key import (
    StreamsGroupCurrentMemberAssignmentKey,
)
from odradek.wire.generated.streams_group_current_member_assignment_value import (
    StreamsGroupCurrentMemberAssignmentValue,
)
from odradek.wire.generated.streams_group_current_member_assignment_value import (
    TaskIds as CurrentTaskIds,
)
from odradek.wire.generated.streams_group_member_metadata_key import StreamsGroupMemberMetadataKey
from odradek.wire.generated.streams_group_member_metadata_value import (
    Endpoint,
    KeyValue,
    StreamsGroupMemberMetadataValue,
)
from odradek.wire.generated.streams_group_metadata_key import StreamsGroupMetadataKey
from odradek.wire.generated.streams_group_metadata_value import (
    LastAssignmentConfig,
    StreamsGroupMetadataValue,
)
from odradek.wire.generated.streams_group_target_assignment_member_key import (
    StreamsGroupTargetAssignmentMemberKey,
)
from odradek.wire.generated.streams_group_target_assignment_member_value import (
    StreamsGroupTargetAssignmentMemberValue,
    TaskIds,
)
from odradek.wire.generated.streams_group_target_assignment_metadata_key import (
    StreamsGroupTargetAssignmentMetadataKey,
)
from odradek.wire.generated.streams_group_target_assignment_metadata_value import (
    StreamsGroupTargetAssignmentMetadataValue,
)
from odradek.wire.generated.streams_group_topology_key import StreamsGroupTopologyKey
from odradek.wire.generated.streams_group_topology_value import StreamsGroupTopologyValue

NO_DESCRIPTION: Final = -1


class DescriptionEpochs(NamedTuple):
    """The epochs of the topologies whose descriptions are stored, or cannot be stored."""

    stored: int = NO_DESCRIPTION
    failed: int = NO_DESCRIPTION


def group_metadata(
    group_id: str,
    epoch: int,
    metadata_hash: int,
    validated_topology_epoch: int,
    assignment_configs: Mapping[str, str],
    descriptions: DescriptionEpochs,
) -> CoordinatorRecord:
    """Return the record of the group epoch."""
    value = StreamsGroupMetadataValue(
        epoch=epoch,
        metadata_hash=metadata_hash,
        validated_topology_epoch=validated_topology_epoch,
        last_assignment_configs=[
            LastAssignmentConfig(key=key, value=text) for key, text in assignment_configs.items()
        ],
        stored_description_topology_epoch=descriptions.stored,
        failed_description_topology_epoch=descriptions.failed,
    )
    return CoordinatorRecord(StreamsGroupMetadataKey(group_id=group_id), value)


def description(group_id: str, value: DescriptionValue | None) -> CoordinatorRecord:
    """Return the record of the description of the topology. None deletes it."""
    return CoordinatorRecord(DescriptionKey(group_id=group_id), value)


def topology(group_id: str, value: StreamsGroupTopologyValue) -> CoordinatorRecord:
    """Return the record of the topology."""
    return CoordinatorRecord(StreamsGroupTopologyKey(group_id=group_id), value)


def member_metadata(group_id: str, member: StreamsMember) -> CoordinatorRecord:
    """Return the record of a member's description of itself."""
    endpoint = member.endpoint
    value = StreamsGroupMemberMetadataValue(
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        topology_epoch=member.topology_epoch,
        process_id=member.process_id,
        user_endpoint=(
            None if endpoint is None else Endpoint(host=endpoint.host, port=endpoint.port)
        ),
        client_tags=[
            KeyValue(key=key, value=member.client_tags[key]) for key in sorted(member.client_tags)
        ],
    )
    key = StreamsGroupMemberMetadataKey(group_id=group_id, member_id=member.member_id)
    return CoordinatorRecord(key, value)


def target_assignment(group_id: str, member_id: str, tasks: Tasks) -> CoordinatorRecord:
    """Return the record of a member's target assignment."""
    value = StreamsGroupTargetAssignmentMemberValue(
        active_tasks=_task_ids(tasks.active),
        standby_tasks=_task_ids(tasks.standby),
        warmup_tasks=_task_ids(tasks.warmup),
    )
    key = StreamsGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id)
    return CoordinatorRecord(key, value)


def _task_ids(tasks: TaskSet) -> list[TaskIds]:
    return [TaskIds(subtopology_id=each, partitions=sorted(tasks[each])) for each in sorted(tasks)]


def target_epoch(group_id: str, epoch: int, timestamp_ms: int) -> CoordinatorRecord:
    """Return the record of the epoch of the target assignment."""
    value = StreamsGroupTargetAssignmentMetadataValue(
        assignment_epoch=epoch, assignment_timestamp=timestamp_ms
    )
    return CoordinatorRecord(StreamsGroupTargetAssignmentMetadataKey(group_id=group_id), value)


def current_assignment(group_id: str, member: StreamsMember) -> CoordinatorRecord:
    """Return the record of a member's epochs, state and tasks."""
    pending = member.pending_revocation
    value = StreamsGroupCurrentMemberAssignmentValue(
        member_epoch=member.member_epoch,
        previous_member_epoch=member.previous_member_epoch,
        state=member.state,
        active_tasks=_held_ids(member.assigned.active),
        standby_tasks=_current_ids(member.assigned.standby),
        warmup_tasks=_current_ids(member.assigned.warmup),
        active_tasks_pending_revocation=_held_ids(pending.active),
        standby_tasks_pending_revocation=_current_ids(pending.standby),
        warmup_tasks_pending_revocation=_current_ids(pending.warmup),
    )
    key = StreamsGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member.member_id)
    return CoordinatorRecord(key, value)


def _held_ids(tasks: HeldTasks) -> list[CurrentTaskIds]:
    return [
        CurrentTaskIds(
            subtopology_id=each,
            partitions=sorted(tasks[each]),
            assignment_epochs=[tasks[each][partition] for partition in sorted(tasks[each])],
        )
        for each in sorted(tasks)
    ]


def _current_ids(tasks: TaskSet) -> list[CurrentTaskIds]:
    return [
        CurrentTaskIds(subtopology_id=each, partitions=sorted(tasks[each]), assignment_epochs=None)
        for each in sorted(tasks)
    ]


# -- tombstones ---------------------------------------------------------------------------------

KEYS = Keys(
    StreamsGroupCurrentMemberAssignmentKey,
    StreamsGroupTargetAssignmentMemberKey,
    StreamsGroupMemberMetadataKey,
    StreamsGroupTargetAssignmentMetadataKey,
)
member_tombstones = KEYS.of_member


def group_tombstones(
    group_id: str, member_ids: Iterable[str], *, has_description: bool
) -> list[CoordinatorRecord]:
    """Return the tombstones of a group."""
    others = [
        *((description(group_id, None),) if has_description else ()),
        CoordinatorRecord(StreamsGroupMetadataKey(group_id=group_id), None),
        CoordinatorRecord(StreamsGroupTopologyKey(group_id=group_id), None),
    ]
    return KEYS.of_group(group_id, member_ids, others)
