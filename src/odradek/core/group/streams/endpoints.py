"""Returns the partitions that the process at each endpoint has, for queries of a key (KIP-535)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from odradek.core.group.streams.configuration import ConfiguredSubtopology
from odradek.core.group.streams.group import StreamsGroup
from odradek.core.group.streams.member import StreamsMember
from odradek.core.metadata.image import TopicsImage
from odradek.model.java_order import timeline_order
from odradek.wire.generated.streams_group_heartbeat_response import (
    Endpoint,
    EndpointToPartitions,
    TopicPartition,
)


def partitions_by_endpoint(
    group: StreamsGroup,
    changed: StreamsMember,
    topics: TopicsImage,
    replaced: StreamsMember | None = None,
) -> list[EndpointToPartitions]:
    """Return the partitions of all members with an endpoint.

    `changed` is a member that has changed, and `replaced` the static member that it replaces. The
    group still has its former state.
    """
    gone = {changed.member_id, *(() if replaced is None else (replaced.member_id,))}
    others = [
        group.members[each]
        for each in timeline_order(group.members, group.member_slots)
        if each not in gone
    ]
    subtopologies = group.configured.subtopologies if group.configured is not None else None
    if subtopologies is None:
        return []
    return [
        EndpointToPartitions(
            user_endpoint=Endpoint(host=member.endpoint.host, port=member.endpoint.port),
            active_partitions=_partitions(member.assigned.active, subtopologies, topics),
            standby_partitions=_partitions(_copies(member), subtopologies, topics),
        )
        for member in (*others, changed)
        if member.endpoint is not None
    ]


def _copies(member: StreamsMember) -> dict[str, set[int]]:
    """Return the standby and warm-up tasks of a member."""
    found: dict[str, set[int]] = {}
    for tasks in (member.assigned.standby, member.assigned.warmup):
        for each, partitions in tasks.items():
            found.setdefault(each, set()).update(partitions)
    return found


def _partitions(
    tasks: Mapping[str, Iterable[int]],
    subtopologies: Mapping[str, ConfiguredSubtopology],
    topics: TopicsImage,
) -> list[TopicPartition]:
    """Return the partitions of the source topics of tasks. Topics without any are left out."""
    found = []
    for subtopology_id, partitions in tasks.items():
        subtopology = subtopologies.get(subtopology_id)
        if subtopology is None:
            continue
        for name in sorted({*subtopology.source_topics, *subtopology.repartition_source_topics}):
            topic = topics.by_name.get(name)
            if topic is not None:
                present = sorted(each for each in partitions if each < len(topic.partitions))
                if present:
                    found.append(TopicPartition(topic=name, partitions=present))
    return found
