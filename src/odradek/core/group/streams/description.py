"""StreamsGroupDescribe: the current state of a group."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from odradek.core.group.streams.assignor import NAME
from odradek.core.group.streams.configuration import ConfiguredTopology, InternalTopic
from odradek.core.group.streams.group import StreamsGroup
from odradek.core.group.streams.member import StreamsMember
from odradek.core.group.streams.tasks import Tasks
from odradek.core.group.streams.topology import Topology
from odradek.wire.generated import streams_group_topology_value as stored
from odradek.wire.generated.streams_group_describe_response import (
    Assignment,
    DescribedGroup,
    Endpoint,
    KeyValue,
    Member,
    Subtopology,
    TaskIds,
    TaskOffset,
    TopicInfo,
)
from odradek.wire.generated.streams_group_describe_response import Topology as DescribedTopology


def describe(group: StreamsGroup) -> DescribedGroup:
    """Return the state, the epochs and the topology of a group, and the tasks of each member."""
    return DescribedGroup(
        group_id=group.group_id,
        group_state=group.state_name,
        group_epoch=group.group_epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=NAME,
        topology=_topology(group.topology, group.configured),
        members=[
            _member(group, each, group.targets.get(each.member_id))
            for each in group.members.values()
        ],
    )


def _topology(
    topology: Topology | None, configured: ConfiguredTopology | None
) -> DescribedTopology | None:
    """Describe a topology, with the computed numbers of partitions if it is ready."""
    if configured is not None and configured.is_ready and configured.subtopologies is not None:
        return DescribedTopology(
            epoch=configured.epoch,
            subtopologies=[
                Subtopology(
                    subtopology_id=subtopology_id,
                    source_topics=sorted(each.source_topics),
                    repartition_sink_topics=sorted(each.repartition_sink_topics),
                    repartition_source_topics=_internal(each.repartition_source_topics),
                    state_changelog_topics=_internal(each.state_changelog_topics),
                )
                for subtopology_id, each in configured.subtopologies.items()
            ],
        )
    if topology is None:
        return None
    return DescribedTopology(
        epoch=topology.epoch,
        subtopologies=[
            Subtopology(
                subtopology_id=subtopology_id,
                source_topics=sorted(each.source_topics),
                repartition_sink_topics=sorted(each.repartition_sink_topics),
                repartition_source_topics=_stored(each.repartition_source_topics),
                state_changelog_topics=_stored(each.state_changelog_topics),
            )
            for subtopology_id, each in sorted(topology.subtopologies.items())
        ],
    )


def _internal(topics: Mapping[str, InternalTopic]) -> list[TopicInfo]:
    return [
        TopicInfo(
            name=name,
            partitions=topics[name].partitions,
            replication_factor=topics[name].replication_factor,
            topic_configs=[
                KeyValue(key=key, value=value)
                for key, value in sorted(topics[name].configs.items())
            ],
        )
        for name in sorted(topics)
    ]


def _stored(topics: Iterable[stored.TopicInfo]) -> list[TopicInfo]:
    return [
        TopicInfo(
            name=each.name,
            partitions=each.partitions,
            replication_factor=each.replication_factor,
            topic_configs=[
                KeyValue(key=config.key, value=config.value) for config in each.topic_configs
            ],
        )
        for each in sorted(topics, key=lambda topic: topic.name)
    ]


def _member(group: StreamsGroup, member: StreamsMember, target: Tasks | None) -> Member:
    endpoint, assigned = member.endpoint, member.assigned
    return Member(
        member_id=member.member_id,
        member_epoch=member.member_epoch,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        topology_epoch=member.topology_epoch,
        process_id=member.process_id,
        user_endpoint=(
            None if endpoint is None else Endpoint(host=endpoint.host, port=endpoint.port)
        ),
        client_tags=[
            KeyValue(key=key, value=value) for key, value in sorted(member.client_tags.items())
        ],
        task_offsets=_offsets(group.task_offsets.get(member.member_id, {})),
        task_end_offsets=_offsets(group.task_end_offsets.get(member.member_id, {})),
        assignment=Assignment(
            active_tasks=_task_ids(assigned.active),
            standby_tasks=_task_ids(assigned.standby),
            warmup_tasks=_task_ids(assigned.warmup),
        ),
        target_assignment=(
            Assignment()
            if target is None
            else Assignment(
                active_tasks=_task_ids(target.active),
                standby_tasks=_task_ids(target.standby),
                warmup_tasks=_task_ids(target.warmup),
            )
        ),
    )


def _offsets(offsets: Mapping[tuple[str, int], int]) -> list[TaskOffset]:
    return [
        TaskOffset(subtopology_id=each, partition=index, offset=offset)
        for (each, index), offset in sorted(offsets.items())
    ]


def _task_ids(tasks: Mapping[str, Iterable[int]]) -> list[TaskIds]:
    return [TaskIds(subtopology_id=each, partitions=sorted(tasks[each])) for each in sorted(tasks)]
